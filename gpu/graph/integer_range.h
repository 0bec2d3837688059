#pragma once
// The range of the integers that tensors contain.
#include <cstdint>
#include <limits>

namespace es::gpu {

constexpr std::int64_t kIntLow = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kIntHigh = std::numeric_limits<std::int32_t>::max();

}  // namespace es::gpu
