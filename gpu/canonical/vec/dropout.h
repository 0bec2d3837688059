#pragma once
// Dropout decisions and uniform numbers in vectors: Philox4x32-10 of random_math.h.
//
// A state word is the low half of a 64-bit lane. The widening multiplication ignores high halves,
// so the low half of a product needs no mask, and its high half is one shift away. One step
// computes the counters of even and of odd decisions side by side. The four words of a counter
// belong to decisions that are 32 apart, so nothing has to be transposed.
#include "gpu/canonical/random_math.h"
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

// Bytes for the decisions that are computed ahead: 1024 decisions, and the bytes that reading in
// units of 32 bits may touch.
constexpr std::int64_t kKeepBlocks = 8;
constexpr std::int64_t kKeepBytes = kKeepBlocks * kDropoutBlock / 8;
constexpr std::int64_t kKeepSlack = 4;

struct PhiloxState {
  IntVec word[4];
};

inline __attribute__((always_inline)) void philox_round(PhiloxState& s, IntVec key0, IntVec key1) {
  const IntVec product0 = wide_product(s.word[0], set_wide(kPhiloxMultiplier0));
  const IntVec product1 = wide_product(s.word[2], set_wide(kPhiloxMultiplier1));
  s.word[0] = exclusive_or(wide_high(product1), s.word[1], key0);
  s.word[1] = product1;
  s.word[2] = exclusive_or(wide_high(product0), s.word[3], key1);
  s.word[3] = product0;
}

// Number of states that advance together, limited by the registers. State i has the even (odd)
// counters of kWidth counters if i is even (odd).
constexpr int kPhiloxStates = kWidth == 16 ? 4 : 2;

// Computes the four words of the counters `first`, first + 1, ...: kPhiloxStates / 2 * kWidth
// counters.
inline __attribute__((always_inline)) void philox(std::uint32_t op, const DropoutKey& key,
                                                  std::uint32_t first, PhiloxState* states) {
#pragma GCC unroll 4
  for (int i = 0; i < kPhiloxStates; ++i) {
    const std::uint32_t counter = first + static_cast<std::uint32_t>(i / 2 * kWidth + i % 2);
    states[i] = {{wide_add(wide_even_numbers(), set_wide(counter)), set_wide(op),
                  set_wide(key.step), set_wide(key.rank)}};
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(key.seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const IntVec keys0 = set_wide(key0), keys1 = set_wide(key1);
#pragma GCC unroll 4
    for (int i = 0; i < kPhiloxStates; ++i) philox_round(states[i], keys0, keys1);
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
}

// Sets bit j % 8 of bits[j / 8] if decision kDropoutBlock * first + j keeps its value, for j in [0,
// kDropoutBlock * blocks).
inline void keep_bits(const Dropout& dropout, const DropoutKey& key, std::int64_t first,
                      std::int64_t blocks, std::uint8_t* bits) {
  constexpr std::int64_t kStep = kPhiloxStates / 2 * kWidth;
  const IntVec threshold = set_int(static_cast<std::int32_t>(dropout.threshold));
  for (std::int64_t b = 0; b < blocks; ++b, bits += kDropoutBlock / 8) {
    for (std::int64_t at = 0; at < 32; at += kStep) {
      PhiloxState states[kPhiloxStates];
      philox(dropout.op, key, static_cast<std::uint32_t>((first + b) * 32 + at), states);
#pragma GCC unroll 4
      for (int word = 0; word < 4; ++word) {
        std::uint32_t keep = 0;
#pragma GCC unroll 2
        for (int i = 0; i < kPhiloxStates; i += 2) {
          const IntVec words = interleave_low(states[i].word[word], states[i + 1].word[word]);
          keep |= less_unsigned(words, threshold) << (i / 2 * kWidth);
        }
        __builtin_memcpy(bits + word * 4 + at / 8, &keep, kStep / 8);
      }
    }
  }
}

// Returns the lanes whose decision keeps its value: the bits j .. j + kWidth - 1 that keep_bits()
// wrote. Reads 4 bytes from byte j / 8 on, so up to kKeepSlack bytes beyond the decisions.
inline Test kept_lanes(const std::uint8_t* bits, std::int64_t j) {
  std::uint32_t word;
  __builtin_memcpy(&word, bits + j / 8, sizeof word);
  return test_of_bits(word >> (j % 8));
}

// y[j] = decision begin + j keeps ? x[j] * factor : +0 (or NaN), for j in [0, n). y may be equal to
// x. Without dropout (threshold 0) y = x.
inline void drop(const Dropout& dropout, const DropoutKey& key, std::int64_t begin, std::int64_t n,
                 const float* x, float* y) {
  if (dropout.threshold == 0) return copy_floats(y, x, n);
  const Vec factor = set(dropout.factor);
  std::uint8_t bits[kKeepBytes + kKeepSlack];
  while (n > 0) {
    const std::int64_t skipped = begin % kDropoutBlock;
    const std::int64_t count = smaller(n, kKeepBlocks * kDropoutBlock - skipped);
    keep_bits(dropout, key, begin / kDropoutBlock, ceil_div(skipped + count, kDropoutBlock), bits);
    for_vectors(count, [&](std::int64_t j, auto at) {
      const Test kept = kept_lanes(bits, skipped + j);
      at.store(y + j, keep_if_or_nan(kept, mul(at.load(x + j), factor)));
    });
    begin += count;
    n -= count;
    x += count;
    y += count;
  }
}

// y[j] = the uniform number of decision kDropoutBlock * block + j, for j in [0, kDropoutBlock).
inline void uniform_block(std::uint32_t op, const DropoutKey& key, std::int64_t block, float* y) {
  constexpr std::int64_t kStep = kPhiloxStates / 2 * kWidth;
  const Vec step = set(kUniformStep);
  for (std::int64_t at = 0; at < 32; at += kStep) {
    PhiloxState states[kPhiloxStates];
    philox(op, key, static_cast<std::uint32_t>(block * 32 + at), states);
#pragma GCC unroll 4
    for (int word = 0; word < 4; ++word) {
#pragma GCC unroll 2
      for (int i = 0; i < kPhiloxStates; i += 2) {
        const IntVec words = interleave_low(states[i].word[word], states[i + 1].word[word]);
        store(y + word * 32 + at + i / 2 * kWidth, mul(to_floats(upper_24_bits(words)), step));
      }
    }
  }
}

// y[i] = the uniform number of decision i, for i in [begin, end). Blocks that are not complete are
// computed beside y.
inline void uniform(std::int64_t begin, std::int64_t end, std::uint32_t op, const DropoutKey& key,
                    float* y) {
  while (begin < end) {
    const std::int64_t skipped = begin % kDropoutBlock;
    const std::int64_t count = smaller(end - begin, kDropoutBlock - skipped);
    if (count == kDropoutBlock) {
      uniform_block(op, key, begin / kDropoutBlock, y + begin);
    } else {
      float whole[kDropoutBlock];
      uniform_block(op, key, begin / kDropoutBlock, whole);
      copy_floats(y + begin, whole + skipped, count);
    }
    begin += count;
  }
}

}  // namespace
}  // namespace es::gpu
