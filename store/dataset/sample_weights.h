#pragma once
// Weights of training samples, in proportion to which an epoch draws them with replacement.
//
// Every sample has an integer weight w, and W is their sum. Draw i of an epoch is the first sample
// whose weights up to and including its own sum to more than floor(r * W / 2^64). r is the number
// of 64 bits whose low half is the first and whose high half is the second word of Philox at the
// counter i, with the key of DataStream::kWeightedDraw, the seed and the epoch. So a draw is a pure
// function of (seed, epoch, i) and of the weights, and is computed with integers only.
//
// Integers in the file are the weights themselves. Of real numbers x the weight is
// floor(x / m * 2^32 + 1/2) in fp64, where m is the largest one: a sample whose weight is below
// 2^-33 of the largest one is never drawn.
//
// Immutable and thread-safe. It has 8 bytes for each sample.
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "proto/base/philox.h"
#include "proto/base/result.h"

namespace es::store {

class SampleWeights {
 public:
  // Reads a file .npy with one axis of `samples` numbers of the types f4, f8, u1, u2, u4, i4 or i8.
  // Errors: those of NpyFile; usage, naming the file, the element and what is allowed.
  static Result<SampleWeights> read(const std::filesystem::path& file, std::uint64_t samples);

  std::uint64_t samples() const { return ends_.size(); }
  // The draw at `position` under the key of an epoch. REQUIRES: samples() > 0.
  std::uint64_t draw(PhiloxKey key, std::uint64_t position) const;

 private:
  explicit SampleWeights(std::vector<std::uint64_t> ends) : ends_(std::move(ends)) {}

  std::vector<std::uint64_t> ends_;  // the sums of the weights up to each sample
};

}  // namespace es::store
