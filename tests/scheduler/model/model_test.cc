#include "scheduler/model/model.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

const DeviceType kFast{"fast"};
const DeviceType kSlow{"slow"};

// The formula of the header, written once more in the same form.
double throughput_by_waste(const Plan& plan, const Capabilities& capabilities,
                           const Estimate& estimate) {
  double capability = 0;
  for (const PlanPart& part : plan.parts) capability += part.devices * capabilities.at(part.type);
  return capability - estimate.waste;
}

}  // namespace

TEST_SUITE("scheduler/model") {
  TEST_CASE(
      "two types that finish at different times waste the capability of the faster to finish") {
    const Plan plan{{{kFast, 2, 3}, {kSlow, 2, 1}}};
    const Estimate e = estimate(plan, {{kFast, 2.0}, {kSlow, 1.0}}, 8);
    CHECK(e.nest == 8);
    CHECK(e.f_seconds_per_step == 1.5);                         // 3 / 2 compared with 1 / 1.
    CHECK(e.waste == doctest::Approx(2.0 / 3).epsilon(1e-12));  // 2 * (1 - 1 / 1.5)
    CHECK(e.throughput == doctest::Approx(16.0 / 3).epsilon(1e-12));
  }

  TEST_CASE("places without an EST are waste, also with one device type") {
    const Estimate e = estimate({{{kFast, 3, 2}}}, {{kFast, 1.0}}, 4);
    CHECK(e.nest == 6);
    CHECK(e.f_seconds_per_step == 2.0);
    CHECK(e.waste == 1.0);  // (6 - 4) / 2
    CHECK(e.throughput == 2.0);
  }

  TEST_CASE("a plan that fits exactly wastes nothing") {
    const Estimate e = estimate({{{kFast, 4, 2}}}, {{kFast, 10.0}}, 8);
    CHECK(e.waste == 0.0);
    CHECK(e.throughput == 40.0);
  }

  TEST_CASE("throughput is the total capability less the waste, and max_p / f") {
    std::mt19937_64 random(test::seed("model identity"));
    const auto draw = [&](std::uint32_t low, std::uint32_t high) {
      return low + static_cast<std::uint32_t>(random() % (high - low + 1));
    };
    for (int round = 0; round < 2000; ++round) {
      Plan plan;
      Capabilities capabilities;
      std::uint32_t nest = 0;
      for (std::uint32_t i = 0, types = draw(1, 4); i < types; ++i) {
        const DeviceType type{std::string(1, static_cast<char>('a' + i))};
        plan.parts.push_back({type, draw(1, 20), draw(1, 9)});
        capabilities[type] = draw(1, 10000) / 997.0;
        nest += plan.parts.back().devices * plan.parts.back().ests_per_device;
      }
      const std::uint32_t max_p = draw(1, nest);
      const Estimate e = estimate(plan, capabilities, max_p);
      CHECK(e.nest == nest);
      CHECK(e.throughput == doctest::Approx(max_p / e.f_seconds_per_step).epsilon(1e-12));
      CHECK(e.throughput ==
            doctest::Approx(throughput_by_waste(plan, capabilities, e)).epsilon(1e-9));
      CHECK(e.waste >= -1e-9 * e.throughput);
    }
  }

  TEST_CASE("a device takes at most A ESTs within A / C seconds, with any rounding") {
    std::mt19937_64 random(test::seed("ests_within"));
    for (int round = 0; round < 20000; ++round) {
      const double capability = static_cast<double>(random() % 1000000 + 1) / 7919.0;
      const auto ests = static_cast<std::uint32_t>(random() % 2000);
      CHECK(ests_within(ests / capability, capability) == ests);
    }
    CHECK(ests_within(0, 3.0) == 0);
    CHECK(ests_within(1.0, 0.5) == 0);
  }
}

}  // namespace es::scheduler
