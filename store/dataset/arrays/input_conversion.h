#pragma once
// How the elements of one array of a sample become one input of a model. Allowed types of elements,
// by the type of the input:
//   f32    f4; f8, rounded to the nearest f4; u1, as the numbers 0 to 255
//   i32    i4, i8, u1 or bool; every element is in the range of the input
//   bool   bool, or u1 with 0 and 1
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "store/dataset/arrays/npy_header.h"
#include "store/dataset/captured_inputs.h"

namespace es::store {

// Immutable and thread-safe.
class InputConversion {
 public:
  // Error (usage), naming `where`, the type, the input and what is allowed.
  static Result<InputConversion> create(const std::string& where, NpyType type,
                                        CapturedInput input);

  const CapturedInput& input() const { return input_; }
  NpyType type() const { return type_; }
  // The bytes of the array of one sample.
  std::size_t bytes() const {
    return npy_bytes(type_) * static_cast<std::size_t>(input_.field.words());
  }

  // Writes the array in the form of a sample (CapturedInput::shape). Each byte is read once, so it
  // may be memory that another process writes. Returns the first element that is outside of the
  // range of the input. REQUIRES: array.size() == bytes(); words.size() == input().field.words().
  std::optional<std::size_t> convert(std::span<const std::uint8_t> array,
                                     std::span<float> words) const;

  // The error for an element of the array `where` that convert() has returned.
  Error out_of_range(const std::string& where, std::size_t element) const;

 private:
  InputConversion(NpyType type, CapturedInput input) : type_(type), input_(std::move(input)) {}
  void convert_reals(std::span<const std::uint8_t> array, std::span<float> words) const;
  std::optional<std::size_t> convert_integers(std::span<const std::uint8_t> array,
                                              std::span<float> words) const;
  template <class Put>
  void for_each_place(std::size_t elements, Put put) const;

  NpyType type_;
  CapturedInput input_;
};

}  // namespace es::store
