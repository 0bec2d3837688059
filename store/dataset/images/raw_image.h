#pragma once
// RawImage: the decoded pixels of one image file, and the decoders.
//
// JPEG: libjpeg-turbo with its integer inverse transform (JDCT_ISLOW), chroma samples repeated and
// not interpolated (do_fancy_upsampling off, which differs between versions of the library), no
// smoothing of incomplete progressive files. These are integer arithmetic, the same bits in every
// build of the library. Grey, YCbCr, RGB, CMYK and YCCK files are read.
// PNG: libpng; 16 bits per channel lose the lower 8, palettes and grey are expanded, transparency
// and gamma are ignored.
//
// The kind is recognised by the first bytes, whatever the file's name: published sets have files
// with wrong names. Thread-safe; the memory of an image is bounded before it is taken.
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

// Decodes the file's bytes; `file` is its name for messages. The memory of `image` is used again.
// Error (usage): not JPEG or PNG, damaged, cut short, too large; with the library's reason,
// as far as it says nothing of the content.
Status decode_image(std::string_view bytes, const std::string& file, RawImage& image);

// The two decoders. REQUIRES: the bytes begin as the format does.
Status decode_jpeg(std::string_view bytes, const std::string& file, RawImage& image);
Status decode_png(std::string_view bytes, const std::string& file, RawImage& image);

// Error (usage) when the sides of an image are outside the limits above.
Status check_image_size(const std::string& file, std::uint64_t height, std::uint64_t width);

}  // namespace es::store
