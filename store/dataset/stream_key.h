#pragma once
// Philox keys of the random streams of the data path. Each stream has a key of its own, derived
// from the seed and an index, so two streams do not use the same counters under the same key. The
// keys are 64-bit random values; two of them are equal only by a chance of about 2^-64.
#include <cstdint>

#include "proto/base/philox.h"

namespace es::store {

// The numbers must never change, because they decide the bits of every run.
enum class DataStream : std::uint32_t {
  kShuffle = 1,             // index = epoch
  kAugmentation = 2,        // index = epoch
  kSyntheticNoise = 3,      // index = 0 for training, 1 for evaluation
  kSyntheticTemplate = 4,   // index = 0
  kResizedCrop = 5,         // index = epoch
  kNegatives = 6,           // index = epoch
  kEvalNegatives = 7,       // index = user
  kSyntheticRatings = 8,    // index = 0 for training, 1 for evaluation
  kSyntheticFactors = 9,    // index = 0 for users, 1 for items
  kSyntheticQuestion = 10,  // index = 0 for training, 1 for evaluation
  kSyntheticBoxes = 11,     // index = 0 for training, 1 for evaluation; 2 more for objects
  kSyntheticTexture = 12,   // index = 0
  kSyntheticTokens = 13,    // index = 0 for training, 1 for evaluation
  kWeightedDraw = 14,       // index = epoch
  kGroupTurn = 15,          // index = turn of the group
  kBucketShuffle = 16,      // index = 16 * epoch + number of the length bucket
  kBucketCut = 17,          // index = epoch
};

constexpr PhiloxKey stream_key(std::uint64_t seed, DataStream stream, std::uint64_t index) {
  constexpr std::uint32_t kDataPath = 0x64617461;  // "data"
  const auto words =
      philox4x32_10({static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(index),
                     static_cast<std::uint32_t>(index >> 32), kDataPath},
                    philox_key(seed));
  return {words[0], words[1]};
}

// The low and the high half of a 64-bit index as the first two counter words.
constexpr PhiloxCounter index_counter(std::uint64_t index, std::uint32_t word2 = 0,
                                      std::uint32_t word3 = 0) {
  return {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), word2, word3};
}

// A number in [0, 1) from a random word: a multiple of 2^-32, exact.
constexpr double unit(std::uint32_t word) {
  return static_cast<double>(word) * 0x1p-32;
}

// A number in [0, bound) from a random word. Each number has the probability 1/bound to within
// 2^-32.
constexpr std::uint32_t below(std::uint32_t bound, std::uint32_t word) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * bound) >> 32);
}

}  // namespace es::store
