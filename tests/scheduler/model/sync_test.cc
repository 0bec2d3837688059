#include "scheduler/model/sync.h"

#include <doctest/doctest.h>

#include <limits>

#include "scheduler/model/model.h"
#include "scheduler/model/sync_watch.h"

namespace es::scheduler {

TEST_SUITE("scheduler/model/sync") {
  TEST_CASE("without a point nothing is lost by communication") {
    CHECK(SyncCurve().empty());
    CHECK(SyncCurve().seconds(8) == 0);
  }

  TEST_CASE("one point: every device but the first costs the same") {
    const SyncCurve curve({{8, 0.7}});
    CHECK(curve.seconds(1) == 0);
    CHECK(curve.seconds(2) == doctest::Approx(0.1));
    CHECK(curve.seconds(8) == 0.7);
    CHECK(curve.seconds(15) == doctest::Approx(1.4));
  }

  TEST_CASE("points are joined by lines, and a measured point of one device counts") {
    const SyncCurve curve({{8, 0.7}, {2, 0.4}, {1, 0.1}, {2, 0.3}});
    CHECK(curve.points() == std::vector<SyncPoint>{{1, 0.1}, {2, 0.3}, {8, 0.7}});
    CHECK(curve.seconds(1) == 0.1);
    CHECK(curve.seconds(5) == doctest::Approx(0.5));
    CHECK(curve.seconds(15) == doctest::Approx(1.3));
    CHECK(SyncCurve({{1, 0.2}}).seconds(9) == 0.2);
    // A curve never falls.
    CHECK(SyncCurve({{1, 0.5}, {4, 0.2}}).seconds(4) == 0.5);
    CHECK(SyncCurve({{1, 0.5}, {4, 0.2}}).seconds(9) == 0.5);
  }

  TEST_CASE("points that are not valid are ignored") {
    const double infinity = std::numeric_limits<double>::infinity();
    CHECK(SyncCurve({{0, 1}, {2, -1}, {3, infinity}, {4, 0 * infinity}}).empty());
  }

  TEST_CASE("the waste of a plan contains the time of communication") {
    const Plan plan{{{{"a"}, 4, 2}}};
    const Estimate e = estimate(plan, {{{"a"}, 10}}, 8, SyncCurve({{4, 0.2}}));
    CHECK(e.f_seconds_per_step == doctest::Approx(0.4));
    CHECK(e.throughput == doctest::Approx(20));
    // 4 devices compute 40 local steps per second, but half of the time.
    CHECK(e.waste == doctest::Approx(20));
  }
}

TEST_SUITE("scheduler/model/sync_watch") {
  TEST_CASE("communication becomes known after three blocks, by their median") {
    SyncWatch watch;
    const SyncCurve none;
    CHECK_FALSE(watch.add(4, 1.0, 0.6, none));
    CHECK_FALSE(watch.add(4, 9.0, 0.6, none));  // an evaluation was in this block
    const auto point = watch.add(4, 1.1, 0.6, none);
    REQUIRE(point);
    CHECK(point->devices == 4);
    CHECK(point->seconds == doctest::Approx(0.5));
  }

  TEST_CASE("a small difference is nothing, and a device that became slow for a moment is not") {
    SyncWatch watch;
    const SyncCurve none;
    for (int i = 0; i < 10; ++i) CHECK_FALSE(watch.add(4, 1.0, 0.92, none));
    watch.restart();
    // The reports of the devices follow their speed before the steps do, or after them.
    for (const double compute : {1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 2.0, 1.0})
      CHECK_FALSE(watch.add(4, 1.0, compute, none));
  }

  TEST_CASE("a known point changes only by a tenth of a step, and another number is a new point") {
    SyncWatch watch;
    const SyncCurve known({{4, 0.4}});
    for (int i = 0; i < 5; ++i) CHECK_FALSE(watch.add(4, 1.0, 0.55, known));
    for (int i = 0; i < 2; ++i) CHECK_FALSE(watch.add(4, 1.0, 0.45, known));
    CHECK(watch.add(4, 1.0, 0.45, known)->seconds == doctest::Approx(0.55));
    watch.restart();
    for (int i = 0; i < 2; ++i) CHECK_FALSE(watch.add(2, 1.0, 1.2, known));
    CHECK(*watch.add(2, 1.0, 1.2, known) == SyncPoint{2, 0});
  }
}

}  // namespace es::scheduler
