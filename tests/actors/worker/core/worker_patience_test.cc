// How long a worker waits for another one, and what makes this time shorter or longer.
#include "tests/actors/worker/core/worker_bench.h"

namespace es::actors::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool suspects(Bench& bench, Instant at) {
  bench.now = at;
  return to_head<Suspect>(bench.core.tick(at)) != nullptr;
}

Effects link(Bench& bench, LinkEvent event) {
  return bench.core.on(event, bench.now);
}

// One whole step that takes this time.
void step(Bench& bench, Version version, Instant duration) {
  bench.now += duration;
  bench.step_until_update(version);
  bench.commit(version);
}

TEST_SUITE("actors/worker/patience") {
  TEST_CASE("a worker that has done its part waits for the step timeout") {
    Bench bench;
    bench.ready_at(5);
    bench.go();
    bench.sum_own(5);
    CHECK_FALSE(suspects(bench, seconds(29)));
    CHECK(suspects(bench, seconds(31)));
  }

  TEST_CASE("a broken link to the awaited worker shortens the wait") {
    Bench bench;
    bench.ready_at(5);
    bench.go();
    bench.sum_own(5);
    bench.now = seconds(10);
    link(bench, LinkLost{kSource});  // It waits for no worker there.
    CHECK_FALSE(suspects(bench, seconds(20)));
    link(bench, LinkLost{kPeer});
    CHECK_FALSE(suspects(bench, seconds(22)));
    CHECK(suspects(bench, seconds(23)));
  }

  TEST_CASE("a link that is never made shortens the wait, one that is made does not") {
    for (const bool is_made : {false, true}) {
      Bench bench;
      if (is_made) link(bench, LinkMade{kPeer});  // The peer has made it first.
      bench.ready_at(5);
      bench.go();
      link(bench, LinkAwaited{kPeer});
      bench.sum_own(5);
      CHECK_FALSE(suspects(bench, seconds(4)));
      CHECK(suspects(bench, seconds(6)) == !is_made);
      CHECK(suspects(bench, seconds(31)) == is_made);
    }
  }

  TEST_CASE("a break is forgotten with the generation, and when the step after it is done") {
    Bench bench;
    bench.ready_at(5);
    bench.go();
    link(bench, LinkLost{kPeer});
    step(bench, 5, seconds(1));
    step(bench, 6, seconds(1));
    bench.sum_own(7);
    CHECK_FALSE(suspects(bench, bench.now + seconds(20)));
    link(bench, LinkLost{kPeer});
    bench.head(Prepare{from_head(2)});
    bench.head(Bench::install(2, 7, Bench::source()));
    bench.head(Go{from_head(2)});
    CHECK_FALSE(suspects(bench, bench.now + seconds(20)));
  }

  TEST_CASE("a job of long steps waits for ten of them") {
    Bench bench;
    bench.ready_at(4);
    bench.now = seconds(0);
    bench.go();
    bench.engine(EvaluationDone{Generation{1}, 4, Bench::context()});
    step(bench, 4, seconds(8));
    bench.sum_own(5);
    const Instant done = bench.now;
    CHECK_FALSE(suspects(bench, done + seconds(79)));
    CHECK(suspects(bench, done + seconds(81)));
  }

  TEST_CASE("the worker's own part of the first step limits the time of a step") {
    Bench bench;
    bench.ready_at(5);
    bench.go();
    bench.now = seconds(20);
    bench.sum_own(5);
    CHECK_FALSE(suspects(bench, seconds(219)));
    CHECK(suspects(bench, seconds(221)));
  }

  TEST_CASE("a worker suspects no one in its own part, except while that waits for others") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    Install sharded = Bench::install(1, 5, FromCheckpoint{"path"});
    sharded.holders = {{kSelf, kPeer}, {kPeer, kSelf}};
    bench.head(sharded);
    bench.engine(VersionLoaded{5});
    bench.go();
    bench.engine(Bench::own_part(1, 5, 1));
    CHECK_FALSE(suspects(bench, seconds(31)));
    bench.engine(StepsHeldUp{Generation{1}, 4});
    CHECK_FALSE(suspects(bench, seconds(32)));
    bench.engine(StepsHeldUp{Generation{1}, 5});
    // Its own part has taken 32 s until now.
    CHECK_FALSE(suspects(bench, seconds(319)));
    bench.now = seconds(320);
    const Effects effects = bench.core.tick(seconds(321));
    const auto* suspected = to_head<Suspect>(effects);
    REQUIRE(suspected != nullptr);
    // The owner of the bucket, which the peer has to sum.
    CHECK(suspected->awaited == kPeer);
  }

  TEST_CASE("the memory of a part is given back when the sum of its bucket exists twice") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    Install sharded = Bench::install(1, 5, FromCheckpoint{"path"});
    sharded.holders = {{kSelf, kPeer}, {kPeer, kSelf}};
    bench.head(sharded);
    bench.engine(VersionLoaded{5});
    bench.go();
    CHECK(find<PartsRead>(bench.sum_own(5)) == nullptr);
    bench.engine(StepsHeldUp{Generation{1}, 5});  // It comes late: all is done.
    // The peer has summed bucket 1, of which this worker is the buddy.
    CHECK(find<PartsRead>(bench.peer(Bench::reduced(1, 5))) == nullptr);
    SumHeld held{Bench::reduced(1, 5), {}};
    held.sum.stamp = {Generation{1}, {}};
    const Effects told = bench.engine(held);
    const auto* read = find<PartsRead>(told);
    REQUIRE(read != nullptr);
    CHECK(read->step == 5);
    CHECK(read->bucket == 1);
    // Of bucket 0 the peer is the buddy and says so.
    bench.peer(Bench::contrib(1, 5));
    CHECK(find<PartsRead>(bench.engine(Bench::bucket_reduced(1, 5))) == nullptr);
    Complete complete{.stamp = from_peer(1), .step = 5, .bucket = 0};
    complete.results = {{0, 0, Bench::context()}, {1, 0, Bench::context()}};
    CHECK(find<PartsRead>(bench.peer(complete)) != nullptr);
    CHECK(find<PartsRead>(bench.peer(complete)) == nullptr);
  }

  TEST_CASE("a worker that loads a version waits while bytes arrive") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    bench.head(Bench::install(1, 5, Bench::source()));
    REQUIRE(bench.core.phase() == Phase::kLoading);
    for (int i = 1; i <= 10; ++i) {
      CHECK_FALSE(suspects(bench, i * seconds(9)));
      link(bench, BytesArrived{kSource});
    }
    link(bench, BytesArrived{kPeer});  // Bytes of another version.
    CHECK(suspects(bench, seconds(101)));
  }

  TEST_CASE("a broken link to the source is noticed earlier") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    bench.head(Bench::install(1, 5, Bench::source()));
    link(bench, LinkLost{kSource});
    CHECK(suspects(bench, milliseconds(2600)));
  }
}

}  // namespace
}  // namespace es::actors::worker
