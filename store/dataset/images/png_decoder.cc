// libpng reports errors by a function that must not return; it jumps back to where decoding began.
// The functions in between have no objects with destructors, so the jump skips none.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "store/dataset/images/raw_image.h"
#include "store/field_error.h"

namespace es::store {
namespace {

struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string_view rest;  // remaining bytes of the file
  char message[200] = "";
  std::jmp_buf start;

  ~PngState() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void stop(png_structp png, png_const_charp message) {
  PngState& decoder = *static_cast<PngState*>(png_get_error_ptr(png));
  // libpng's own messages begin with the name of the chunk, which is content of the file. The text
  // after it is one of a fixed list.
  const char* const text = std::strstr(message, ": ");
  std::strncpy(decoder.message, text != nullptr ? text + 2 : message, sizeof decoder.message - 1);
  std::longjmp(decoder.start, 1);
}

void ignore(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep out, std::size_t size) {
  PngState& decoder = *static_cast<PngState*>(png_get_io_ptr(png));
  if (decoder.rest.size() < size) stop(png, "the file is cut short");
  std::memcpy(out, decoder.rest.data(), size);
  decoder.rest.remove_prefix(size);
}

// Reads the header and requests 8-bit red, green and blue. Returns false after an error, with a
// message in the decoder.
bool read_header(PngState& decoder) {
  if (setjmp(decoder.start) != 0) return false;
  png_structp png = decoder.png;
  png_set_read_fn(png, &decoder, read_bytes);
  // The header may claim any size. It is refused before libpng allocates rows of that size.
  png_set_user_limits(png, kImageSideMax, kImageSideMax);
  png_read_info(png, decoder.info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  return true;
}

bool read_pixels(PngState& decoder, png_bytep pixels, std::uint32_t height, std::size_t row_bytes) {
  const int passes = png_set_interlace_handling(decoder.png);
  if (setjmp(decoder.start) != 0) return false;
  for (int pass = 0; pass < passes; ++pass)
    for (std::uint32_t y = 0; y < height; ++y)
      png_read_row(decoder.png, pixels + y * row_bytes, nullptr);
  png_read_end(decoder.png, nullptr);
  return true;
}

}  // namespace

Status decode_png(std::string_view bytes, const std::string& file, RawImage& image) {
  PngState decoder;
  const auto bad = [&] {
    return usage_error(file + ": damaged PNG image (" + decoder.message +
                       "): allowed is a complete one");
  };
  decoder.rest = bytes;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, stop, ignore);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) return failure(file + ": libpng cannot be started");
  if (!read_header(decoder)) return bad();
  const std::uint32_t height = png_get_image_height(decoder.png, decoder.info);
  const std::uint32_t width = png_get_image_width(decoder.png, decoder.info);
  ES_RETURN_IF_ERROR(check_image_size(file, height, width));
  const std::size_t row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  if (row_bytes != std::size_t{width} * 3)
    return bad_field(file, "bytes of a row", std::to_string(row_bytes), std::to_string(width * 3));
  image.height = height;
  image.width = width;
  image.pixels.assign(height * row_bytes, 0);
  if (!read_pixels(decoder, image.pixels.data(), height, row_bytes)) return bad();
  return {};
}

}  // namespace es::store
