#include "actors/intra_job/core/device_rest.h"

#include "tests/actors/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

constexpr Instant kStart = std::chrono::hours(1);

}  // namespace

TEST_SUITE("actors/intra_job/device_rest") {
  TEST_CASE("each rest of a device is twice as long as the one before, up to a longest one") {
    DeviceRest rest;
    Instant now = kStart, length = kRestShortest;
    for (int i = 0; i < 12; ++i) {
      rest.taken_out(device(0), now);
      CHECK(rest.first_end(now) == now + length);
      CHECK(rest.rests(device(0), now + length - Instant(1)));
      CHECK_FALSE(rest.rests(device(0), now + length));
      CHECK_FALSE(rest.rests(device(1), now));
      now += length;
      length = std::min(2 * length, kRestLongest);
    }
    CHECK(length == kRestLongest);
    CHECK_FALSE(rest.first_end(now).has_value());
  }

  TEST_CASE("after a long time of work a device begins with the shortest rest again") {
    DeviceRest rest;
    rest.taken_out(device(0), kStart);
    rest.taken_out(device(0), kStart + kRestShortest);
    const Instant end = kStart + 3 * kRestShortest;
    const Instant later = end + 2 * kRestsForgotten * kRestShortest + Instant(1);
    rest.taken_out(device(0), later);
    CHECK(rest.first_end(later) == later + kRestShortest);
  }

  TEST_CASE("a device behind a cut link is tried again after its rest, others at once") {
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
    CHECK(*bench.core.next_tick() <= bench.now + kRestShortest);
    bench.now += kRestShortest;
    effects = bench.core.tick(bench.now);
    REQUIRE(all<StartWorker>(effects).size() == 1);
    CHECK(all<StartWorker>(effects)[0].device == device(1));
  }

  TEST_CASE("no device rests while the job has no other one") {
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
