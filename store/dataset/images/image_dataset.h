#pragma once
// ImageDataset is a labelled set of images in memory, with a training half and an evaluation half.
//
// Pixels are the raw bytes of the source (0..255), NHWC, image after image. A plain value that does
// not change after its construction, so any number of threads may read it.
#include <cstdint>
#include <span>
#include <vector>

#include "store/dataset/layouts.h"

namespace es::store {

// One half of a data set. Invariant: pixels.size() == labels.size() * shape.pixel_bytes().
struct ImageSet {
  std::vector<std::uint8_t> pixels;  // [count, height, width, channels]
  std::vector<std::int32_t> labels;  // [count], each in [0, classes)

  std::uint64_t count() const { return labels.size(); }
};

// What a job has to know about a data set before it reads the pixels.
struct ImageCounts {
  ImageShape shape;
  std::uint64_t train = 0;
  std::uint64_t eval = 0;
};

struct ImageDataset {
  ImageShape shape;
  std::uint32_t classes = 0;
  ImageSet train;
  ImageSet eval;

  // Raw pixels of image `index` of `set`. REQUIRES: set is train or eval; index < set.count().
  std::span<const std::uint8_t> image(const ImageSet& set, std::uint64_t index) const {
    return std::span(set.pixels).subspan(index * shape.pixel_bytes(), shape.pixel_bytes());
  }
};

}  // namespace es::store
