// A worker in decided steps.
#include "tests/actors/worker/core/worker_bench.h"

namespace es::actors::worker {
namespace {

// Versions 4 and 8 decide.
WorkerConfig deciding() {
  WorkerConfig config = Bench::config();
  config.decided_every = config.eval_every;
  return config;
}

// Active at version 4, which is evaluated; its step waits for nothing but the decision.
Effects at_decided_step(Bench& bench) {
  bench.head(Prepare{from_head(1)});
  Install install = Bench::install(1, 4, FromCheckpoint{"path"});
  install.decisions = "before";
  bench.head(install);
  bench.engine(VersionLoaded{4});
  bench.go();
  bench.engine(EvaluationDone{Generation{1}, 4, Bench::context()});
  return bench.step_until_update(4);
}

TEST_SUITE("actors/worker/worker_decisions") {
  TEST_CASE("a decided step is not updated before the head has decided") {
    Bench bench(deciding());
    CHECK(find<ApplyUpdate>(at_decided_step(bench)) == nullptr);
    CHECK(bench.head(Decided{from_head(0), 4, "after"}).empty());
    CHECK(find<ApplyUpdate>(bench.head(Decided{from_head(1), 8, "later"})) == nullptr);
    const Effects effects = bench.head(Decided{from_head(1), 4, "after"});
    REQUIRE(find<ApplyUpdate>(effects) != nullptr);
    CHECK(find<ApplyUpdate>(effects)->decisions == "after");
  }

  TEST_CASE("the decision holds for the steps up to the next one") {
    Bench bench(deciding());
    at_decided_step(bench);
    bench.head(Decided{from_head(1), 4, "after"});
    bench.commit(4);
    const Effects effects = bench.step_until_update(5);
    REQUIRE(find<ApplyUpdate>(effects) != nullptr);
    CHECK(find<ApplyUpdate>(effects)->decisions == "after");
  }

  TEST_CASE("steps before the first decision have those of Install") {
    Bench bench(deciding());
    bench.head(Prepare{from_head(1)});
    Install install = Bench::install(1, 5, FromCheckpoint{"path"});
    install.decisions = "before";
    const Effects load = bench.head(install);
    REQUIRE(find<LoadVersion>(load) != nullptr);
    CHECK(find<LoadVersion>(load)->decisions == "before");
    bench.engine(VersionLoaded{5});
    bench.go();
    const Effects effects = bench.step_until_update(5);
    REQUIRE(find<ApplyUpdate>(effects) != nullptr);
    CHECK(find<ApplyUpdate>(effects)->decisions == "before");
  }

  TEST_CASE("a decision may come before all buckets of the step before are here") {
    WorkerConfig config = deciding();
    config.decided_every = config.eval_every = 1;
    Bench bench(config);
    at_decided_step(bench);
    bench.head(Decided{from_head(1), 4, "after"});
    bench.head(Decided{from_head(1), 5, "later"});
    bench.commit(4);
    bench.engine(EvaluationDone{Generation{1}, 5, Bench::context()});
    const Effects effects = bench.step_until_update(5);
    REQUIRE(find<ApplyUpdate>(effects) != nullptr);
    CHECK(find<ApplyUpdate>(effects)->decisions == "later");
  }

  TEST_CASE("a checkpoint of the version that waits for its decision is written at once") {
    Bench bench(deciding());
    const WriteCheckpoint best{
        .stamp = from_head(1), .request = 7, .directory = "best", .periodic = true, .at = 4};
    at_decided_step(bench);
    CHECK(find<WriteVersion>(bench.head(best)) != nullptr);
    bench.head(Decided{from_head(1), 4, "after"});
    WriteCheckpoint late = best;
    late.request = 8;
    CHECK(find<WriteVersion>(bench.head(late)) == nullptr);
  }

  TEST_CASE("a seal drops the decisions") {
    Bench bench(deciding());
    at_decided_step(bench);
    bench.head(Prepare{from_head(2)});
    CHECK(bench.head(Decided{from_head(1), 4, "after"}).empty());
    bench.head(Bench::install(2, 4, FromCheckpoint{"path"}));
    bench.head(Go{from_head(2)});
    CHECK(bench.core.phase() == Phase::kActive);
  }

  TEST_CASE("a version that may be the last one has a digest of its state") {
    WorkerConfig config = deciding();
    config.may_stop = true;
    Bench bench(config);
    bench.ready_at(6);
    bench.go();
    CHECK_FALSE(find<ApplyUpdate>(bench.step_until_update(6))->last);
    bench.commit(6);
    CHECK(find<ApplyUpdate>(bench.step_until_update(7))->last);
  }
}

}  // namespace
}  // namespace es::actors::worker
