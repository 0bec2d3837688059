#pragma once
// Limits for the cost of a reader, for any input: the process ends when one is passed. Each limit
// is far above what the largest of the small files here needs, and far below what a size in a
// damaged header could request.
#include <cstdint>

namespace es::test {

// The largest single allocation through operator new since the last call, in bytes.
std::size_t take_largest_allocation();

// SIGALRM ends this process unless the call is repeated within this number of seconds.
void expect_end_within(unsigned seconds);

}  // namespace es::test
