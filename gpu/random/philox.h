#pragma once
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3"):
// a counter-based generator. Its output is a pure function of a 128-bit counter and a 64-bit key,
// so there is no generator state to save, move or get out of step.
#include <array>
#include <cstdint>

namespace es::gpu {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxKey philox_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

// The four 32-bit words of one counter.
constexpr PhiloxCounter philox4x32(PhiloxCounter c, PhiloxKey key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = kMultiplier0 * c[0];
    const std::uint64_t p1 = kMultiplier1 * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return c;
}

// Uniform in [0, 1), a multiple of 2^-24: exact in fp32.
constexpr float uniform01(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
}

// The uses of the generator; part of the counter, so that no two uses share numbers.
enum class RandomStream : std::uint32_t { kParameters = 1 };

}  // namespace es::gpu
