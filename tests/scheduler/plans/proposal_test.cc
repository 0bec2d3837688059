#include "scheduler/plans/proposal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "scheduler/model/device_sets.h"
#include "scheduler/plans/plans.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

constexpr ProposalLimits kAll{.per_type = 1000};

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

// One device after the other, as the header describes.
std::vector<Proposal> plain_proposals(const PlanQuery& held, const DeviceSet& addable) {
  const auto seconds_with = [&](const DeviceSet& all) {
    PlanQuery query = held;
    query.available = all;
    return least_seconds(query).value_or(1e300);
  };
  const std::uint32_t limit =
      held.max_devices == 0 ? held.max_p : std::min(held.max_p, held.max_devices);
  const std::uint32_t holds = held.available.total();
  double reference = seconds_with(held.available);
  if (holds == 0)
    for (const DeviceCount& c : addable.counts)
      reference =
          std::min(reference, held.max_p / held.capabilities.at(c.type) + held.sync.seconds(1));
  std::vector<Proposal> proposals;
  for (const DeviceCount& c : addable.counts) {
    if (!held.mix_types && holds > 0 && held.available.count_of(c.type) == 0) continue;
    DeviceSet all = held.available;
    double before = seconds_with(all);
    const std::uint32_t own = held.available.count_of(c.type);
    for (std::uint32_t n = 1; n <= c.count && own + n <= limit; ++n) {
      all.add(c.type, 1);
      const double seconds = seconds_with(all);
      if (seconds < before) proposals.push_back({c.type, n, reference / seconds});
      before = seconds;
    }
  }
  std::sort(proposals.begin(), proposals.end(), better);
  return proposals;
}

}  // namespace

TEST_SUITE("scheduler/proposal") {
  TEST_CASE("only numbers of devices that shorten a step are proposed") {
    const PlanQuery held{.max_p = 4, .capabilities = {{{"a"}, 2.0}}, .available = devices("a:1")};
    // 3 devices are as fast as 2. With perfect scaling each device gains 1, and ties go to more
    // devices.
    CHECK(propose(held, devices("a:8"), kAll) ==
          std::vector<Proposal>{{{"a"}, 3, 4.0}, {{"a"}, 1, 2.0}});
  }

  TEST_CASE("devices that communication makes useless are not proposed") {
    const PlanQuery held{.max_p = 8,
                         .capabilities = {{{"a"}, 20.0}},
                         .available = devices("a:1"),
                         .sync = SyncCurve({{8, 0.7}})};
    // 0.4 s on one device, 0.3 s on two, 0.35 s on three, 0.4 s on four.
    const std::vector<Proposal> proposals = propose(held, devices("a:8"), kAll);
    REQUIRE(proposals.size() == 1);
    CHECK(proposals[0].count == 1);
    CHECK(proposals[0].speedup == doctest::Approx(4.0 / 3));
  }

  TEST_CASE("a job without devices compares with one device of its fastest type") {
    const PlanQuery held{
        .max_p = 2, .capabilities = {{{"a"}, 4.0}, {{"b"}, 1.0}}, .mix_types = true};
    CHECK(propose(held, devices("a:2+b:1"), kAll) ==
          std::vector<Proposal>{{{"a"}, 2, 2.0}, {{"a"}, 1, 1.0}, {{"b"}, 1, 0.25}});
  }

  TEST_CASE("without mixing only the type in use is proposed, though another one is faster") {
    PlanQuery held{
        .max_p = 4, .capabilities = {{{"a"}, 1.0}, {{"b"}, 10.0}}, .available = devices("a:2")};
    const auto proposes = [&](const char* type) {
      const std::vector<Proposal> all = propose(held, devices("a:4+b:4"), kAll);
      return std::any_of(all.begin(), all.end(),
                         [&](const Proposal& p) { return p.type.name == type; });
    };
    CHECK(proposes("a"));
    CHECK_FALSE(proposes("b"));
    held.mix_types = true;
    CHECK(proposes("b"));
  }

  TEST_CASE("a job at its maximum proposes nothing, and a proposal never exceeds the maximum") {
    PlanQuery held{
        .max_p = 8, .capabilities = {{{"a"}, 1.0}}, .available = devices("a:2"), .max_devices = 4};
    for (const Proposal& p : propose(held, devices("a:8"), kAll)) CHECK(p.count <= 2);
    held.max_devices = 2;
    CHECK(propose(held, devices("a:8"), kAll).empty());
  }

  TEST_CASE(
      "a job at its maximum proposes faster devices, for which it would give slow ones back") {
    const PlanQuery held{.max_p = 8,
                         .capabilities = {{{"fast"}, 4.0}, {{"slow"}, 1.0}},
                         .available = devices("fast:2+slow:2"),
                         .max_devices = 4,
                         .mix_types = true};
    // A step takes 1 s on what it has, 0.75 s on 3 fast devices, and 0.5 s on 4.
    CHECK(propose(held, devices("fast:4+slow:4"), kAll) ==
          std::vector<Proposal>{{{"fast"}, 2, 2.0}, {{"fast"}, 1, 1 / 0.75}});
  }

  TEST_CASE("a type of unknown capability is not proposed") {
    const PlanQuery held{.max_p = 4, .capabilities = {{{"a"}, 1.0}}, .mix_types = true};
    for (const Proposal& p : propose(held, devices("a:1+b:4"), kAll)) CHECK(p.type.name == "a");
  }

  TEST_CASE("the best proposals of each type are kept, ordered by gain per device") {
    const PlanQuery held{.max_p = 60,
                         .capabilities = {{{"a"}, 3.3}, {{"b"}, 1.7}},
                         .available = devices("a:1"),
                         .mix_types = true};
    const std::vector<Proposal> all = propose(held, devices("a:40+b:40"), kAll);
    const std::vector<Proposal> top = propose(held, devices("a:40+b:40"), {.per_type = 3});
    CHECK(top.size() == 6);
    for (std::size_t i = 1; i < all.size(); ++i)
      CHECK(gain_per_device(all[i - 1]) >= gain_per_device(all[i]));
    CHECK(top.front() == all.front());
  }

  TEST_CASE("the speedup of a proposal compares the best plans with and without the devices") {
    std::mt19937_64 random(test::seed("proposals"));
    for (int round = 0; round < 200; ++round) {
      PlanQuery held{.max_p = static_cast<std::uint32_t>(1 + random() % 12),
                     .capabilities = {{{"a"}, 1.0 + static_cast<double>(random() % 90) / 10},
                                      {{"b"}, 1.0 + static_cast<double>(random() % 90) / 10}},
                     .mix_types = true};
      held.available.add({"a"}, 1 + random() % 3);
      held.available.add({"b"}, random() % 3);
      if (random() % 2 == 0)
        held.sync.set({static_cast<std::uint32_t>(1 + random() % 8),
                       static_cast<double>(1 + random() % 40) / 10});
      const double before = best_plan(held)->estimate.throughput;
      for (const Proposal& p : propose(held, devices("a:5+b:5"), kAll)) {
        PlanQuery with = held;
        with.available.add(p.type, p.count);
        const double after = best_plan(with)->estimate.throughput;
        CHECK(p.speedup == doctest::Approx(after / before).epsilon(1e-12));
        CHECK(p.speedup > 1);
      }
    }
  }

  TEST_CASE("proposals are those that adding devices one by one finds") {
    std::mt19937_64 random(test::seed("counted proposals"));
    for (int round = 0; round < 1000; ++round) {
      PlanQuery held{.max_p = static_cast<std::uint32_t>(1 + random() % 40)};
      held.mix_types = random() % 3 != 0;
      held.max_devices = random() % 3 == 0 ? static_cast<std::uint32_t>(1 + random() % 20) : 0;
      DeviceSet addable;
      for (const char* name : {"a", "b", "c", "d"}) {
        held.capabilities[{name}] = static_cast<double>(1 + random() % 20) / 3;
        addable.add({name}, random() % 20);
        const bool may_hold = held.mix_types || held.available.empty();
        if (may_hold && random() % 2 == 0) held.available.add({name}, random() % 4);
      }
      CAPTURE(held.available.text());
      CAPTURE(addable.text());
      CAPTURE(held.max_p);
      CHECK(propose(held, addable, kAll) == plain_proposals(held, addable));
    }
  }

  TEST_CASE("a pause takes from the speedup what it takes from the time that is left") {
    CHECK(speedup_after_pause(2, Seconds(0), Seconds(10)) == 2);
    CHECK(speedup_after_pause(2, Seconds(5), Seconds(10)) == 1);  // 5 s and a pause of 5 s
    CHECK(speedup_after_pause(2, Seconds(10), Seconds(10)) < 1);
    CHECK(speedup_after_pause(2, Seconds(10), kNever) == 2);
    CHECK(speedup_after_pause(2, Seconds(0), Seconds(0)) == 0);
  }

  TEST_CASE("near its end a job proposes only what still pays off, and nothing at the end") {
    const PlanQuery held{.max_p = 8, .capabilities = {{{"a"}, 1.0}}, .available = devices("a:1")};
    // A step takes 8 s now, and a rescale takes 10 s.
    const auto proposed = [&](double steps_left) {
      std::vector<std::uint32_t> counts;
      for (const Proposal& p :
           propose(held, devices("a:7"),
                   {.per_type = 10, .pause = Seconds(10), .steps_left = steps_left}))
        counts.push_back(p.count);
      std::sort(counts.begin(), counts.end());
      return counts;
    };
    CHECK(proposed(1000) == std::vector<std::uint32_t>{1, 2, 3, 7});
    // Two more devices save 10 of 16 s, which is no gain.
    CHECK(proposed(2) == std::vector<std::uint32_t>{3, 7});
    CHECK(proposed(1).empty());
    CHECK(proposed(0).empty());
    // The job has to start in any case.
    PlanQuery nothing = held;
    nothing.available = {};
    CHECK_FALSE(propose(nothing, devices("a:7"), {.pause = Seconds(10), .steps_left = 1}).empty());
  }
}

}  // namespace es::scheduler
