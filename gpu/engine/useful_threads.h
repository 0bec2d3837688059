#pragma once
// How many threads make a step faster.
#include <cstdint>

#include "gpu/graph/graph.h"

namespace es::gpu {

// Returns `threads`, or 1 if a second thread would make the step of the graph slower. Two threads
// halve the time of the work. They also move tensors between the caches of their cores, since a
// thread reads what another one wrote, and every operator waits for both. A step of microseconds
// loses more by this than it gains. Pure function; no bit depends on its result.
std::uint32_t useful_threads(const Graph& step, std::uint32_t threads);

}  // namespace es::gpu
