#include "actors/head/cluster_scheduler/core/call_back.h"

#include <doctest/doctest.h>

using namespace es;
using namespace es::actors;

namespace {

const DeviceType kFast{"cpu-avx512"}, kSlow{"cpu-avx2"};

DeviceSet set_of(std::uint32_t fast, std::uint32_t slow = 0) {
  DeviceSet set;
  if (fast > 0) set.add(kFast, fast);
  if (slow > 0) set.add(kSlow, slow);
  return set;
}

using Called = std::vector<CalledBack>;

}  // namespace

TEST_SUITE("actors/head/cluster_scheduler/core/call_back") {
  TEST_CASE(
      "the last submitted job of the lowest priority gives first, and only what it can spare") {
    const std::vector<Holder> holders{{.priority = 1, .held = set_of(4)},
                                      {.priority = 0, .min_devices = 2, .held = set_of(3)},
                                      {.priority = 0, .min_devices = 2, .held = set_of(3)}};
    CHECK(call_back(holders, kFast, 1) == Called{{2, set_of(1)}});
    CHECK(call_back(holders, kFast, 4) == Called{{2, set_of(1)}, {1, set_of(1)}, {0, set_of(2)}});
  }

  TEST_CASE("a job below its minimum gives everything, of all types") {
    const std::vector<Holder> holders{{.min_devices = 3, .held = set_of(2, 1)}};
    CHECK(call_back(holders, kFast, 1) == Called{{0, set_of(2, 1)}});
  }

  TEST_CASE(
      "jobs without devices of the type give nothing, and those that may not be suspended keep "
      "their minimum") {
    const std::vector<Holder> holders{{.held = set_of(0, 4)},
                                      {.suspendable = false, .held = set_of(2)}};
    CHECK(call_back(holders, kFast, 5) == Called{{1, set_of(1)}});
  }

  TEST_CASE("pinned jobs give last, and only as many as are wanted") {
    const std::vector<Holder> holders{{.held = set_of(2)}, {.pinned = true, .held = set_of(3)}};
    CHECK(call_back(holders, kFast, 3) == Called{{0, set_of(1)}, {0, set_of(1)}, {1, set_of(1)}});
  }
}
