#pragma once
// The images of synthetic detection; box_source.cc describes their contents.
//   ground   pixel = (128 + noise) / 2     (integers, rounded down)
//   object   pixel = (176 * cell + 80 * ground) / 256
#include <cstdint>
#include <span>
#include <vector>

#include "store/dataset/layouts.h"
#include "store/dataset/record_source.h"

namespace es::store {

class SyntheticBoxes {
 public:
  // REQUIRES: sides of at least 8 pixels, 3 channels, and no value is zero.
  SyntheticBoxes(const ImageShape& shape, std::uint32_t classes, std::uint32_t boxes_max);

  std::vector<TrueBox> boxes(Half half, std::uint64_t index) const;
  // REQUIRES: out.size() == shape.pixel_bytes().
  void draw(Half half, std::uint64_t index, std::span<std::uint8_t> out) const;

 private:
  // In pixels: rows [y, y + h), columns [x, x + w).
  struct Object {
    std::uint32_t label = 0;
    std::uint32_t y = 0, x = 0, h = 0, w = 0;
  };
  std::vector<Object> objects(Half half, std::uint64_t index) const;
  void paint(const Object& object, std::span<std::uint8_t> out) const;

  ImageShape shape_;
  std::uint32_t classes_;
  std::uint32_t boxes_max_;
};

}  // namespace es::store
