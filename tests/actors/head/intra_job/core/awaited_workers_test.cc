#include "actors/head/intra_job/core/awaited_workers.h"

#include <doctest/doctest.h>

#include <vector>

namespace es::actors::intra_job {
namespace {

constexpr Instant kRestart = std::chrono::seconds(100);
constexpr Instant kAfter = kRestart + kReturnTimeout + std::chrono::nanoseconds(1);

Fleet fleet_of(std::uint32_t workers) {
  std::vector<DeviceId> devices;
  for (std::uint32_t i = 0; i < workers; ++i) devices.push_back({"node", {"a"}, i});
  Fleet fleet(4);
  fleet.allocate({.sequence = 1, .releases_seen = 0, .devices = devices});
  for (std::uint32_t i = 0; i < workers; ++i) fleet.add(Incarnation{i + 1}, devices[i]);
  return fleet;
}

TEST_SUITE("actors/head/intra_job/awaited_workers") {
  TEST_CASE("a worker that has sent nothing is missing once, after the time limit") {
    AwaitedWorkers awaited(fleet_of(3), kRestart);
    CHECK(awaited.next_tick() == kRestart + kReturnTimeout);
    awaited.heard(Incarnation{2});
    CHECK_FALSE(awaited.contains(Incarnation{2}));
    CHECK(awaited.take_missing(kRestart + kReturnTimeout).empty());
    CHECK(awaited.take_missing(kAfter) == std::set{Incarnation{1}, Incarnation{3}});
    CHECK(awaited.take_missing(kAfter).empty());
    CHECK_FALSE(awaited.contains(Incarnation{1}));
  }

  TEST_CASE("nobody is awaited if all have sent a message, or if there were none") {
    AwaitedWorkers awaited(fleet_of(1), kRestart);
    awaited.heard(Incarnation{1});
    CHECK_FALSE(awaited.next_tick());
    CHECK_FALSE(AwaitedWorkers(fleet_of(0), kRestart).next_tick());
  }
}

}  // namespace
}  // namespace es::actors::intra_job
