#include "store/dataset/arrays/input_conversion.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "store/field_error.h"

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
    case ValueType::kI64:
      break;  // no input of a model has this type
  }
  return {};
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

Result<InputConversion> InputConversion::create(const std::string& where, NpyType type,
                                                CapturedInput input) {
  const ReadableTypes readable = readable_types(input.type);
  if (std::ranges::find(readable.types, type) == readable.types.end())
    return bad_field(where, "type of elements", npy_name(type),
                     std::string(readable.text) + " for input \"" + input.field.name + "\"");
  return InputConversion(type, std::move(input));
}

std::optional<std::size_t> InputConversion::convert(std::span<const std::uint8_t> array,
                                                    std::span<float> words) const {
  if (input_.field.type == FieldType::kI32) return convert_integers(array, words);
  convert_reals(array, words);
  return std::nullopt;
}

Error InputConversion::out_of_range(const std::string& where, std::size_t element) const {
  return bad_content(where, "element " + std::to_string(element),
                     std::to_string(input_.field.low) + " to " + std::to_string(input_.field.high));
}

// Calls put(place of the word in the sample, index of the element in the array) for each element.
// The planes of an image become the last axis.
template <class Put>
void InputConversion::for_each_place(std::size_t elements, Put put) const {
  const std::size_t planes =
      input_.shape.size() == 3 ? static_cast<std::size_t>(input_.shape[0]) : 1;
  const std::size_t pixels = elements / planes;
  for (std::size_t c = 0; c < planes; ++c)
    for (std::size_t p = 0; p < pixels; ++p) put(p * planes + c, c * pixels + p);
}

void InputConversion::convert_reals(std::span<const std::uint8_t> array,
                                    std::span<float> words) const {
  for_each_place(words.size(), [&](std::size_t place, std::size_t i) {
    words[place] = real_at(type_, array, i);
  });
}

std::optional<std::size_t> InputConversion::convert_integers(std::span<const std::uint8_t> array,
                                                             std::span<float> words) const {
  std::size_t wrong = words.size();
  for_each_place(words.size(), [&](std::size_t place, std::size_t i) {
    const std::int64_t value = npy_integer(type_, array, i);
    if (value < input_.field.low || value > input_.field.high) wrong = std::min(wrong, i);
    words[place] = std::bit_cast<float>(static_cast<std::int32_t>(value));
  });
  return wrong == words.size() ? std::nullopt : std::optional(wrong);
}

}  // namespace es::store
