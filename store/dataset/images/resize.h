#pragma once
// Bilinear resizing of a part of an image, like Pillow's crop(box).resize(size, BILINEAR). Rows are
// resized first, then columns. Each output pixel is a weighted mean of the input pixels under a
// triangle whose half-width is the larger of 1 and the scale, so shrinking smooths the image.
//
// Weights are computed in fp64 (+ - * /) and rounded to multiples of 2^-22. The rest is integer
// arithmetic with rounding to 8 bits after each direction, so the bits are the same everywhere.
#include <cstdint>
#include <span>
#include <vector>

#include "store/dataset/images/raw_image.h"

namespace es::store {

// Rows [y, y + height) and columns [x, x + width) of an image.
struct PixelBox {
  std::uint32_t y = 0, x = 0;
  std::uint32_t height = 0, width = 0;
  bool operator==(const PixelBox&) const = default;
};

// Writes [height][width][3] to `out`. REQUIRES: the box is not empty and inside of the image;
// height and width are positive; out.size() == height * width * 3.
void resize_bilinear(const RawImage& image, const PixelBox& box, std::uint32_t height,
                     std::uint32_t width, std::span<std::uint8_t> out);

}  // namespace es::store
