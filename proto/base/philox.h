#pragma once
// Philox4x32-10: the counter-based generator behind every random number of the system.
//
// It is a pure function of a counter and a key. There is no state to save, to order or to share, so
// a random number is identified by its coordinates (seed, rank, step, element and others) and is
// the same on every machine and device. Definition: Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3" (SC '11); the outputs equal those of Random123. The arithmetic is on integers
// except for the last conversion to a float, which is exact. Thread-safe. Not suitable for secrets.
//
// Two uses with equal counters and equal keys get equal numbers. The random operators of a model
// (dropout, uniform numbers) and the initial values of parameters share the key (the seed), and
// nothing keeps their counters apart: operator i at step 1 and rank 0 uses {n, i, 1, 0}, and the
// initial values of parameter i use {e/4, i, 1, 0}. Data sources have keys of their own
// (store/dataset/stream_key.h).
#include <array>
#include <cstdint>

namespace es {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// The four random words of `counter` under `key`.
constexpr std::array<std::uint32_t, 4> philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kKeyStep0 = 0x9E3779B9;
  constexpr std::uint32_t kKeyStep1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key = {key[0] + kKeyStep0, key[1] + kKeyStep1};
  }
  return counter;
}

// The key that contains a 64-bit seed.
constexpr PhiloxKey philox_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

// A uniform float in [0, 1). It is a multiple of 2^-24, made of the upper 24 bits of the word, and
// is exact.
constexpr float uniform_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

}  // namespace es
