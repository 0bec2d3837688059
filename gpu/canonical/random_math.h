#pragma once
// The random decisions of dropout, and uniform random numbers, one at a time: Philox4x32-10 (Salmon
// et al., SC '11) with the key and counter that DropoutKey describes. proto/base/philox.h is the
// same function for files that are not compiled for an instruction set. The namespace is unnamed
// for the reason given in scalar_math.h.
#include "gpu/canonical/kernels.h"

namespace es::gpu {
namespace {

constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53u, kPhiloxMultiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t kPhiloxKeyStep0 = 0x9E3779B9u, kPhiloxKeyStep1 = 0xBB67AE85u;
constexpr int kPhiloxRounds = 10;
// Number of decisions that share a run of 32 counters. Decision e uses the counter (e / 128) * 32 +
// e % 32 and the word (e / 32) % 4. So 32 neighbouring decisions use the same word of neighbouring
// counters, which fits vector registers.
constexpr std::int64_t kDropoutBlock = 128;

// Returns the upper half of the product.
ES_HD inline std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32);
#endif
}

// The words of counter number `counter`: those of the decisions e, e + 32, e + 64 and e + 96.
struct DropoutWords {
  std::uint32_t word[4];
};
ES_HD inline DropoutWords dropout_words(std::uint32_t op, const DropoutKey& key,
                                        std::uint32_t counter) {
  std::uint32_t c[4] = {counter, op, key.step, key.rank};
  std::uint32_t key0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint32_t low0 = kPhiloxMultiplier0 * c[0], low1 = kPhiloxMultiplier1 * c[2];
    const std::uint32_t high0 = multiply_high(kPhiloxMultiplier0, c[0]);
    const std::uint32_t high1 = multiply_high(kPhiloxMultiplier1, c[2]);
    c[0] = high1 ^ c[1] ^ key0;
    c[1] = low1;
    c[2] = high0 ^ c[3] ^ key1;
    c[3] = low0;
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  return {{c[0], c[1], c[2], c[3]}};
}
ES_HD inline std::uint32_t dropout_counter(std::int64_t e) {
  return static_cast<std::uint32_t>(e / kDropoutBlock * 32 + e % 32);
}

// Returns the word of decision e. The counter has 32 bits, so e < 2^34.
ES_HD inline std::uint32_t random_word(std::uint32_t op, const DropoutKey& key, std::int64_t e) {
  const DropoutWords words = dropout_words(op, key, dropout_counter(e));
  const bool odd = (e & 32) != 0;  // an array index would force GPUs to put the words into memory
  const std::uint32_t low = odd ? words.word[1] : words.word[0];
  const std::uint32_t high = odd ? words.word[3] : words.word[2];
  return (e & 64) != 0 ? high : low;
}

// Returns whether decision e keeps its value.
ES_HD inline bool keeps(const Dropout& dropout, const DropoutKey& key, std::int64_t e) {
  return random_word(dropout.op, key, e) < dropout.threshold;
}

// A number in [0, 1): a multiple of 2^-24, made of the upper 24 bits of the word, and exact.
constexpr float kUniformStep = 0x1p-24f;
ES_HD inline float uniform_number(std::uint32_t word) {
  return static_cast<float>(word >> 8) * kUniformStep;
}

}  // namespace
}  // namespace es::gpu
