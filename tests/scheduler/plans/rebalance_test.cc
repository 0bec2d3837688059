#include "scheduler/plans/rebalance.h"

#include <doctest/doctest.h>

#include <random>

#include "scheduler/plans/placement.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

using Ranges = std::vector<RankRange>;

// The vectors must outlive the query.
RebalanceQuery query(const std::vector<double>& capabilities, const Ranges& current) {
  std::uint32_t max_p = 0;
  for (const RankRange ranks : current) max_p += ranks.size();
  return {.capabilities = capabilities,
          .current = current,
          .max_p = max_p,
          .pause = Seconds(0.1),
          .steps_left = 1000};
}

TEST_SUITE("scheduler/rebalance") {
  TEST_CASE("equal devices with equal ranks stay as they are") {
    const std::vector<double> speeds = {10, 10};
    const Ranges current = {{0, 4}, {4, 8}};
    CHECK(!rebalance(query(speeds, current)));
  }

  TEST_CASE("a device that is four times slower gives ranks away, and gets them back later") {
    const std::vector<double> slow = {10, 2.5};
    const Ranges even = {{0, 4}, {4, 8}};
    const auto away = rebalance(query(slow, even));
    REQUIRE(away);
    CHECK(away->seconds_now == doctest::Approx(4 / 2.5));
    CHECK(away->seconds_then == doctest::Approx(0.7));
    CHECK(away->ranks == Ranges{{0, 7}, {7, 8}});
    CHECK(!rebalance(query(slow, away->ranks)));

    const std::vector<double> well = {10, 10};
    const auto back = rebalance(query(well, away->ranks));
    REQUIRE(back);
    CHECK(back->ranks == even);
  }

  TEST_CASE("nothing moves when there are no ranks to move") {
    const std::vector<double> speeds = {10, 10, 10, 2};
    const Ranges current = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
    CHECK(!rebalance(query(speeds, current)));
  }

  TEST_CASE("a gain below 10 % is noise") {
    const std::vector<double> speeds = {10.5, 9.7};
    const Ranges current = {{0, 16}, {16, 32}};
    CHECK(!rebalance(query(speeds, current)));
  }

  TEST_CASE("a change that does not pay off in the rest of the job is not made") {
    const std::vector<double> speeds = {10, 2.5};
    const Ranges current = {{0, 4}, {4, 8}};
    RebalanceQuery few = query(speeds, current);
    few.pause = Seconds(2);  // 0.9 s are saved in a step
    few.steps_left = 4;
    CHECK(!rebalance(few));
    few.steps_left = 5;
    CHECK(rebalance(few));
    few.steps_left = 1'000'000;
    few.pause = Seconds(39);  // 60 s of the new steps save 77 s
    CHECK(!rebalance(few));
  }

  TEST_CASE("ranks move where that saves sums between hosts") {
    const std::vector<double> speeds = {1, 1, 1};
    const Ranges current = assign_ranks(speeds, 64);
    RebalanceQuery q = query(speeds, current);
    q.max_p = 64;
    q.sync_seconds = 100;  // of 5 crossings
    q.wire = {.hosts = {"a", "b", "c"}, .seconds_per_crossing = 20};
    const auto change = rebalance(q);
    REQUIRE(change);
    CHECK(change->seconds_now == doctest::Approx(122));
    CHECK(change->seconds_then == doctest::Approx(84));  // 24 ranks and 3 crossings
    q.current = change->ranks;
    q.sync_seconds = 60;
    CHECK(!rebalance(q));
    q.current = current;
    q.wire.hosts = {"a", "a", "a"};
    CHECK(!rebalance(q));
  }

  TEST_CASE("with any speeds a change is an improvement, and no second change follows") {
    std::mt19937_64 random(test::seed("rebalance"));
    int changes = 0;
    for (int round = 0; round < 2000; ++round) {
      const std::size_t n = 1 + random() % 6;
      const auto max_p = static_cast<std::uint32_t>(n + random() % 20);
      std::vector<double> before, speeds;
      for (std::size_t d = 0; d < n; ++d) {
        before.push_back(1 + random() % 20);
        speeds.push_back(1 + random() % 20);
      }
      const Ranges current = assign_ranks(before, max_p);
      RebalanceQuery q = query(speeds, current);
      const auto change = rebalance(q);
      if (!change) continue;
      ++changes;
      REQUIRE(change->seconds_then <= 0.9 * change->seconds_now);
      REQUIRE(change->ranks == assign_ranks(speeds, max_p));
      q.current = change->ranks;
      REQUIRE(!rebalance(q));
    }
    CHECK(changes > 100);
  }
}

}  // namespace
}  // namespace es::scheduler
