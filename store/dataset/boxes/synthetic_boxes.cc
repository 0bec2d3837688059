#include "store/dataset/boxes/synthetic_boxes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "store/dataset/word_stream.h"

namespace es::store {
namespace {

constexpr std::uint32_t kObjectsMax = 3, kQuarters = 4, kCells = 4;
constexpr std::uint32_t kCellWeight = 176, kNoiseWeight = 80;
constexpr std::uint32_t kObjectStream = 2;  // follows the streams of the two halves' noise

PhiloxKey key_of(Half half, std::uint64_t stream) {
  return stream_key(0, DataStream::kSyntheticBoxes, stream + (half == Half::kEval ? 1 : 0));
}

// Draws a range within [0, room) of half to the whole of its length.
std::pair<std::uint32_t, std::uint32_t> place(std::uint32_t room, WordStream& words) {
  const std::uint32_t length = room - words.next_below(room / 2 + 1);
  return {words.next_below(room - length + 1), length};
}

// Colours of a class: [cell row][cell column], with red, green and blue in the low bytes.
std::array<std::uint32_t, kCells * kCells> cells_of(std::uint32_t label) {
  std::array<std::uint32_t, kCells * kCells> cells;
  WordStream words(label, stream_key(0, DataStream::kSyntheticTexture, 0));
  for (std::uint32_t& cell : cells) cell = words.next();
  return cells;
}

}  // namespace

SyntheticBoxes::SyntheticBoxes(const ImageShape& shape, std::uint32_t classes,
                               std::uint32_t boxes_max)
    : shape_(shape), classes_(classes), boxes_max_(boxes_max) {
  ES_CHECK(shape.height >= 8 && shape.width >= 8 && shape.channels == 3);
  ES_CHECK(classes > 0 && boxes_max > 0);
}

std::vector<SyntheticBoxes::Object> SyntheticBoxes::objects(Half half, std::uint64_t index) const {
  WordStream words(index, key_of(half, kObjectStream));
  std::vector<Object> result(1 + words.next_below(std::min(kObjectsMax, boxes_max_)));
  std::array<std::uint32_t, kQuarters> quarters{0, 1, 2, 3};
  const std::uint32_t height = shape_.height / 2, width = shape_.width / 2;
  for (std::uint32_t i = 0; i < result.size(); ++i) {
    std::swap(quarters[i], quarters[i + words.next_below(kQuarters - i)]);
    const std::uint32_t label = words.next_below(classes_);
    const auto [y, h] = place(height, words);
    const auto [x, w] = place(width, words);
    result[i] = {label, quarters[i] / 2 * height + y, quarters[i] % 2 * width + x, h, w};
  }
  return result;
}

std::vector<TrueBox> SyntheticBoxes::boxes(Half half, std::uint64_t index) const {
  std::vector<TrueBox> result;
  const auto height = static_cast<float>(shape_.height), width = static_cast<float>(shape_.width);
  for (const Object& o : objects(half, index))
    result.push_back({.label = static_cast<std::int32_t>(o.label),
                      .x = static_cast<float>(2 * o.x + o.w) / (2.0f * width),
                      .y = static_cast<float>(2 * o.y + o.h) / (2.0f * height),
                      .w = static_cast<float>(o.w) / width,
                      .h = static_cast<float>(o.h) / height});
  return result;
}

// Mixes the cells of the class with the noise that is already there.
void SyntheticBoxes::paint(const Object& object, std::span<std::uint8_t> out) const {
  const auto cells = cells_of(object.label);
  for (std::uint32_t y = 0; y < object.h; ++y) {
    for (std::uint32_t x = 0; x < object.w; ++x) {
      const std::uint32_t colour = cells[y * kCells / object.h * kCells + x * kCells / object.w];
      std::uint8_t* pixel =
          &out[(std::size_t{object.y + y} * shape_.width + object.x + x) * shape_.channels];
      for (std::uint32_t c = 0; c < shape_.channels; ++c) {
        const std::uint32_t cell = colour >> (8 * c) & 0xff;
        pixel[c] = static_cast<std::uint8_t>((kCellWeight * cell + kNoiseWeight * pixel[c]) / 256);
      }
    }
  }
}

void SyntheticBoxes::draw(Half half, std::uint64_t index, std::span<std::uint8_t> out) const {
  ES_CHECK(out.size() == shape_.pixel_bytes());
  WordStream noise(index, key_of(half, 0));
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const std::uint32_t word = noise.next();
    for (std::size_t b = 0; b < std::min<std::size_t>(4, out.size() - i); ++b)
      out[i + b] = static_cast<std::uint8_t>((128 + (word >> (8 * b) & 0xff)) / 2);
  }
  for (const Object& object : objects(half, index)) paint(object, out);
}

}  // namespace es::store
