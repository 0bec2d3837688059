#pragma once
// Makes the image of a sample of classification from a decoded file.
//
// With data.random_resized_crop, training images are random crops, and evaluation images are the
// central 7/8 (crop.h). Otherwise both are the largest central box with the aspect ratio of height
// and width. A box is resized (resize.h), then shifted, mirrored and normalised (pixel_writer.h).
//
// Immutable, thread-safe.
#include "store/dataset/images/pixel_writer.h"
#include "store/dataset/images/resize.h"
#include "store/dataset/record_source.h"

namespace es::store {

class AugmentedImage {
 public:
  // Error (usage): data.channels is neither 1 nor 3; normalise does not fit it.
  static Result<AugmentedImage> create(const JobSpec& spec);

  const ImageShape& shape() const { return writer_.shape(); }

  // Writes scratch.decoded as the image of the sample `index`, a pure function of the seed of the
  // job, (half, epoch, index) and the pixels. REQUIRES: out.size() == shape().pixel_bytes().
  void write(Half half, std::uint64_t epoch, std::uint64_t index, Scratch& scratch,
             std::span<float> out) const;

 private:
  AugmentedImage(const JobSpec& spec, PixelWriter writer)
      : seed_(spec.seed), random_crop_(spec.data.random_resized_crop), writer_(std::move(writer)) {}

  PixelBox box(Half half, std::uint64_t epoch, std::uint64_t index, const RawImage& image) const;

  std::uint64_t seed_;
  bool random_crop_;
  PixelWriter writer_;
};

}  // namespace es::store
