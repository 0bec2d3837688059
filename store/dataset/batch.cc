#include "store/dataset/batch.h"

#include <algorithm>
#include <array>

#include "proto/base/check.h"
#include "store/dataset/stream_key.h"

namespace es::store {
namespace {

constexpr std::array<float, 256> make_normalised() {
  std::array<float, 256> values{};
  for (int pixel = 0; pixel < 256; ++pixel)
    values[pixel] = (static_cast<float>(pixel) / 255.0f - 0.5f) / 0.5f;
  return values;
}
constexpr std::array<float, 256> kNormalised = make_normalised();

// How a training image is shifted and mirrored. Row y of the result is row y + offset_y of the
// source, or padding where there is none; columns alike, counted from the right when mirrored.
struct View {
  std::int64_t offset_y = 0;
  std::int64_t offset_x = 0;
  bool mirrored = false;
};

View draw_view(const Augmentation& augmentation, std::uint64_t epoch, std::uint64_t sample) {
  const PhiloxKey key = stream_key(augmentation.seed, DataStream::kAugmentation, epoch);
  const auto words = philox4x32_10(index_counter(sample), key);
  const std::uint32_t padding = augmentation.crop_padding;
  return {.offset_y = std::int64_t{below(2 * padding + 1, words[0])} - padding,
          .offset_x = std::int64_t{below(2 * padding + 1, words[1])} - padding,
          .mirrored = augmentation.flip && (words[2] >> 31) != 0};
}

void write_row(std::span<const std::uint8_t> source, const ImageShape& shape, const View& view,
               std::span<float> out) {
  for (std::int64_t x = 0; x < shape.width; ++x) {
    const std::int64_t column = (view.mirrored ? shape.width - 1 - x : x) + view.offset_x;
    const bool inside = column >= 0 && column < shape.width;
    for (std::uint32_t c = 0; c < shape.channels; ++c)
      out[x * shape.channels + c] = kNormalised[inside ? source[column * shape.channels + c] : 0];
  }
}

void write_image(std::span<const std::uint8_t> source, const ImageShape& shape, const View& view,
                 std::span<float> out) {
  const std::size_t row_size = std::size_t{shape.width} * shape.channels;
  for (std::int64_t y = 0; y < shape.height; ++y) {
    const std::span<float> out_row = out.subspan(y * row_size, row_size);
    const std::int64_t row = y + view.offset_y;
    if (row < 0 || row >= shape.height)
      std::fill(out_row.begin(), out_row.end(), kNormalised[0]);
    else
      write_row(source.subspan(row * row_size, row_size), shape, view, out_row);
  }
}

}  // namespace

void fill_batch(const ImageDataset& dataset, const EpochSampler& sampler,
                const Augmentation& augmentation, DataCursor at, VirtualRank rank,
                std::span<float> images, std::span<std::int32_t> labels) {
  const std::size_t size = dataset.shape.pixel_bytes();
  ES_CHECK(sampler.samples() == dataset.train.count());
  ES_CHECK(labels.size() == sampler.batch_size() && images.size() == labels.size() * size);
  for (std::uint32_t i = 0; i < sampler.batch_size(); ++i) {
    const std::uint64_t sample = sampler.sample(at, rank, i);
    labels[i] = dataset.train.labels[sample];
    write_image(dataset.image(dataset.train, sample), dataset.shape,
                draw_view(augmentation, at.epoch, sample), images.subspan(i * size, size));
  }
}

void fill_eval_batch(const ImageDataset& dataset, std::uint64_t begin, std::span<float> images,
                     std::span<std::int32_t> labels) {
  const std::size_t size = dataset.shape.pixel_bytes();
  ES_CHECK(begin <= dataset.eval.count() && labels.size() <= dataset.eval.count() - begin);
  ES_CHECK(images.size() == labels.size() * size);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = dataset.eval.labels[begin + i];
    write_image(dataset.image(dataset.eval, begin + i), dataset.shape, View{},
                images.subspan(i * size, size));
  }
}

}  // namespace es::store
