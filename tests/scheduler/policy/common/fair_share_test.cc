#include "scheduler/policy/common/fair_share.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

std::vector<Queue> three(double x, double y, double z) {
  return *completed_queues({{.name = "x", .guarantee = {}, .weight = x},
                            {.name = "y", .guarantee = {}, .weight = y},
                            {.name = "z", .guarantee = {}, .weight = z}});
}

}  // namespace

TEST_SUITE("scheduler/policy/fair_share") {
  TEST_CASE("usage halves in every half-life, and counts for the queues above") {
    const auto queues = *completed_queues(
        {{"top", {}}, {.name = "x", .guarantee = {}, .parent = "top"}, {"y", {}}});
    FairShare shares(queues, Seconds(100));
    shares.charge("x", 800);
    shares.advance(Seconds(100));
    CHECK(shares.usage("x") == doctest::Approx(400));
    CHECK(shares.usage("top") == doctest::Approx(400));
    CHECK(shares.usage("y") == 0);
    shares.charge("x", 100);
    shares.advance(Seconds(300));
    CHECK(shares.usage("x") == doctest::Approx(125));
    shares.advance(Seconds(300));  // no time has passed
    CHECK(shares.usage("x") == doctest::Approx(125));
    shares.charge("nowhere", 5);
    CHECK(shares.usage("nowhere") == 0);
  }

  TEST_CASE("the queue with the least usage for its weight comes first") {
    FairShare shares(three(1, 2, 1), Seconds(3600));
    CHECK(shares.level("x") == shares.level("y"));
    CHECK(shares.level("nowhere") == 1);  // jobs in no queue come last
    shares.charge("x", 100);
    shares.charge("y", 200);  // as much for its weight
    CHECK(shares.rank());
    CHECK(shares.level("x") == shares.level("y"));
    CHECK(shares.level("z") < shares.level("x"));
    CHECK_FALSE(shares.rank());
    shares.charge("y", 300);
    CHECK(shares.rank());
    CHECK(shares.level("x") < shares.level("y"));
    CHECK(shares.level("y") < shares.level("nowhere"));
  }

  TEST_CASE("queues that are nearly equal stay equal, and a weight of 0 comes after its siblings") {
    FairShare shares(three(1, 1, 0), Seconds(3600));
    shares.charge("x", 100);
    shares.charge("y", 110);
    shares.rank();
    CHECK(shares.level("x") == shares.level("y"));
    CHECK(shares.level("z") > shares.level("y"));
  }

  TEST_CASE("in a tree the queues at the top are compared first") {
    const auto queues =
        *completed_queues({{.name = "a", .guarantee = {}, .weight = 1},
                           {.name = "b", .guarantee = {}, .weight = 1},
                           {.name = "a1", .guarantee = {}, .parent = "a", .weight = 1},
                           {.name = "a2", .guarantee = {}, .parent = "a", .weight = 1},
                           {.name = "b1", .guarantee = {}, .parent = "b", .weight = 1}});
    FairShare shares(queues, Seconds(3600));
    shares.charge("a1", 1000);
    shares.charge("b1", 100);
    shares.rank();
    // a2 has used nothing, but its parent has used more than b.
    CHECK(shares.level("b1") < shares.level("a2"));
    CHECK(shares.level("a2") < shares.level("a1"));
  }

  TEST_CASE("with random charges usage is the decayed sum, and a period is within its bounds") {
    std::mt19937_64 random(test::seed("fair share"));
    for (int round = 0; round < 50; ++round) {
      const double half_life = 50.0 + static_cast<double>(random() % 100'000);
      FairShare shares(three(1, 1, 1), Seconds(half_life));
      CHECK(shares.period().count() >= 1);
      CHECK(shares.period().count() <= 300);
      double now = 0, expected = 0;
      for (int step = 0; step < 100; ++step) {
        const double passed = static_cast<double>(random() % 1000);
        const double charge = static_cast<double>(random() % 1000);
        now += passed;
        expected = expected * std::exp2(-passed / half_life) + charge;
        shares.advance(Seconds(now));
        shares.charge("x", charge);
        CHECK(shares.usage("x") == doctest::Approx(expected));
      }
    }
  }
}

}  // namespace es::scheduler
