#pragma once
// Bilinear resizing of a part of an image, as Pillow does it by crop(box).resize(size, BILINEAR):
// first the rows, then the columns, each output pixel a weighted mean of the input pixels below a
// triangle whose half-width is the larger of 1 and the scale (so shrinking smooths).
//
// Weights are computed in fp64 (+ - * /) and rounded to multiples of 2^-22; the rest is integer
// arithmetic with a rounding to 8 bits after each direction. So the bits are the same everywhere.
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

// Writes [height][width][3] to `out`. REQUIRES: the box is not empty and lies in the image; height
// and width are positive; out.size() == height * width * 3.
void resize_bilinear(const RawImage& image, const PixelBox& box, std::uint32_t height,
                     std::uint32_t width, std::span<std::uint8_t> out);

}  // namespace es::store
