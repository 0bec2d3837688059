#pragma once
// The random decisions of dropout, one at a time: Philox4x32-10 (Salmon et al., SC '11) under the
// key and counter that DropoutKey describes. proto/base/philox.h is the same function for files
// that are not compiled for an instruction set. Unnamed namespace: see scalar_math.h.
#include "gpu/canonical/kernels.h"

namespace es::gpu {
namespace {

constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53u, kPhiloxMultiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t kPhiloxKeyStep0 = 0x9E3779B9u, kPhiloxKeyStep1 = 0xBB67AE85u;
constexpr int kPhiloxRounds = 10;
// Decisions that share a run of 32 counters: decision e uses counter (e / 128) * 32 + e % 32 and
// word (e / 32) % 4, so neighbours take the same word of neighbouring counters.
constexpr std::int64_t kDropoutBlock = 128;

// Whether decision e keeps its value. The counter has 32 bits: e < 2^34.
inline bool keeps(const Dropout& dropout, const DropoutKey& key, std::int64_t e) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(e / kDropoutBlock * 32 + e % 32), dropout.op,
                        key.step, key.rank};
  std::uint32_t key0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * c[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * c[2];
    c[0] = static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ key0;
    c[1] = static_cast<std::uint32_t>(product1);
    c[2] = static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ key1;
    c[3] = static_cast<std::uint32_t>(product0);
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  return c[e / 32 % 4] < dropout.threshold;
}

}  // namespace
}  // namespace es::gpu
