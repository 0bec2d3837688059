#pragma once
// Philox keys of the random streams of the data path. A stream has its own key, drawn from the
// seed, so streams never share numbers with each other or with any other use of the same seed.
#include <cstdint>

#include "proto/base/philox.h"

namespace es::store {

// Never renumber: the number decides the bits of every run.
enum class DataStream : std::uint32_t {
  kShuffle = 1,             // index = epoch
  kAugmentation = 2,        // index = epoch
  kSyntheticNoise = 3,      // index = 0 training, 1 evaluation
  kSyntheticTemplate = 4,   // index = 0
  kResizedCrop = 5,         // index = epoch
  kNegatives = 6,           // index = epoch
  kEvalNegatives = 7,       // index = user
  kSyntheticRatings = 8,    // index = 0 training, 1 evaluation
  kSyntheticFactors = 9,    // index = 0 users, 1 items
  kSyntheticQuestion = 10,  // index = 0 training, 1 evaluation
  kSyntheticBoxes = 11,     // index = 0 training, 1 evaluation
  kSyntheticTexture = 12,   // index = 0
};

constexpr PhiloxKey stream_key(std::uint64_t seed, DataStream stream, std::uint64_t index) {
  constexpr std::uint32_t kDataPath = 0x64617461;  // "data"
  const auto words =
      philox4x32_10({static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(index),
                     static_cast<std::uint32_t>(index >> 32), kDataPath},
                    philox_key(seed));
  return {words[0], words[1]};
}

// The low and high half of a 64-bit index as the first two counter words.
constexpr PhiloxCounter index_counter(std::uint64_t index, std::uint32_t word2 = 0,
                                      std::uint32_t word3 = 0) {
  return {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), word2, word3};
}

// A number in [0, 1) from a random word, a multiple of 2^-32. Exact.
constexpr double unit(std::uint32_t word) {
  return static_cast<double>(word) * 0x1p-32;
}

// A number in [0, bound) from a random word; each is hit with probability 1/bound to within 2^-32.
constexpr std::uint32_t below(std::uint32_t bound, std::uint32_t word) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * bound) >> 32);
}

}  // namespace es::store
