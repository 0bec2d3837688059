#include "scheduler/proposal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "scheduler/device_sets.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

constexpr std::size_t kAll = 1000;

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

}  // namespace

TEST_SUITE("scheduler/proposal") {
  TEST_CASE("only numbers of devices that shorten a step are proposed") {
    const PlanQuery held{.max_p = 4, .capabilities = {{{"a"}, 2.0}}, .available = devices("a:1")};
    // 3 devices are as fast as 2. Perfect scaling gains 1 per device: ties go to more devices.
    CHECK(propose(held, devices("a:8"), kAll) ==
          std::vector<Proposal>{{{"a"}, 3, 4.0}, {{"a"}, 1, 2.0}});
  }

  TEST_CASE("a job that holds nothing compares with one device of its fastest type") {
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

  TEST_CASE("a job at its maximum proposes nothing, and never more than the room that is left") {
    PlanQuery held{
        .max_p = 8, .capabilities = {{{"a"}, 1.0}}, .available = devices("a:2"), .max_devices = 4};
    for (const Proposal& p : propose(held, devices("a:8"), kAll)) CHECK(p.count <= 2);
    held.max_devices = 2;
    CHECK(propose(held, devices("a:8"), kAll).empty());
  }

  TEST_CASE("a type of unknown capability is not proposed") {
    const PlanQuery held{.max_p = 4, .capabilities = {{{"a"}, 1.0}}, .mix_types = true};
    for (const Proposal& p : propose(held, devices("a:1+b:4"), kAll)) CHECK(p.type.name == "a");
  }

  TEST_CASE("of each type the best proposals are kept, ordered by gain per device") {
    const PlanQuery held{.max_p = 60,
                         .capabilities = {{{"a"}, 3.3}, {{"b"}, 1.7}},
                         .available = devices("a:1"),
                         .mix_types = true};
    const std::vector<Proposal> all = propose(held, devices("a:40+b:40"), kAll);
    const std::vector<Proposal> top = propose(held, devices("a:40+b:40"), 3);
    CHECK(top.size() == 6);
    for (std::size_t i = 1; i < all.size(); ++i)
      CHECK(gain_per_device(all[i - 1]) >= gain_per_device(all[i]));
    CHECK(top.front() == all.front());
  }

  TEST_CASE("a proposal's speedup is that of the best plan with the devices over that without") {
    std::mt19937_64 random(test::seed("proposals"));
    for (int round = 0; round < 200; ++round) {
      PlanQuery held{.max_p = static_cast<std::uint32_t>(1 + random() % 12),
                     .capabilities = {{{"a"}, 1.0 + static_cast<double>(random() % 90) / 10},
                                      {{"b"}, 1.0 + static_cast<double>(random() % 90) / 10}},
                     .mix_types = true};
      held.available.add({"a"}, 1 + random() % 3);
      held.available.add({"b"}, random() % 3);
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
}

}  // namespace es::scheduler
