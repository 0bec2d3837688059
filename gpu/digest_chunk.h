#pragma once
// The digest of a flat array is made of the digests of its chunks (replica.h): a device computes
// them side by side, and only they leave it.
#include <cstdint>

namespace es::gpu {

constexpr std::int64_t kDigestChunkFloats = 16 << 10;
constexpr std::int64_t kDigestChunkBytes = 4 * kDigestChunkFloats;

}  // namespace es::gpu
