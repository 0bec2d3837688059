#include "actors/head/intra_job/core/fleet.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/seed.h"

namespace es::actors::intra_job {
namespace {

using Phase = Worker::Phase;

DeviceId device(const char* type, std::uint32_t index) {
  return {"node", {type}, index};
}
DeviceSet set(const char* type, std::uint32_t count) {
  DeviceSet result;
  result.add({type}, count);
  return result;
}

Worker& add(Fleet& fleet, std::uint64_t incarnation, const DeviceId& on, Phase phase,
            bool placed = false) {
  Worker& worker = fleet.add(Incarnation{incarnation}, on);
  worker.phase = phase;
  worker.placed = placed;
  return worker;
}

Fleet fleet_with(std::uint32_t max_p, std::vector<DeviceId> devices) {
  Fleet fleet(max_p);
  fleet.allocate({.sequence = 1, .releases_seen = 0, .devices = std::move(devices)});
  return fleet;
}

TEST_SUITE("actors/head/intra_job/fleet") {
  TEST_CASE("an allocation with an old sequence number changes nothing") {
    Fleet fleet = fleet_with(4, {device("a", 0)});
    CHECK_FALSE(fleet.allocate({.sequence = 1, .releases_seen = 0, .devices = {device("a", 1)}}));
    CHECK(fleet.allocated(device("a", 0)));
    CHECK_FALSE(fleet.holds(device("a", 1)));
  }

  TEST_CASE("a released device comes back only with an allocation that has seen the release") {
    Fleet fleet = fleet_with(4, {device("a", 0), device("a", 1)});
    fleet.release(device("a", 0));
    fleet.allocate(
        {.sequence = 2, .releases_seen = 0, .devices = {device("a", 0), device("a", 1)}});
    CHECK_FALSE(fleet.holds(device("a", 0)));
    fleet.allocate(
        {.sequence = 3, .releases_seen = 1, .devices = {device("a", 0), device("a", 1)}});
    CHECK(fleet.holds(device("a", 0)));
  }

  TEST_CASE("a device is idle only after its process has been erased") {
    Fleet fleet = fleet_with(4, {device("a", 0)});
    add(fleet, 1, device("a", 0), Phase::kLeaving);
    CHECK(fleet.idle_devices().empty());
    fleet.erase(Incarnation{1});
    CHECK(fleet.idle_devices().size() == 1);
  }

  TEST_CASE("members stay where the wanted types allow it") {
    Fleet fleet = fleet_with(4, {device("a", 0), device("a", 1), device("b", 0)});
    add(fleet, 1, device("a", 0), Phase::kWarm);
    add(fleet, 2, device("a", 1), Phase::kKnown, true);
    add(fleet, 3, device("b", 0), Phase::kWarm);
    const Fleet::Choice one = fleet.choose(set("a", 1), true);
    CHECK(one.complete);
    CHECK(one.workers == std::set<Incarnation>{Incarnation{2}});
    CHECK_FALSE(fleet.choose(set("b", 1), false).complete);
    CHECK(fleet.choose(set("b", 1), true).workers == std::set<Incarnation>{Incarnation{3}});
    CHECK_FALSE(fleet.choose(set("a", 3), true).complete);
  }

  TEST_CASE("without a wanted set the choice is complete when no process is about to start") {
    Fleet fleet = fleet_with(4, {device("a", 0), device("a", 1)});
    CHECK_FALSE(fleet.choose(std::nullopt, true).complete);
    add(fleet, 1, device("a", 0), Phase::kWarm);
    Worker& coming = add(fleet, 2, device("a", 1), Phase::kStarting);
    CHECK_FALSE(fleet.choose(std::nullopt, true).complete);
    coming.phase = Phase::kWarm;
    CHECK(fleet.choose(std::nullopt, true).complete);
  }

  TEST_CASE(
      "workers on devices that were taken away are not chosen, unless only they have the state") {
    Fleet fleet = fleet_with(4, {device("a", 0), device("a", 1)});
    add(fleet, 1, device("a", 0), Phase::kKnown, true);
    add(fleet, 2, device("a", 1), Phase::kKnown, true);
    fleet.allocate({.sequence = 2, .releases_seen = 0, .devices = {device("a", 1)}});
    CHECK(fleet.choose(std::nullopt, true).workers == std::set<Incarnation>{Incarnation{2}});
    fleet.allocate({.sequence = 3, .releases_seen = 0, .devices = {}});
    CHECK(fleet.choose(std::nullopt, true).workers.empty());
    CHECK(fleet.all_available().size() == 2);
  }

  TEST_CASE("a device that was given up is not counted as allocated, until it is given anew") {
    Fleet fleet = fleet_with(4, {device("a", 0), device("a", 1)});
    fleet.give_up(device("a", 0));
    CHECK(fleet.allocated_set() == set("a", 1));
    fleet.release(device("a", 0));
    CHECK(fleet.allocated_set() == set("a", 1));
    fleet.allocate(
        {.sequence = 2, .releases_seen = 1, .devices = {device("a", 0), device("a", 1)}});
    CHECK(fleet.allocated_set() == set("a", 2));
  }

  TEST_CASE("there are never more workers than ESTs") {
    Fleet fleet = fleet_with(1, {device("a", 0), device("a", 1)});
    const Fleet::Staffing staffing = fleet.staffing(std::nullopt);
    CHECK(staffing.start.size() == 1);
    CHECK(staffing.give_back.empty());
  }

  TEST_CASE("devices that a demand needs are used, others are released and given back") {
    Fleet fleet = fleet_with(4, {device("a", 0), device("a", 1), device("b", 0), device("b", 1)});
    add(fleet, 1, device("a", 0), Phase::kWarm);
    const Fleet::Staffing more = fleet.staffing(set("b", 1));
    CHECK(more.dismiss == std::vector<Incarnation>{Incarnation{1}});
    CHECK(more.start == std::vector<DeviceId>{device("b", 0)});
    CHECK(more.give_back == std::vector<DeviceId>{device("a", 1), device("b", 1)});
  }

  TEST_CASE("before the first allocation after a restart, nothing is started or given back") {
    Fleet fleet(4);
    fleet.hold(device("a", 0));
    const Fleet::Staffing staffing = fleet.staffing(std::nullopt);
    CHECK(staffing.start.empty());
    CHECK(staffing.give_back.empty());
  }

  TEST_CASE("what is remembered of the last answers never changes an answer") {
    std::mt19937_64 random(test::seed("fleet"));
    const auto draw = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    for (int history = 0; history < 200; ++history) {
      Fleet fleet(1 + static_cast<std::uint32_t>(draw(4)));
      std::uint64_t incarnations = 0, sequence = 0;
      const Wanted wanted = draw(3) == 0 ? Wanted(set("a", 2)) : std::nullopt;
      for (int event = 0; event < 60; ++event) {
        const std::size_t what = draw(8);
        if (what == 0 || sequence == 0) {
          Allocation allocation{.sequence = ++sequence, .releases_seen = 1000, .devices = {}};
          for (std::uint32_t i = 0; i < 5; ++i)
            if (draw(2) == 0) allocation.devices.push_back(device(draw(2) == 0 ? "a" : "b", i));
          fleet.allocate(allocation);
        } else if (what == 1 && !fleet.idle_devices().empty()) {
          fleet.release(DeviceId(*fleet.idle_devices().begin()));
        } else if (what <= 3 && !fleet.idle_devices().empty()) {
          fleet.add(Incarnation{++incarnations}, DeviceId(*fleet.idle_devices().begin()));
        } else if (!fleet.workers().empty()) {
          Worker& worker = std::next(fleet.workers().begin(),
                                     static_cast<std::ptrdiff_t>(draw(fleet.workers().size())))
                               ->second;
          if (what == 4) fleet.leave(worker);
          if (what == 5) fleet.erase(Incarnation(worker.incarnation));
          if (what >= 6 && worker.phase == Phase::kWarm) worker.phase = Phase::kKnown;
          if (what >= 6 && worker.phase == Phase::kStarting) worker.phase = Phase::kWarm;
        }
        Fleet other = fleet;
        other.give_up(device("none", 0));  // It remembers nothing after this.
        const Fleet::Staffing staffing = fleet.staffing(wanted), again = other.staffing(wanted);
        CHECK(staffing.start == again.start);
        CHECK(staffing.give_back == again.give_back);
        CHECK(staffing.dismiss == again.dismiss);
        if (fleet.awaits_start(wanted)) CHECK_FALSE(fleet.choose(wanted, true).complete);
      }
    }
  }
}

}  // namespace
}  // namespace es::actors::intra_job
