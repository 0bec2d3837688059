// One worker core, message by message: each line of the transition table, and the hole tests that
// concern a single worker.
#include "tests/actors/worker/core/worker_bench.h"

namespace es::actors::worker {
namespace {

// Evaluates versions 4 and 8 in generation 1. The head is away from the first evaluation on.
void evaluate_twice(Bench& bench) {
  bench.ready_at(4);
  bench.go();
  bench.engine(EvaluationDone{Generation{1}, 4, Bench::context()});
  for (Version step = 4; step < 8; ++step) {
    bench.step_until_update(step);
    bench.commit(step);
  }
  bench.engine(EvaluationDone{Generation{1}, 8, Bench::context()});
}

std::vector<Version> told(const Effects& effects) {
  std::vector<Version> versions;
  for (const Effect& effect : effects)
    if (const auto* send = std::get_if<SendHead>(&effect))
      if (const auto* evaluated = std::get_if<Evaluated>(&send->message))
        versions.push_back(evaluated->version);
  return versions;
}

TEST_SUITE("actors/worker/worker_core") {
  TEST_CASE("a new worker says Hello with generation 0") {
    WorkerConfig config = Bench::config();
    config.channel = {"nccl 2.28.9", "GPU-1"};
    Bench bench(config);
    const Effects effects = bench.core.hello();
    REQUIRE(to_head<Hello>(effects) != nullptr);
    CHECK(to_head<Hello>(effects)->channel == config.channel);
    CHECK(to_head<Hello>(effects)->stamp == Stamp{Generation{0}, kSelf});
  }

  TEST_CASE("a worker without an engine says so each time the link to the head comes up") {
    Bench bench;
    for (int time = 0; time < 2; ++time) {
      const Effects effects = bench.core.setup_failed("no memory");
      REQUIRE(to_head<Failed>(effects) != nullptr);
      CHECK(to_head<Failed>(effects)->error == "no memory");
    }
    CHECK(to_head<Failed>(bench.head(Prepare{from_head(3)}))->error == "no memory");
  }

  TEST_CASE("Prepare of a newer generation seals and reports the version") {
    Bench bench;
    Effects effects = bench.head(Prepare{from_head(3)});
    CHECK(find<AbandonGenerations>(effects)->before == Generation{3});
    REQUIRE(to_head<Report>(effects) != nullptr);
    CHECK_FALSE(to_head<Report>(effects)->version.has_value());
    CHECK(to_head<Report>(effects)->stamp.generation == Generation{3});
    CHECK(bench.head(Prepare{from_head(3)}).empty());
    CHECK(bench.head(Prepare{from_head(2)}).empty());
  }

  TEST_CASE("Install of another generation, or before Prepare, is ignored") {
    Bench bench;
    CHECK(bench.head(Bench::install(1, 0, FromSeed{})).empty());
    bench.head(Prepare{from_head(2)});
    CHECK(bench.head(Bench::install(1, 0, FromSeed{})).empty());
    CHECK(bench.core.phase() == Phase::kSealed);
  }

  TEST_CASE("a worker that holds the target is ready at once") {
    Bench bench;
    bench.ready_at(3);
    bench.head(Prepare{from_head(2)});
    const Effects effects = bench.head(Bench::install(2, 3, Bench::source()));
    REQUIRE(to_head<Ready>(effects) != nullptr);
    CHECK(to_head<Ready>(effects)->version == 3);
  }

  TEST_CASE("a worker without the target fetches it and is ready only when it is verified") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    Effects effects = bench.head(Bench::install(1, 3, Bench::source()));
    REQUIRE(to_peer<Fetch>(effects) != nullptr);
    CHECK(to_peer<Fetch>(effects)->version == 3);
    State state{{Generation{1}, kSource}, 3, {}, {}, {}, {Bench::context(), Bench::context()}, {}};
    State wrong = state;
    wrong.version = 2;
    CHECK(bench.peer(wrong).empty());
    wrong = state;
    wrong.stamp.sender = kPeer;
    CHECK(bench.peer(wrong).empty());
    effects = bench.peer(state);
    REQUIRE(find<LoadVersion>(effects) != nullptr);
    CHECK(to_head<Ready>(effects) == nullptr);
    CHECK_FALSE(bench.core.version().has_value());
    CHECK(bench.peer(state).empty());  // Only one load runs at a time.
    effects = bench.engine(VersionLoaded{3});
    CHECK(to_head<Ready>(effects) != nullptr);
    CHECK(bench.core.version() == 3);
  }

  TEST_CASE("a source that cannot be read is suspected, and nothing has changed") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    bench.head(Bench::install(1, 3, Bench::source()));
    bench.peer(
        State{{Generation{1}, kSource}, 3, {}, {}, {}, {Bench::context(), Bench::context()}, {}});
    const Effects effects = bench.engine(DataUnreadable{Generation{1}, kSource});
    REQUIRE(to_head<Suspect>(effects) != nullptr);
    CHECK(to_head<Suspect>(effects)->awaited == kSource);
    CHECK_FALSE(bench.core.version().has_value());
  }

  TEST_CASE("a worker without ranks stands by, serves its version, and exits at Release only") {
    Bench bench;
    bench.ready_at(3);
    bench.head(Prepare{from_head(2)});
    Install install = Bench::install(2, 3, Bench::source());
    install.members = {{kPeer, {0, 2}, "peer", "h"}};
    CHECK(bench.head(install).empty());
    Effects effects = bench.peer(Fetch{from_peer(2), 3, "peer", "h"});
    REQUIRE(find<ExportVersion>(effects) != nullptr);
    State state;
    state.version = 3;
    effects = bench.engine(VersionExported{Generation{2}, kPeer, state});
    REQUIRE(to_peer<State>(effects) != nullptr);
    CHECK(to_peer<State>(effects)->stamp == Stamp{Generation{2}, kSelf});
    CHECK(bench.core.phase() == Phase::kSealed);
    effects = bench.head(Release{from_head(2)});
    CHECK(find<Exit>(effects) != nullptr);
    CHECK(bench.head(Prepare{from_head(3)}).empty());
  }

  TEST_CASE("a Fetch is answered before the source has received its own Install") {
    Bench bench;
    bench.ready_at(3);
    bench.head(Prepare{from_head(2)});
    CHECK(find<ExportVersion>(bench.peer(Fetch{from_peer(2), 3, "peer", "h"})) != nullptr);
  }

  TEST_CASE("a joiner that never took part is released with generation 0") {
    Bench bench;
    CHECK(find<Exit>(bench.head(Release{from_head(0)})) != nullptr);
  }

  TEST_CASE("a Release of an older generation is ignored") {
    Bench bench;
    bench.head(Prepare{from_head(2)});
    CHECK(bench.head(Release{from_head(1)}).empty());
    CHECK(bench.core.phase() == Phase::kSealed);
  }

  TEST_CASE("Go starts the local steps of the worker's ranks; before Ready it is ignored") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    CHECK(bench.go().empty());
    bench.head(Bench::install(1, 0, FromSeed{}));
    CHECK(bench.go().empty());
    bench.engine(VersionLoaded{0});
    const Effects effects = bench.go();
    REQUIRE(find<StartLocalSteps>(effects) != nullptr);
    CHECK(find<StartLocalSteps>(effects)->step == 0);
    CHECK(find<StartLocalSteps>(effects)->ranks == RankRange{0, 1});
  }

  TEST_CASE("a step: contributions go to the owners, the update waits for all buckets") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    Effects effects = bench.engine(Bench::own_part(1, 0, 1));
    REQUIRE(to_peer<Contrib>(effects) != nullptr);
    CHECK(to_peer<Contrib>(effects)->bucket == 1);
    CHECK(find<SendPeer>(effects)->channel == kPeersChannel);
    effects = bench.engine(Bench::own_part(1, 0, 0));
    CHECK(effects.empty());  // This part is counted, and rank 1 is missing.
    effects = bench.peer(Bench::contrib(1, 0));
    REQUIRE(find<ReduceBucket>(effects) != nullptr);
    CHECK(find<ReduceBucket>(effects)->parts.size() == 2);
    effects = bench.engine(Bench::bucket_reduced(1, 0));
    REQUIRE(to_peer<Reduced>(effects) != nullptr);
    CHECK(to_peer<Reduced>(effects)->results.size() == 2);
    CHECK(find<ApplyUpdate>(effects) == nullptr);  // Bucket 1 is missing.
    effects = bench.peer(Bench::reduced(1, 0));
    REQUIRE(find<ApplyUpdate>(effects) != nullptr);
    CHECK(find<ApplyUpdate>(effects)->buckets.size() == 2);
    CHECK(bench.core.version() == 0);  // Not before the update has ended.
    effects = bench.commit(0);
    CHECK(bench.core.version() == 1);
    REQUIRE(to_head<Committed>(effects) != nullptr);
    CHECK(find<StartLocalSteps>(effects)->step == 1);
  }

  TEST_CASE("hole: a step message that is early waits and is never dropped") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    bench.head(Bench::install(1, 0, FromSeed{}));
    CHECK(bench.peer(Bench::contrib(1, 0)).empty());  // The peer got its Go first.
    bench.engine(VersionLoaded{0});
    bench.go();
    CHECK(find<ReduceBucket>(bench.sum_own(0)) != nullptr);
    CHECK(bench.peer(Bench::contrib(1, 1)).empty());  // The peer committed first.
    bench.peer(Bench::reduced(1, 0));
    bench.engine(Bench::bucket_reduced(1, 0));
    bench.commit(0);
    CHECK(find<ReduceBucket>(bench.sum_own(1)) != nullptr);
  }

  TEST_CASE("step messages of an older generation are fenced, of a newer one reported as a bug") {
    Bench bench;
    bench.ready_at(0);
    bench.head(Prepare{from_head(2)});
    CHECK(bench.peer(Bench::contrib(1, 0)).empty());
    CHECK(bench.peer(Bench::reduced(1, 0)).empty());
    CHECK(bench.peer(Fetch{from_peer(1), 0, "peer", "h"}).empty());
    CHECK(find<ReportAnomaly>(bench.peer(Bench::contrib(3, 0))) != nullptr);
  }

  TEST_CASE("a message more than one step ahead is reported as a bug") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    CHECK(find<ReportAnomaly>(bench.peer(Bench::contrib(1, 2))) != nullptr);
    CHECK(find<ReportAnomaly>(bench.peer(Bench::reduced(1, 2))) != nullptr);
  }

  TEST_CASE("malformed step messages are refused") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    Contrib bad = Bench::contrib(1, 0);
    bad.ranks = {0, 1};  // The rank does not belong to the sender.
    CHECK(find<ReportAnomaly>(bench.peer(bad)) != nullptr);
    bad = Bench::contrib(1, 0);
    bad.bucket = 1;  // This worker does not own the bucket.
    CHECK(find<ReportAnomaly>(bench.peer(bad)) != nullptr);
    bad = Bench::contrib(1, 0);
    bad.results.clear();  // A context is missing.
    CHECK(find<ReportAnomaly>(bench.peer(bad)) != nullptr);
    bad = Bench::contrib(1, 0);
    bad.stamp.sender = kSource;  // The sender is no member.
    CHECK(find<ReportAnomaly>(bench.peer(bad)) != nullptr);
    Reduced wrong = Bench::reduced(1, 0);
    wrong.bucket = 0;  // The bucket does not belong to the sender.
    CHECK(find<ReportAnomaly>(bench.peer(wrong)) != nullptr);
    wrong.bucket = 7;
    CHECK(find<ReportAnomaly>(bench.peer(wrong)) != nullptr);
  }

  // There are seven ranks. The peer has [2, 7), whose maximal tree ranges are [2, 4) and [4, 7).
  TEST_CASE("a part is a tree range, or at level D0 all ranks of the sender") {
    for (const bool per_worker : {false, true}) {
      Bench bench(per_worker);
      Install install = Bench::install(1, 0, FromCheckpoint{"path"});
      install.members[0].ranks = {0, 2};
      install.members[1].ranks = {2, 7};
      bench.head(Prepare{from_head(1)});
      bench.head(install);
      bench.engine(VersionLoaded{0});
      bench.go();
      for (const RankRange ranks : {RankRange{2, 7}, {2, 4}, {4, 7}, {2, 5}, {3, 5}, {4, 6}}) {
        Contrib part = Bench::contrib(1, 0);
        part.ranks = ranks;
        part.results.clear();
        for (VirtualRank r = ranks.begin; r < ranks.end; ++r)
          part.results.push_back({r, 0, Bench::context()});
        const bool whole = ranks == RankRange{2, 7};
        const bool maximal = ranks == RankRange{2, 4} || ranks == RankRange{4, 7};
        const bool refused = find<ReportAnomaly>(bench.peer(part)) != nullptr;
        CHECK(refused == !(per_worker ? whole : maximal));
      }
    }
  }

  TEST_CASE("repetitions change nothing") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    bench.peer(Bench::contrib(1, 0));
    CHECK(bench.peer(Bench::contrib(1, 0)).empty());
    bench.step_until_update(0);
    CHECK(bench.peer(Bench::reduced(1, 0)).empty());
    bench.commit(0);
    CHECK(bench.peer(Bench::contrib(1, 0)).empty());
    CHECK(bench.peer(Bench::reduced(1, 0)).empty());
  }

  TEST_CASE("hole: Prepare during an update waits for it, and the report has the new version") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    CHECK(find<ApplyUpdate>(bench.step_until_update(0)) != nullptr);
    CHECK(bench.head(Prepare{from_head(2)}).empty());
    CHECK(bench.head(Prepare{from_head(3)}).empty());
    Effects effects = bench.commit(0);
    REQUIRE(to_head<Report>(effects) != nullptr);
    CHECK(to_head<Report>(effects)->version == 1);
    CHECK(to_head<Report>(effects)->stamp.generation == Generation{3});
    CHECK(to_head<Committed>(effects) == nullptr);
    bench.head(Bench::install(3, 1, Bench::source()));
    effects = bench.head(Go{from_head(3)});  // The ledger line was kept for this.
    REQUIRE(to_head<Committed>(effects) != nullptr);
    CHECK(to_head<Committed>(effects)->line.version == 1);
  }

  TEST_CASE("hole: after the report nothing of the old generation is counted or committed") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    bench.sum_own(0);
    bench.peer(Bench::contrib(1, 0));
    bench.head(Prepare{from_head(2)});
    CHECK(bench.engine(Bench::bucket_reduced(1, 0)).empty());
    CHECK(bench.peer(Bench::reduced(1, 0)).empty());
    CHECK(bench.engine(Bench::own_part(1, 0, 0)).empty());
    CHECK(bench.engine(EvaluationDone{Generation{1}, 0, Bench::context()}).empty());
    CHECK(bench.core.version() == 0);
  }

  TEST_CASE("hole: partial sums do not survive into the next generation") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    bench.sum_own(0);
    bench.head(Prepare{from_head(2)});
    bench.head(Bench::install(2, 0, Bench::source()));
    bench.head(Go{from_head(2)});
    CHECK(bench.peer(Bench::contrib(2, 0)).empty());  // Rank 0 does not exist any more.
  }

  TEST_CASE("all workers stop at the version with the drain flag, whichever worker set it") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    bench.step_until_update(0, true);
    const Effects effects = bench.commit(0);
    CHECK(bench.core.phase() == Phase::kPaused);
    REQUIRE(to_head<Drained>(effects) != nullptr);
    CHECK(to_head<Drained>(effects)->version == 1);
    CHECK(find<StartLocalSteps>(effects) == nullptr);
  }

  TEST_CASE("a sum that is added on the way brings the results and the wish to stop of its parts") {
    WorkerConfig config = Bench::config();
    config.max_p = 4;
    Bench bench(config);
    bench.head(Prepare{from_head(1)});
    // The source owns bucket 0 on another host; this worker and the peer share one.
    Install install = Bench::install(1, 5, FromCheckpoint{"path"});
    install.members = {{kSource, {0, 2}, "source", "g"},
                       {kSelf, {2, 3}, "self", "h"},
                       {kPeer, {3, 4}, "peer", "h"}};
    install.bucket_count = 1;
    bench.head(install);
    bench.engine(VersionLoaded{5});
    bench.go();
    bench.engine(
        PartSummed{{{Generation{1}, {}}, 5, 0, {2, 3}, {}, {{2, 0, Bench::context()}}, false}});
    const Effects added =
        bench.peer(Contrib{from_peer(1), 5, 0, {3, 4}, {}, {{3, 0, Bench::context()}}, true});
    const auto* sum = find<ReduceBucket>(added);
    REQUIRE(sum != nullptr);
    CHECK(sum->is_partial);
    CHECK(sum->ranks == RankRange{2, 4});
    const Effects sent =
        bench.engine(PartialSumMade{{{Generation{1}, {}}, 5, 0, {2, 4}, {}, {}, false}});
    const auto* contrib = to_peer<Contrib>(sent);
    REQUIRE(contrib != nullptr);
    CHECK(contrib->ranks == RankRange{2, 4});
    CHECK(contrib->drain);
    REQUIRE(contrib->results.size() == 2);
    CHECK(contrib->results[1].rank == 3);
  }

  TEST_CASE("a drain that came too late for this step stops at the next one") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    bench.sum_own(0);
    bench.head(Drain{from_head(1)});
    bench.peer(Bench::contrib(1, 0));
    bench.peer(Bench::reduced(1, 0));
    bench.engine(Bench::bucket_reduced(1, 0));
    bench.commit(0);
    CHECK(bench.core.phase() == Phase::kActive);
    const Effects effects = bench.step_until_update(1);
    CHECK(find<ApplyUpdate>(effects)->buckets[0].drain);
    bench.commit(1);
    CHECK(bench.core.phase() == Phase::kPaused);
  }

  TEST_CASE("a planned stop pauses at its version, also when the worker starts there") {
    for (const Version target : {Version{0}, Version{1}}) {
      Bench bench;
      bench.head(Prepare{from_head(1)});
      Install install = Bench::install(1, target, FromCheckpoint{"path"});
      install.pause_at = 1;
      bench.head(install);
      bench.engine(VersionLoaded{target});
      Effects effects = bench.go();
      if (target == 0) {
        bench.step_until_update(0);
        effects = bench.commit(0);
      }
      CHECK(to_head<Drained>(effects) != nullptr);
      CHECK(bench.core.phase() == Phase::kPaused);
    }
  }

  TEST_CASE("a worker that is held at the last version does not begin its evaluation") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    Install install = Bench::install(1, 0, FromCheckpoint{"path"});
    install.target = install.last_version;
    install.pause_at = install.last_version;
    bench.head(install);
    bench.engine(VersionLoaded{install.last_version});
    const Effects effects = bench.go();
    CHECK(to_head<Drained>(effects) != nullptr);
    CHECK(find<RunEvaluation>(effects) == nullptr);
    // The version can be written now.
    CHECK(find<WriteVersion>(bench.head(
              WriteCheckpoint{.stamp = from_head(1), .request = 7, .directory = "d"})) != nullptr);
  }

  TEST_CASE("the owner of rank 0 evaluates before its next local step") {
    Bench bench;
    bench.ready_at(3);
    bench.go();
    bench.step_until_update(3);
    Effects effects = bench.commit(3);
    REQUIRE(find<RunEvaluation>(effects) != nullptr);
    CHECK(find<RunEvaluation>(effects)->version == 4);
    CHECK(find<StartLocalSteps>(effects) == nullptr);
    effects = bench.engine(EvaluationDone{Generation{1}, 4, Bench::context()});
    CHECK(*to_head<Evaluated>(effects)->totals == *Bench::context());
    CHECK(find<StartLocalSteps>(effects) != nullptr);
  }

  TEST_CASE("an evaluation that the head does not have is sent again, not computed again") {
    Bench bench;
    bench.ready_at(4);
    bench.go();
    bench.engine(EvaluationDone{Generation{1}, 4, Bench::context()});
    const Effects effects = bench.head(Prepare{from_head(2)});
    REQUIRE(to_head<Evaluated>(effects) != nullptr);
    CHECK(to_head<Evaluated>(effects)->stamp.generation == Generation{2});
    CHECK(to_head<Report>(effects) != nullptr);
    bench.head(Bench::install(2, 4, Bench::source()));
    CHECK(find<RunEvaluation>(bench.head(Go{from_head(2)})) == nullptr);
  }

  TEST_CASE("all evaluations from the time without a head are sent to the next head") {
    for (const Version known : {0, 4, 8}) {
      Bench bench;
      evaluate_twice(bench);
      CHECK(told(bench.head(Prepare{from_head(2)})) == std::vector<Version>{4, 8});
      Install install = Bench::install(2, 8, Bench::source());
      // This worker is to leave, and no other one has the evaluations.
      install.members = {{kPeer, {0, 2}, "peer", "h"}};
      install.evaluated_through = known;
      bench.head(install);
      std::vector<Version> expected;
      for (const Version version : {4, 8})
        if (version > known) expected.push_back(version);
      CHECK(told(bench.head(Prepare{from_head(3)})) == expected);
    }
  }

  TEST_CASE("an acknowledged version acknowledges the evaluations of those before it") {
    Bench bench;
    evaluate_twice(bench);
    bench.head(Acknowledge{from_head(1), 8});
    CHECK(told(bench.head(Prepare{from_head(2)})) == std::vector<Version>{8});
  }

  TEST_CASE("at the last version there is an evaluation and no step") {
    Bench bench;
    bench.ready_at(kLast - 1);
    bench.go();
    const Effects update = bench.step_until_update(kLast - 1, true);
    CHECK(find<ApplyUpdate>(update)->last);
    Effects effects = bench.commit(kLast - 1);
    CHECK(find<RunEvaluation>(effects) != nullptr);
    effects = bench.engine(EvaluationDone{Generation{1}, kLast, Bench::context()});
    CHECK(effects.size() == 1);  // Evaluated. There is no drain at the end.
  }

  TEST_CASE(
      "acknowledged ledger lines are dropped, and the others are sent after Go and with a State") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    for (Version step = 0; step < 3; ++step) {
      bench.step_until_update(step);
      bench.commit(step);
    }
    bench.head(Acknowledge{from_head(1), 1});
    bench.head(Prepare{from_head(2)});
    Install install = Bench::install(2, 3, Bench::source());
    install.acknowledged_through = 2;
    bench.peer(Fetch{from_peer(2), 3, "peer", "h"});
    const Effects state = bench.engine(VersionExported{Generation{2}, kPeer, {}});
    CHECK(to_peer<State>(state)->unacknowledged.size() == 2);
    bench.head(install);
    const Effects effects = bench.head(Go{from_head(2)});
    REQUIRE(to_head<Committed>(effects) != nullptr);
    CHECK(to_head<Committed>(effects)->line.version == 3);
  }

  TEST_CASE("a checkpoint is written at the next commit, or at once while paused") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    CHECK(bench.head(WriteCheckpoint{from_head(1), 5, "dir"}).empty());
    bench.step_until_update(0, true);
    Effects effects = bench.commit(0);
    REQUIRE(find<WriteVersion>(effects) != nullptr);
    CHECK(find<WriteVersion>(effects)->directory == "dir");
    // It is never written twice.
    CHECK(bench.head(WriteCheckpoint{from_head(1), 5, "dir"}).empty());
    effects = bench.engine(CheckpointFinished{5, "dir", 1, {}, ""});
    CHECK(to_head<CheckpointWritten>(effects)->version == 1);
    effects = bench.head(WriteCheckpoint{from_head(1), 6, "other"});
    CHECK(find<WriteVersion>(effects) != nullptr);
    // What has failed may be asked for again.
    effects = bench.engine(CheckpointFinished{6, "other", 1, {}, "no space left"});
    CHECK(to_head<CheckpointWritten>(effects)->error == "no space left");
    effects = bench.head(WriteCheckpoint{from_head(1), 6, "other"});
    CHECK(find<WriteVersion>(effects) != nullptr);
  }

  TEST_CASE("a periodic checkpoint waits for its version") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    bench.head(WriteCheckpoint{
        .stamp = from_head(1), .request = 9, .directory = "series", .periodic = true, .at = 2});
    bench.step_until_update(0);
    CHECK(find<WriteVersion>(bench.commit(0)) == nullptr);
    bench.step_until_update(1);
    const Effects effects = bench.commit(1);
    REQUIRE(find<WriteVersion>(effects) != nullptr);
    CHECK(find<WriteVersion>(effects)->periodic);
    bench.step_until_update(2);
    CHECK(find<WriteVersion>(bench.commit(2)) == nullptr);
  }

  TEST_CASE("a damaged source is reported to the head, and the worker waits for the next round") {
    Bench bench;
    bench.head(Prepare{from_head(1)});
    bench.head(Bench::install(1, 5, FromCheckpoint{"path"}));
    const Effects effects =
        bench.engine(CheckpointDamaged{Generation{1}, "path", "path/data: damaged"});
    REQUIRE(to_head<CheckpointUnreadable>(effects) != nullptr);
    CHECK(to_head<CheckpointUnreadable>(effects)->path == "path");
    CHECK(to_head<CheckpointUnreadable>(effects)->error == "path/data: damaged");
    CHECK_FALSE(bench.core.version().has_value());
    REQUIRE(to_head<Report>(bench.head(Prepare{from_head(2)})) != nullptr);
    bench.head(Bench::install(2, 3, FromCheckpoint{"older"}));
    CHECK(to_head<Ready>(bench.engine(VersionLoaded{3})) != nullptr);
  }

  TEST_CASE("a worker that waits in vain suspects the workers whose parts are missing, once") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    CHECK(bench.core.tick(std::chrono::seconds(100)).empty());  // Its own part is not done.
    bench.sum_own(0);
    bench.now += std::chrono::seconds(29);
    CHECK(bench.core.tick(bench.now).empty());
    bench.now += std::chrono::seconds(2);
    const Effects effects = bench.core.tick(bench.now);
    REQUIRE(to_head<Suspect>(effects) != nullptr);
    CHECK(to_head<Suspect>(effects)->awaited == kPeer);
    CHECK(effects.size() == 1);
    CHECK(bench.core.tick(bench.now + std::chrono::seconds(60)).empty());
  }

  TEST_CASE("a failure of the job is reported again in each generation until Release") {
    Bench bench;
    bench.ready_at(0);
    bench.go();
    Effects effects = bench.engine(EngineFailed{"loss of EST 3 is not finite"});
    REQUIRE(to_head<Failed>(effects) != nullptr);
    CHECK(bench.peer(Bench::contrib(1, 0)).empty());
    effects = bench.head(Prepare{from_head(2)});
    CHECK(to_head<Failed>(effects)->stamp.generation == Generation{2});
    CHECK(to_head<Report>(effects) == nullptr);
    CHECK(find<Exit>(bench.head(Release{from_head(2)})) != nullptr);
  }

  TEST_CASE("a target older than the version of the worker stops the process") {
    Bench bench;
    bench.ready_at(3);
    bench.head(Prepare{from_head(2)});
    CHECK(find<Abort>(bench.head(Bench::install(2, 2, Bench::source()))) != nullptr);
  }
}

}  // namespace
}  // namespace es::actors::worker
