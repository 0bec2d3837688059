#include "scheduler/model/device_sets.h"

#include <doctest/doctest.h>

namespace es::scheduler {

TEST_SUITE("scheduler/device_sets") {
  TEST_CASE("sums and differences go type by type, and a difference never falls below zero") {
    const DeviceSet a = *parse_device_set("a:3+b:1");
    const DeviceSet b = *parse_device_set("a:1+b:2+c:4");
    CHECK(sum(a, b).text() == "a:4+b:3+c:4");
    CHECK(beyond(a, b).text() == "a:2");
    CHECK(beyond(b, a).text() == "b:1+c:4");
    CHECK(beyond(a, a).empty());
    CHECK(sum({}, {}).empty());
  }
}

}  // namespace es::scheduler
