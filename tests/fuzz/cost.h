#pragma once
// What a reader may cost, whatever it is given: limits of the process that end it when they are
// passed. Each is far above what the largest of the small files here needs, and far below what a
// size from a damaged header could ask for.
#include <cstdint>

namespace es::test {

// The largest single allocation that operator new has been asked for since the last call, bytes.
std::size_t take_largest_allocation();

// SIGALRM ends this process unless the call is repeated within so many seconds.
void expect_end_within(unsigned seconds);

}  // namespace es::test
