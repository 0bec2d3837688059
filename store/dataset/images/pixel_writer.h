#pragma once
// PixelWriter converts the bytes of an image to the numbers that a model reads.
//
//   normalise = half      value = (pixel / 255 - 0.5) / 0.5, which maps [0, 255] to [-1, 1]
//   normalise = imagenet  value = (pixel / 255 - mean[c]) / deviation[c], with the values of
//                         torchvision's models: mean 0.485, 0.456, 0.406, deviation 0.229,
//                         0.224, 0.225 of red, green and blue
//
// The arithmetic is fp32, in this order.
//
// Training images may be shifted and mirrored. A shift takes a crop of the image after crop_padding
// pixels of value 0 are added on every side; each offset is uniform over 2 * crop_padding + 1
// values. The flip exchanges left and right with probability 1/2. Both are drawn by Philox from
// (seed, epoch, index of the sample), so they depend on the sample and not on the worker that loads
// it.
//
// Immutable, thread-safe.
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "proto/base/job_spec.h"
#include "store/dataset/layouts.h"

namespace es::store {

// Shift and flip of a training image. Row y of the result is row y + offset_y of the source, or
// padding if that row does not exist. Columns are treated in the same way, counted from the right
// if mirrored.
struct View {
  std::int64_t offset_y = 0;
  std::int64_t offset_x = 0;
  bool mirrored = false;
};

// The numbers of the formula above, one for each of the channels red, green and blue.
// data.normalise chooses them.
struct Normalisation {
  std::array<float, 3> mean, deviation;
};
const Normalisation& normalisation(const DataSpec& spec);

// The field with the pixels of the images of a job; nullopt if the job reads no images, or images
// as numbers (arrays).
std::optional<std::size_t> pixel_field(const JobSpec& spec, const SampleLayout& layout);

class PixelWriter {
 public:
  // Error (usage): normalise = imagenet with a number of channels other than 3.
  static Result<PixelWriter> create(const ImageShape& shape, const DataSpec& spec,
                                    std::uint64_t seed);

  const ImageShape& shape() const { return shape_; }
  View draw_view(std::uint64_t epoch, std::uint64_t sample) const;

  // REQUIRES: both spans have shape().pixel_bytes() elements.
  void write(std::span<const std::uint8_t> pixels, const View& view, std::span<float> out) const;

 private:
  // [channel][pixel]; all channels are equal unless normalise = imagenet.
  using Table = std::array<std::array<float, 256>, 3>;

  const std::array<float, 256>& values(std::uint32_t channel) const {
    return table_[by_channel_ ? channel : 0];
  }
  void write_row(std::span<const std::uint8_t> source, const View& view,
                 std::span<float> out) const;
  void write_padding(std::span<float> row) const;

  ImageShape shape_;
  bool by_channel_ = false;
  Table table_{};
  std::uint32_t crop_padding_ = 0;
  bool flip_ = false;
  std::uint64_t seed_ = 0;
};

}  // namespace es::store
