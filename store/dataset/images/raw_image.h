#pragma once
// RawImage contains the decoded pixels of one image file. This header also declares the decoders.
//
// JPEG: libjpeg-turbo with its integer inverse transform (JDCT_ISLOW). Chroma samples are repeated
// and not interpolated (do_fancy_upsampling is off, because it differs between versions of the
// library), and incomplete progressive files are not smoothed. This is integer arithmetic with the
// same bits in every build of the library. Grey, YCbCr, RGB, CMYK and YCCK files are read.
//
// PNG: libpng. The lower 8 of 16 bits are dropped, palettes and grey are expanded, and transparency
// and gamma are ignored.
//
// The kind is recognised by the first bytes and not by the file's name, because published data sets
// contain files with wrong names. Thread-safe. The memory of an image is bounded before it is
// allocated.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

inline constexpr std::uint64_t kImageFileBytesMax = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kImagePixelsMax = std::uint64_t{64} << 20;
inline constexpr std::uint32_t kImageSideMax = 65'500;  // libjpeg's own limit

// [height][width][3]: red, green, blue.
struct RawImage {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::vector<std::uint8_t> pixels;
};

// Decodes the bytes of a file; `file` is its name in errors. The memory of `image` is reused. Error
// (usage): not JPEG or PNG, damaged, cut or too large; with the library's reason, as far as it
// reveals no content.
Status decode_image(std::string_view bytes, const std::string& file, RawImage& image);

// The two decoders. REQUIRES: the bytes begin with the signature of the format.
Status decode_jpeg(std::string_view bytes, const std::string& file, RawImage& image);
Status decode_png(std::string_view bytes, const std::string& file, RawImage& image);

// Error (usage): the sides of an image are outside of the limits above.
Status check_image_size(const std::string& file, std::uint64_t height, std::uint64_t width);

}  // namespace es::store
