#include "actors/intra_job/core/device_backoff.h"

#include "tests/actors/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

constexpr Instant kStart = std::chrono::hours(1);

}  // namespace

TEST_SUITE("actors/intra_job/device_backoff") {
  TEST_CASE("each wait of a device is twice as long as the one before, up to a longest one") {
    DeviceBackoff backoff;
    Instant now = kStart, length = kBackoffShortest;
    for (int i = 0; i < 12; ++i) {
      backoff.evicted(device(0), now);
      CHECK(backoff.first_end(now) == now + length);
      CHECK(backoff.waits(device(0), now + length - Instant(1)));
      CHECK_FALSE(backoff.waits(device(0), now + length));
      CHECK_FALSE(backoff.waits(device(1), now));
      now += length;
      length = std::min(2 * length, kBackoffLongest);
    }
    CHECK(length == kBackoffLongest);
    CHECK_FALSE(backoff.first_end(now).has_value());
  }

  TEST_CASE("after a long time of work a device begins with the shortest wait again") {
    DeviceBackoff backoff;
    backoff.evicted(device(0), kStart);
    backoff.evicted(device(0), kStart + kBackoffShortest);
    const Instant end = kStart + 3 * kBackoffShortest;
    const Instant later = end + 2 * kBackoffsForgotten * kBackoffShortest + Instant(1);
    backoff.evicted(device(0), later);
    CHECK(backoff.first_end(later) == later + kBackoffShortest);
  }

  TEST_CASE("a device behind a cut link is tried again after its wait, others at once") {
    Bench bench;
    bench.run_with(2);
    bench.say(Suspect{bench.stamp(1), 0, Incarnation{2}});
    bench.round({1, 2}, 0, {1, 2});
    bench.say(Suspect{bench.stamp(1), 0, Incarnation{2}});
    Effects effects = bench.exited(2);
    CHECK(all<StartWorker>(effects).empty());
    bench.round({1}, 0, {1});
    CHECK(all<StartWorker>(bench.allocate({device(0), device(1), device(2)})).size() == 1);
    REQUIRE(bench.core.next_tick().has_value());
    CHECK(*bench.core.next_tick() <= bench.now + kBackoffShortest);
    bench.now += kBackoffShortest;
    effects = bench.core.tick(bench.now);
    REQUIRE(all<StartWorker>(effects).size() == 1);
    CHECK(all<StartWorker>(effects)[0].device == device(1));
  }

  TEST_CASE("no device waits while the job has no other one") {
    Bench bench;
    bench.run_with(2);
    bench.say(Suspect{bench.stamp(1), 0, Incarnation{2}});
    bench.round({1, 2}, 0, {1, 2});
    bench.say(Suspect{bench.stamp(1), 0, Incarnation{2}});
    bench.exited(2);
    const Effects effects = bench.exited(1);
    CHECK(all<StartWorker>(effects).size() == 2);
  }
}

}  // namespace es::actors::intra_job
