// A worker in audited steps.
#include "tests/actors/worker/core/worker_bench.h"

namespace es::actors::worker {
namespace {

constexpr Digest kDigest{4, 2};

WorkerConfig audited() {
  WorkerConfig config = Bench::config();
  config.audit_every = 5;
  return config;
}

// Active at version 5, whose step is audited: this worker computes rank 1 of the peer.
Effects at_audited_step(Bench& bench) {
  bench.ready_at(5);
  return bench.go();
}

TEST_SUITE("actors/worker/worker_audit") {
  TEST_CASE("the auditor computes the rank of another worker, and the owner digests its own") {
    Bench auditor(audited());
    const Effects effects = at_audited_step(auditor);
    REQUIRE(find<RunAudit>(effects) != nullptr);
    CHECK(find<RunAudit>(effects)->rank == 1);
    CHECK(find<RunAudit>(effects)->step == 5);
    CHECK_FALSE(find<StartLocalSteps>(effects)->audited.has_value());
    Bench owner(audited());
    owner.ready_at(0);
    const Effects own = owner.go();
    CHECK(find<StartLocalSteps>(own)->audited == 0);
    CHECK(find<RunAudit>(own) == nullptr);
  }

  TEST_CASE("the result of a local step is reported to the head") {
    Bench bench(audited());
    at_audited_step(bench);
    const Effects effects = bench.engine(AuditDone{Generation{1}, 5, 1, kDigest});
    REQUIRE(to_head<Audited>(effects) != nullptr);
    CHECK(to_head<Audited>(effects)->digest == kDigest);
    CHECK(bench.engine(AuditDone{Generation{0}, 5, 1, kDigest}).empty());
  }

  TEST_CASE("an audited step is not committed before the head lets it pass") {
    Bench bench(audited());
    at_audited_step(bench);
    CHECK(find<ApplyUpdate>(bench.step_until_update(5)) == nullptr);
    CHECK(bench.head(AuditPassed{from_head(0), 5}).empty());
    CHECK(find<ApplyUpdate>(bench.head(AuditPassed{from_head(1), 0})) == nullptr);
    CHECK(find<ApplyUpdate>(bench.head(AuditPassed{from_head(1), 5})) != nullptr);
  }

  TEST_CASE("the head may let a step pass before all its buckets are here") {
    Bench bench(audited());
    at_audited_step(bench);
    bench.head(AuditPassed{from_head(1), 5});
    CHECK(find<ApplyUpdate>(bench.step_until_update(5)) != nullptr);
  }

  TEST_CASE("the next audit may have passed before all buckets of this step are here") {
    WorkerConfig config = audited();
    config.audit_every = 1;
    Bench bench(config);
    at_audited_step(bench);
    bench.head(AuditPassed{from_head(1), 5});
    bench.head(AuditPassed{from_head(1), 6});
    CHECK(find<ApplyUpdate>(bench.step_until_update(5)) != nullptr);
  }

  TEST_CASE("steps between audits wait for no verdict") {
    Bench bench(audited());
    bench.ready_at(6);
    bench.go();
    CHECK(find<ApplyUpdate>(bench.step_until_update(6)) != nullptr);
  }

  TEST_CASE("on request a worker computes a rank again, at once or when it reaches the step") {
    Bench bench(audited());
    at_audited_step(bench);
    Effects effects = bench.head(Audit{from_head(1), 5, 0});
    REQUIRE(find<RunAudit>(effects) != nullptr);
    CHECK(find<RunAudit>(effects)->rank == 0);
    Bench late(audited());
    late.ready_at(4);
    late.go();
    late.engine(EvaluationDone{Generation{1}, 4, Bench::context()});
    CHECK(find<RunAudit>(late.head(Audit{from_head(1), 5, 0})) == nullptr);
    late.step_until_update(4);
    effects = late.engine(UpdateApplied{{5, {0, 0}, {}, {}}});
    std::size_t runs = 0;
    for (const Effect& effect : effects) runs += std::holds_alternative<RunAudit>(effect);
    CHECK(runs == 2);
  }

  TEST_CASE(
      "when a verdict does not come, the worker suspects the two workers that had to report") {
    Bench bench(audited());
    at_audited_step(bench);
    bench.step_until_update(5);
    bench.now += bench.config().step_timeout + Instant(std::chrono::seconds(1));
    const Effects effects = bench.core.tick(bench.now);
    REQUIRE(to_head<Suspect>(effects) != nullptr);
    CHECK(to_head<Suspect>(effects)->awaited == kPeer);
  }

  TEST_CASE("a seal drops the verdicts") {
    Bench bench(audited());
    at_audited_step(bench);
    bench.head(AuditPassed{from_head(1), 5});
    bench.head(Prepare{from_head(2)});
    bench.head(Bench::install(2, 5, FromCheckpoint{"path"}));
    CHECK(find<StartLocalSteps>(bench.head(Go{from_head(2)})) != nullptr);
    CHECK(bench.core.phase() == Phase::kActive);
  }
}

}  // namespace
}  // namespace es::actors::worker
