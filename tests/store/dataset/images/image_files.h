#pragma once
// Makes small JPEG and PNG files for tests.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

// jpeglib.h needs the includes above.
#include <jpeglib.h>
#include <png.h>

#include "store/dataset/images/raw_image.h"

namespace es::test {

// A picture with gradients in all channels.
inline store::RawImage picture(std::uint32_t height, std::uint32_t width) {
  store::RawImage image{height, width, {}};
  for (std::uint32_t y = 0; y < height; ++y)
    for (std::uint32_t x = 0; x < width; ++x) {
      image.pixels.push_back(static_cast<std::uint8_t>(37 * x + 101 * y));
      image.pixels.push_back(static_cast<std::uint8_t>(x * x * 13 + y * 7));
      image.pixels.push_back(static_cast<std::uint8_t>(255 - (x * y * 29) % 256));
    }
  return image;
}

// A picture without sharp edges, which JPEG changes very little.
inline store::RawImage smooth_picture(std::uint32_t height, std::uint32_t width) {
  store::RawImage image{height, width, {}};
  for (std::uint32_t y = 0; y < height; ++y)
    for (std::uint32_t x = 0; x < width; ++x)
      for (const std::uint32_t value : {200 * x / width, 200 * y / height, 100 * (x + y) / width})
        image.pixels.push_back(static_cast<std::uint8_t>(20 + value % 230));
  return image;
}

struct JpegOptions {
  int quality = 95;
  bool progressive = false;
  bool grey = false;
  bool cmyk = false;  // The complements of the three colours and no black, as Adobe writes them.
  bool half_chroma = false;
};

// One row in the colour space of the file.
inline std::string jpeg_row(const std::uint8_t* rgb, std::uint32_t width, const JpegOptions& o) {
  std::string row;
  for (std::uint32_t x = 0; x < width; ++x, rgb += 3) {
    if (o.grey) {
      row += static_cast<char>(rgb[0]);
      continue;
    }
    for (int c = 0; c < 3; ++c) row += static_cast<char>(rgb[c]);
    if (o.cmyk) row += '\xff';
  }
  return row;
}

inline std::string make_jpeg(const store::RawImage& image, const JpegOptions& o = {}) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = image.width;
  jpeg.image_height = image.height;
  jpeg.input_components = o.grey ? 1 : o.cmyk ? 4 : 3;
  jpeg.in_color_space = o.grey ? JCS_GRAYSCALE : o.cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, o.quality, TRUE);
  if (o.progressive) jpeg_simple_progression(&jpeg);
  if (!o.grey)
    jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1 + o.half_chroma;
  jpeg_start_compress(&jpeg, TRUE);
  for (std::uint32_t y = 0; y < image.height; ++y) {
    std::string row = jpeg_row(&image.pixels[std::size_t{y} * image.width * 3], image.width, o);
    JSAMPROW pointer = reinterpret_cast<JSAMPROW>(row.data());
    jpeg_write_scanlines(&jpeg, &pointer, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string result(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return result;
}

enum class PngKind { kColour, kGrey, kAlpha, kPalette, kDeep, kInterlaced };

inline void append_png_bytes(png_structp png, png_bytep bytes, png_size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(bytes), size);
}

inline std::string png_row(const std::uint8_t* rgb, std::uint32_t width, PngKind kind) {
  std::string row;
  for (std::uint32_t x = 0; x < width; ++x, rgb += 3) {
    if (kind == PngKind::kGrey || kind == PngKind::kPalette) {
      row += static_cast<char>(kind == PngKind::kGrey ? rgb[0] : rgb[0] % 4);
      continue;
    }
    for (int c = 0; c < 3; ++c) {
      row += static_cast<char>(rgb[c]);
      if (kind == PngKind::kDeep) row += '\x7f';
    }
    if (kind == PngKind::kAlpha) row += '\x11';
  }
  return row;
}

inline std::string make_png(const store::RawImage& image, PngKind kind = PngKind::kColour) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &bytes, append_png_bytes, nullptr);
  const int colour = kind == PngKind::kGrey      ? PNG_COLOR_TYPE_GRAY
                     : kind == PngKind::kAlpha   ? PNG_COLOR_TYPE_RGB_ALPHA
                     : kind == PngKind::kPalette ? PNG_COLOR_TYPE_PALETTE
                                                 : PNG_COLOR_TYPE_RGB;
  png_set_IHDR(png, info, image.width, image.height, kind == PngKind::kDeep ? 16 : 8, colour,
               kind == PngKind::kInterlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  const png_color palette[] = {{0, 0, 0}, {10, 20, 30}, {40, 50, 60}, {70, 80, 90}};
  if (kind == PngKind::kPalette) png_set_PLTE(png, info, palette, 4);
  png_write_info(png, info);
  for (int pass = png_set_interlace_handling(png); pass > 0; --pass)
    for (std::uint32_t y = 0; y < image.height; ++y) {
      std::string row = png_row(&image.pixels[std::size_t{y} * image.width * 3], image.width, kind);
      png_write_row(png, reinterpret_cast<png_bytep>(row.data()));
    }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace es::test
