#pragma once
// The uses that the engine makes of Philox (proto/base/philox.h); part of the counter, so that no
// two uses share numbers.
#include <cstdint>

namespace es::gpu {

enum class RandomStream : std::uint32_t { kParameters = 1 };

}  // namespace es::gpu
