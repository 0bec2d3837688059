#pragma once
// One NumPy array that gives one input of a model. The first axis is the sample, and the others are
// the shape of the input. input_conversion.h lists the allowed types of elements.
#include <cstdint>
#include <span>
#include <vector>

#include "store/dataset/arrays/input_conversion.h"
#include "store/dataset/arrays/npy_file.h"

namespace es::store {

// Immutable and thread-safe.
class InputArray {
 public:
  static constexpr std::uint64_t kKeptBytesMax = std::uint64_t{16} << 20;
  static constexpr std::uint64_t kShortSampleBytes = 64;
  static constexpr std::uint64_t kLookedAtBytes = std::uint64_t{1} << 20;

  // An array of at most kKeptBytesMax with samples of at most kShortSampleBytes is read here as a
  // whole and kept, because a read of the file for each short sample would take longer than a step.
  // Errors: those of NpyFile::read; usage, naming file, field, value and what is allowed: the type
  // or the shape of the array does not fit the input, or the differences of the first float64
  // numbers, up to kLookedAtBytes, are lost in fp32 (input_array.cc).
  static Result<InputArray> create(NpyFile file, CapturedInput input);

  const NpyFile& file() const { return file_; }
  const CapturedInput& input() const { return conversion_.input(); }

  // Writes sample `index` in the form of a sample (CapturedInput::shape). `bytes` is memory that
  // calls reuse, of arrays that are not kept. REQUIRES: index < file().rows(); words.size() ==
  // input().field.words(). Errors: those of NpyFile::read; usage for an integer outside of the
  // range of the input.
  Status read(std::uint64_t index, std::vector<std::uint8_t>& bytes, std::span<float> words) const {
    return read(index, conversion_, bytes, words);
  }
  // The same of a smaller input, which has the first elements of every axis of the sample.
  // REQUIRES: the conversion is one of elements of this array, to an input none of whose extents is
  // larger; words.size() is that of this input.
  Status read(std::uint64_t index, const InputConversion& part, std::vector<std::uint8_t>& bytes,
              std::span<float> words) const;

 private:
  InputArray(NpyFile file, InputConversion conversion)
      : file_(std::move(file)), conversion_(std::move(conversion)) {}

  Status check_numbers() const;

  NpyFile file_;
  InputConversion conversion_;
  std::vector<std::uint8_t> kept_;  // all rows of the file, or empty
};

}  // namespace es::store
