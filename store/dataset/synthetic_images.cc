#include "store/dataset/synthetic_images.h"

#include <array>
#include <string>

#include "store/dataset/stream_key.h"

namespace es::store {
namespace {

constexpr std::uint32_t kCells = 4;  // of the template, along each side
constexpr std::uint32_t kTemplateWeight = 96;
constexpr std::uint32_t kNoiseWeight = 160;
constexpr std::uint32_t kShiftBlock = 0xffffffff;  // noise blocks count from 0 and never get there

using Block = std::array<std::uint8_t, 16>;

Block random_bytes(PhiloxCounter counter, PhiloxKey key) {
  const auto words = philox4x32_10(counter, key);
  Block bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(words[i / 4] >> (8 * (i % 4)));
  return bytes;
}

// Brightness of the class's template, [channel][cell row][cell column].
std::vector<std::uint8_t> class_template(std::uint32_t label, std::uint32_t channels) {
  static_assert(kCells * kCells == std::tuple_size_v<Block>);
  const PhiloxKey key = stream_key(0, DataStream::kSyntheticTemplate, 0);
  std::vector<std::uint8_t> cells;
  for (std::uint32_t c = 0; c < channels; ++c) {
    const Block block = random_bytes({label, c, 0, 0}, key);
    cells.insert(cells.end(), block.begin(), block.end());
  }
  return cells;
}

// Cell of pixel `position` of a side of `size` pixels after a cyclic shift.
std::uint32_t cell_of(std::uint32_t position, std::uint32_t shift, std::uint32_t size) {
  const std::uint64_t shifted = (std::uint64_t{position} + shift) % size;
  return static_cast<std::uint32_t>(shifted * kCells / size);
}

void draw_image(const ImageShape& shape, std::uint32_t label, std::uint64_t index, PhiloxKey key,
                std::span<std::uint8_t> out) {
  const std::vector<std::uint8_t> cells = class_template(label, shape.channels);
  const auto shift = philox4x32_10(index_counter(index, kShiftBlock), key);
  const std::uint32_t shift_y = below(shape.height / 8 + 1, shift[0]);
  const std::uint32_t shift_x = below(shape.width / 8 + 1, shift[1]);
  Block noise{};
  std::size_t pixel = 0;
  for (std::uint32_t y = 0; y < shape.height; ++y) {
    const std::uint32_t row = cell_of(y, shift_y, shape.height);
    for (std::uint32_t x = 0; x < shape.width; ++x) {
      const std::uint32_t column = cell_of(x, shift_x, shape.width);
      for (std::uint32_t c = 0; c < shape.channels; ++c, ++pixel) {
        if (pixel % noise.size() == 0)
          noise = random_bytes(
              index_counter(index, static_cast<std::uint32_t>(pixel / noise.size())), key);
        const std::uint32_t signal = cells[(c * kCells + row) * kCells + column];
        out[pixel] = static_cast<std::uint8_t>(
            (kTemplateWeight * signal + kNoiseWeight * noise[pixel % noise.size()]) / 256);
      }
    }
  }
}

ImageSet draw_set(const SyntheticOptions& options, std::uint64_t count, std::uint64_t set_number) {
  const PhiloxKey key = stream_key(0, DataStream::kSyntheticNoise, set_number);
  const std::size_t bytes = options.shape.pixel_bytes();
  ImageSet set;
  set.pixels.resize(count * bytes);
  set.labels.resize(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint32_t>(i % options.classes);
    set.labels[i] = static_cast<std::int32_t>(label);
    draw_image(options.shape, label, i, key, std::span(set.pixels).subspan(i * bytes, bytes));
  }
  return set;
}

}  // namespace

Result<ImageDataset> make_synthetic_images(const SyntheticOptions& options) {
  const ImageShape& shape = options.shape;
  const auto positive = [](const char* field, std::uint64_t value) -> Status {
    if (value > 0) return {};
    return usage_error(std::string(field) + " = 0: allowed is at least 1");
  };
  ES_RETURN_IF_ERROR(positive("data.height", shape.height));
  ES_RETURN_IF_ERROR(positive("data.width", shape.width));
  ES_RETURN_IF_ERROR(positive("data.channels", shape.channels));
  ES_RETURN_IF_ERROR(positive("model.classes", options.classes));
  ES_RETURN_IF_ERROR(positive("data.samples", options.train_count));
  // In fp64: the product of what a spec may ask for does not fit into 64 bits.
  const double image_bytes = double(shape.height) * shape.width * shape.channels;
  const double bytes = image_bytes * (double(options.train_count) + double(options.eval_count));
  if (bytes > double(kSyntheticBytesMax))
    return usage_error("data.samples + data.eval_samples = " + std::to_string(options.train_count) +
                       " + " + std::to_string(options.eval_count) + ": allowed is at most " +
                       std::to_string(std::uint64_t(double(kSyntheticBytesMax) / image_bytes)) +
                       " images of this shape (they are kept in memory)");
  return ImageDataset{shape, options.classes, draw_set(options, options.train_count, 0),
                      draw_set(options, options.eval_count, 1)};
}

}  // namespace es::store
