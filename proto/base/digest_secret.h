#pragma once
// For who computes digest_of() (digest.h) without its library, on a GPU: the bytes that XXH3 mixes
// its input with.
#include <array>
#include <cstdint>

namespace es {

using DigestSecret = std::array<std::uint64_t, 24>;  // 192 bytes, in memory order

DigestSecret digest_secret();

}  // namespace es
