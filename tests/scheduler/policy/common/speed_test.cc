#include "scheduler/policy/common/speed.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "scheduler/plans/plans.h"
#include "tests/support/seed.h"

namespace es::scheduler {

TEST_SUITE("scheduler/policy/speed") {
  TEST_CASE(
      "one type: the device with most ESTs limits the speed, and more devices may be no faster") {
    CHECK(one_type_speed(8, 4, 2.0) == 8.0);
    CHECK(one_type_speed(8, 5, 2.0) == 8.0);
    CHECK(one_type_speed(8, 8, 2.0) == 16.0);
    CHECK(useful_devices(8, 5) == 4);
    CHECK(useful_devices(8, 7) == 4);
    CHECK(useful_devices(8, 9) == 8);
  }

  TEST_CASE("communication: fewer devices may be faster, and are then all that are useful") {
    const SyncCurve sync({{8, 0.7}});  // 0.1 s for each device but one
    // 8 ESTs of 0.05 s: 0.4 s on one device, 0.2 + 0.1 on two, 0.75 on eight.
    CHECK(useful_devices(8, 8, 20, sync) == 2);
    CHECK(one_type_speed(8, 8, 20, sync) == doctest::Approx(8 / 0.3));
    CHECK(one_type_speed(8, 1, 20, sync) == doctest::Approx(8 / 0.4));
    const std::vector<double> speeds{20, 10};
    std::vector<std::uint32_t> counts{4, 4};
    const double speed = mixed_speed(8, counts, speeds, sync);
    CHECK(speed == doctest::Approx(8 / 0.3));
    trim_to_speed(8, speed, counts, speeds, sync);
    CHECK(counts == std::vector<std::uint32_t>{2, 0});
  }

  TEST_CASE("mixed types: the speed is that of the best plan, with and without unused devices") {
    std::mt19937_64 random(test::seed("mixed speed"));
    const auto draw = [&](std::uint32_t low, std::uint32_t high) {
      return low + static_cast<std::uint32_t>(random() % (high - low + 1));
    };
    const std::vector<DeviceType> types = {{"a"}, {"b"}, {"c"}};
    for (int round = 0; round < 2000; ++round) {
      PlanQuery query;
      query.max_p = draw(1, 16);
      query.mix_types = true;
      std::vector<std::uint32_t> counts;
      std::vector<double> speeds;
      for (const DeviceType& type : types) {
        counts.push_back(draw(0, 8));
        speeds.push_back(draw(0, 5) == 0 ? 0 : draw(10, 60) / 10.0);
        query.available.add(type, counts.back());
        if (speeds.back() > 0) query.capabilities[type] = speeds.back();
      }
      if (draw(0, 1) == 0) {
        query.sync.set({draw(2, 8), draw(1, 40) / 10.0});
        query.sync.set({draw(1, 8), draw(1, 40) / 10.0});
      }
      query.max_devices = draw(1, query.max_p);
      keep_fastest(query.max_devices, counts, speeds);
      const auto plan = best_plan(query);
      const double best = plan ? plan->estimate.throughput : 0;
      const double speed = mixed_speed(query.max_p, counts, speeds, query.sync);
      CHECK(speed == doctest::Approx(best).epsilon(1e-9));
      if (speed == 0) continue;
      std::vector<std::uint32_t> trimmed = counts;
      trim_to_speed(query.max_p, speed, trimmed, speeds, query.sync);
      CHECK(mixed_speed(query.max_p, trimmed, speeds, query.sync) ==
            doctest::Approx(best).epsilon(1e-9));
      for (std::size_t t = 0; t < counts.size(); ++t) CHECK(trimmed[t] <= counts[t]);
    }
  }
}

}  // namespace es::scheduler
