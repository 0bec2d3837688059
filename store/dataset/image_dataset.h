#pragma once
// ImageDataset: a labelled set of images held in memory, with a training and an evaluation half.
//
// Pixels are the raw bytes of the source (0..255), NHWC, image after image. A plain value that
// nothing changes after it was made, so any number of threads may read it.
#include <cstdint>
#include <span>
#include <vector>

#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::store {

struct ImageShape {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;

  std::size_t pixel_bytes() const { return std::size_t{height} * width * channels; }
  bool operator==(const ImageShape&) const = default;
};

// One half of a dataset. Invariant: pixels.size() == labels.size() * shape.pixel_bytes().
struct ImageSet {
  std::vector<std::uint8_t> pixels;  // [count, height, width, channels]
  std::vector<std::int32_t> labels;  // [count], each in [0, classes)

  std::uint64_t count() const { return labels.size(); }
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

// The dataset that a job spec names: IDX files (idx_reader.h) or synthetic images
// (synthetic_images.h). `classes` = model.classes: every label must be below it.
// Errors: usage or not found, naming the file and the field.
Result<ImageDataset> open_dataset(const DataSpec& spec, std::uint32_t classes);

}  // namespace es::store
