#pragma once
// The digest of a flat array is computed from the digests of its chunks (replica.h). Therefore a
// device can compute the digests of all chunks in parallel, and only these digests leave the
// device.
#include <cstdint>

namespace es::gpu {

constexpr std::int64_t kDigestChunkFloats = 16 << 10;
constexpr std::int64_t kDigestChunkBytes = 4 * kDigestChunkFloats;

}  // namespace es::gpu
