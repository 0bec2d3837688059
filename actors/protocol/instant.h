#pragma once
// Time as the pure cores see it: a parameter of each event, never read from a clock.
#include <chrono>

namespace es::actors {

// Since an epoch that the shell chose and keeps; never runs backwards.
using Instant = std::chrono::nanoseconds;

}  // namespace es::actors
