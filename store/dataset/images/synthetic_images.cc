#include "store/dataset/images/synthetic_images.h"

#include <array>

#include "proto/base/check.h"
#include "store/dataset/stream_key.h"

namespace es::store {
namespace {

constexpr std::uint32_t kCells = 4;  // cells of the template along each side
constexpr std::uint32_t kTemplateWeight = 96;
constexpr std::uint32_t kNoiseWeight = 160;
// Noise blocks count from 0 and never reach this value.
constexpr std::uint32_t kShiftBlock = 0xffffffff;

using Block = std::array<std::uint8_t, 16>;

Block random_bytes(PhiloxCounter counter, PhiloxKey key) {
  const auto words = philox4x32_10(counter, key);
  Block bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(words[i / 4] >> (8 * (i % 4)));
  return bytes;
}

// Brightness of the template of a class, [channel][cell row][cell column].
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

// Cell of the pixel `position` of a side with `size` pixels, after a cyclic shift.
std::uint32_t cell_of(std::uint32_t position, std::uint32_t shift, std::uint32_t size) {
  const std::uint64_t shifted = (std::uint64_t{position} + shift) % size;
  return static_cast<std::uint32_t>(shifted * kCells / size);
}

// Cells of all positions of a side.
std::vector<std::uint32_t> cells_of(std::uint32_t shift, std::uint32_t size) {
  std::vector<std::uint32_t> cells(size);
  for (std::uint32_t p = 0; p < size; ++p) cells[p] = cell_of(p, shift, size);
  return cells;
}

void draw_image(const ImageShape& shape, std::uint32_t label, std::uint64_t index, PhiloxKey key,
                std::span<std::uint8_t> out) {
  const std::vector<std::uint8_t> cells = class_template(label, shape.channels);
  const auto shift = philox4x32_10(index_counter(index, kShiftBlock), key);
  const auto rows = cells_of(below(shape.height / 8 + 1, shift[0]), shape.height);
  const auto columns = cells_of(below(shape.width / 8 + 1, shift[1]), shape.width);
  Block noise{};
  std::size_t pixel = 0;
  for (const std::uint32_t row : rows) {
    for (const std::uint32_t column : columns) {
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

}  // namespace

SyntheticImages::SyntheticImages(const ImageShape& shape, std::uint32_t classes)
    : shape_(shape), classes_(classes) {
  ES_CHECK(shape.pixel_bytes() > 0 && classes > 0);
}

void SyntheticImages::draw(Half half, std::uint64_t index, std::span<std::uint8_t> out) const {
  ES_CHECK(out.size() == shape_.pixel_bytes());
  const PhiloxKey key = stream_key(0, DataStream::kSyntheticNoise, half == Half::kTrain ? 0 : 1);
  draw_image(shape_, static_cast<std::uint32_t>(label(index)), index, key, out);
}

}  // namespace es::store
