#pragma once
// The purposes for which the engine uses Philox (proto/base/philox.h). The number is part of the
// counter of every stream but that of dropout: philox.h says which counters the two can share.
#include <cstdint>

namespace es::gpu {

enum class RandomStream : std::uint32_t { kParameters = 1 };

}  // namespace es::gpu
