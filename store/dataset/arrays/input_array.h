#pragma once
// One NumPy array that gives one input of a model. The first axis is the sample, and the others are
// the shape of the input. Allowed types of elements, by the type of the input:
//   f32    f4; f8, rounded to the nearest f4; u1, as the numbers 0 to 255
//   i32    i4, i8, u1 or bool; every element is in the range of the input
//   bool   bool, or u1 with 0 and 1
#include <cstdint>
#include <span>
#include <vector>

#include "store/dataset/arrays/npy_file.h"
#include "store/dataset/captured_inputs.h"

namespace es::store {

// Immutable and thread-safe.
class InputArray {
 public:
  // Error (usage), naming file, field, value and what is allowed: the type or the shape of the
  // array does not fit the input.
  static Result<InputArray> create(NpyFile file, CapturedInput input);

  const NpyFile& file() const { return file_; }
  const CapturedInput& input() const { return input_; }

  // Writes sample `index` in the form of a sample (CapturedInput::shape). `bytes` is memory that
  // calls reuse. REQUIRES: index < file().rows(); words.size() == input().field.words(). Errors:
  // those of NpyFile::read; usage for an integer outside of the range of the input.
  Status read(std::uint64_t index, std::vector<std::uint8_t>& bytes, std::span<float> words) const;

 private:
  InputArray(NpyFile file, CapturedInput input)
      : file_(std::move(file)), input_(std::move(input)) {}
  void convert_reals(std::span<const std::uint8_t> bytes, std::span<float> words) const;
  Status convert_integers(std::uint64_t index, std::span<const std::uint8_t> bytes,
                          std::span<float> words) const;
  template <class Put>
  void for_each_place(std::size_t elements, Put put) const;

  NpyFile file_;
  CapturedInput input_;
};

}  // namespace es::store
