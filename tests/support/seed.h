#pragma once
// Seeds of random tests. They are printed with the result of the test, and ES_SEED=<number> replays
// them.
#include <cstdint>

namespace es::test {

// The seed of this run for the test `name`: ES_SEED if it is set, otherwise a fixed default. Prints
// "seed NAME: replay with ES_SEED=N" when an assertion of the current test case fails, and always
// to the test log.
std::uint64_t seed(const char* name);

}  // namespace es::test
