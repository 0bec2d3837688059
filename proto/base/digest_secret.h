#pragma once
// The bytes with which XXH3 mixes its input. A GPU kernel needs them to compute digest_of()
// (digest.h) without the XXH3 library.
#include <array>
#include <cstdint>

namespace es {

using DigestSecret = std::array<std::uint64_t, 24>;  // 192 bytes, in memory order

DigestSecret digest_secret();

}  // namespace es
