#include "scheduler/policy/common/assignment.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

double value_of(std::span<const AssignmentGroup> groups, const std::vector<Counts>& x) {
  double value = 0;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t k = 0; k < x[g].size(); ++k)
      value += groups[g].configurations[k].value * x[g][k];
  return value;
}

// The best value, by trying everything for one job after the other.
double best_value(std::span<const AssignmentGroup> groups, std::size_t g, std::uint32_t jobs,
                  Counts left) {
  if (g == groups.size()) return 0;
  const std::uint32_t rest = jobs == 0 ? groups[g].jobs : jobs;
  const auto after = [&](const Counts& counts) {
    return rest > 1 ? best_value(groups, g, rest - 1, counts)
                    : best_value(groups, g + 1, 0, counts);
  };
  double best = after(left);
  for (const Configuration& c : groups[g].configurations) {
    if (left[c.type] < c.devices) continue;
    Counts counts = left;
    counts[c.type] -= c.devices;
    best = std::max(best, c.value + after(counts));
  }
  return best;
}

}  // namespace

TEST_SUITE("scheduler/policy/assignment") {
  TEST_CASE("everybody gets the best configuration if there are enough devices") {
    const std::vector<AssignmentGroup> groups{{2, {{0, 1, 1.0}, {0, 4, 2.0}}}, {1, {{1, 2, 1.0}}}};
    CHECK(assign_configurations(groups, {8, 2}) == std::vector<Counts>{{0, 2}, {1}});
  }

  TEST_CASE("a greedy choice by value per device is not the best one") {
    // 3 devices at 1.1 each would leave 2 of the 5; 5 devices for the other job are worth 5.
    const std::vector<AssignmentGroup> groups{{1, {{0, 3, 3.3}}}, {1, {{0, 5, 5.0}}}};
    CHECK(assign_configurations(groups, {5}) == std::vector<Counts>{{0}, {1}});
  }

  TEST_CASE("small programs are solved as well as by trying everything") {
    std::mt19937_64 random(test::seed("assignment"));
    const auto draw = [&](std::uint32_t low, std::uint32_t high) {
      return low + static_cast<std::uint32_t>(random() % (high - low + 1));
    };
    for (int i = 0; i < 200; ++i) {
      std::vector<AssignmentGroup> groups(draw(1, 4));
      for (AssignmentGroup& group : groups) {
        group.jobs = draw(1, 2);
        for (std::uint32_t k = draw(1, 3); k > 0; --k)
          group.configurations.push_back({draw(0, 1), draw(1, 4), draw(1, 100) / 10.0});
      }
      const Counts capacity{draw(0, 6), draw(0, 6)};
      const std::vector<Counts> x = assign_configurations(groups, capacity);
      Counts used(2, 0);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        CHECK(total(x[g]) <= groups[g].jobs);
        for (std::size_t k = 0; k < x[g].size(); ++k) {
          const Configuration& c = groups[g].configurations[k];
          used[c.type] += c.devices * x[g][k];
        }
      }
      CHECK(covers(capacity, used));
      CHECK(value_of(groups, x) >= 0.9999 * best_value(groups, 0, 0, capacity));
    }
  }
}

}  // namespace es::scheduler
