#pragma once
// Images of any shape that need no file and that a model can learn to classify.
//
// Each class has a template of 4 x 4 coarse cells per channel with random brightness. An image is
// the template of its class, shifted cyclically by up to an eighth of each side and mixed with
// noise:
//   pixel = (96 * template + 160 * noise) / 256     (integers, rounded down)
// Image i of a half has the label i mod classes. Everything is drawn by Philox from (half, image,
// pixel) when it is requested, so image i is the same for any count and on any machine. There is no
// seed: a shape and a number of classes define one data set.
#include <cstdint>
#include <span>
#include <vector>

#include "store/dataset/layouts.h"
#include "store/dataset/record_source.h"

namespace es::store {

class SyntheticImages {
 public:
  // REQUIRES: no value is zero.
  SyntheticImages(const ImageShape& shape, std::uint32_t classes);

  const ImageShape& shape() const { return shape_; }
  std::uint32_t classes() const { return classes_; }
  std::int32_t label(std::uint64_t index) const {
    return static_cast<std::int32_t>(index % classes_);
  }
  // Writes image `index` of a half. REQUIRES: out.size() == shape().pixel_bytes().
  void draw(Half half, std::uint64_t index, std::span<std::uint8_t> out) const;

 private:
  ImageShape shape_;
  std::uint32_t classes_;
};

}  // namespace es::store
