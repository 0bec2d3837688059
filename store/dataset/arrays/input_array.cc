#include "store/dataset/arrays/input_array.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "store/dataset/field_error.h"

namespace es::store {
namespace {

// The types of elements that an input can be read from, and their names in errors.
struct ReadableTypes {
  std::vector<NpyType> types;
  const char* text;
};
ReadableTypes readable_types(ValueType type) {
  switch (type) {
    case ValueType::kF32:
      return {{NpyType::kF32, NpyType::kF64, NpyType::kU8}, "f4, f8 or u1"};
    case ValueType::kI32:
      return {{NpyType::kI32, NpyType::kI64, NpyType::kU8, NpyType::kBool}, "i4, i8, u1 or bool"};
    case ValueType::kBool:
      return {{NpyType::kBool, NpyType::kU8}, "bool or u1"};
  }
  return {};
}

std::string axes_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += ", " + std::to_string(extent);
  return "(samples" + text + (shape.empty() ? ",)" : ")");
}

template <class T>
T element(std::span<const std::uint8_t> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

float real_at(NpyType type, std::span<const std::uint8_t> bytes, std::size_t index) {
  if (type == NpyType::kF32) return element<float>(bytes, index);
  if (type == NpyType::kF64) return static_cast<float>(element<double>(bytes, index));
  return static_cast<float>(bytes[index]);
}

}  // namespace

Result<InputArray> InputArray::create(NpyFile file, CapturedInput input) {
  const NpyHeader& header = file.header();
  const ReadableTypes readable = readable_types(input.type);
  if (std::ranges::find(readable.types, header.type) == readable.types.end())
    return bad_field(file.name(), "type of elements", npy_name(header.type),
                     std::string(readable.text) + " for input \"" + input.field.name + "\"");
  const std::vector<std::uint64_t> found(header.shape.begin() + 1, header.shape.end());
  const std::vector<std::uint64_t> expected(input.shape.begin(), input.shape.end());
  if (found != expected)
    return bad_field(file.name(), "shape", axes_text(found),
                     axes_text(expected) + ", as input \"" + input.field.name + "\" of the model");
  return InputArray(std::move(file), std::move(input));
}

Status InputArray::read(std::uint64_t index, std::vector<std::uint8_t>& bytes,
                        std::span<float> words) const {
  bytes.resize(file_.header().row_bytes());
  ES_RETURN_IF_ERROR(file_.read(index, bytes));
  if (input_.field.type == FieldType::kI32) return convert_integers(index, bytes, words);
  convert_reals(bytes, words);
  return {};
}

// Calls put(place of the word in the sample, index of the element in the row) for each element. The
// planes of an image become the last axis.
template <class Put>
void InputArray::for_each_place(std::size_t elements, Put put) const {
  const std::size_t planes =
      input_.shape.size() == 3 ? static_cast<std::size_t>(input_.shape[0]) : 1;
  const std::size_t pixels = elements / planes;
  for (std::size_t c = 0; c < planes; ++c)
    for (std::size_t p = 0; p < pixels; ++p) put(p * planes + c, c * pixels + p);
}

void InputArray::convert_reals(std::span<const std::uint8_t> bytes, std::span<float> words) const {
  for_each_place(words.size(), [&](std::size_t place, std::size_t i) {
    words[place] = real_at(file_.header().type, bytes, i);
  });
}

Status InputArray::convert_integers(std::uint64_t index, std::span<const std::uint8_t> bytes,
                                    std::span<float> words) const {
  std::size_t wrong = words.size();
  for_each_place(words.size(), [&](std::size_t place, std::size_t i) {
    const std::int64_t value = npy_integer(file_.header().type, bytes, i);
    if (value < input_.field.low || value > input_.field.high) wrong = std::min(wrong, i);
    words[place] = std::bit_cast<float>(static_cast<std::int32_t>(value));
  });
  if (wrong == words.size()) return {};
  return bad_content(file_.name() + ": sample " + std::to_string(index),
                     "element " + std::to_string(wrong),
                     std::to_string(input_.field.low) + " to " + std::to_string(input_.field.high));
}

}  // namespace es::store
