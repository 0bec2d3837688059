#pragma once
// Seeds of random tests: printed with the test's result, replayed by ES_SEED=<number>.
#include <cstdint>

namespace es::test {

// The seed of this run for the test `name`: ES_SEED when set, else a fixed default. Prints
// "seed NAME: replay with ES_SEED=N" when an assertion of the current test case fails, and always
// to the test log.
std::uint64_t seed(const char* name);

}  // namespace es::test
