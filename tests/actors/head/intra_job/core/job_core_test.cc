// The head core of one job, event by event.
#include "tests/actors/head/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

TEST_SUITE("actors/head/intra_job/intra_job_core") {
  TEST_CASE("an allocation starts workers, and the first round begins when all are warm") {
    Bench bench;
    CHECK(bench.core.state() == JobState::kQueued);
    Effects effects = bench.allocate({device(0), device(1)});
    CHECK(all<StartWorker>(effects).size() == 2);
    CHECK(bench.core.state() == JobState::kStarting);
    CHECK(bench.hello(1).empty());
    effects = bench.hello(2);
    CHECK(receivers<Prepare>(effects) == Ids{1, 2});
    CHECK(bench.core.generation() == Generation{1});
  }

  TEST_CASE("hole: a generation is journaled before anything of it is sent") {
    Bench bench;
    bench.allocate({device(0)});
    const Effects effects = bench.hello(1);
    REQUIRE(effects.size() == 2);
    REQUIRE(std::holds_alternative<SaveRecord>(effects[0]));
    CHECK(std::get<SaveRecord>(effects[0]).record.generation == Generation{1});
    CHECK(std::get<SaveRecord>(effects[0]).record.known.size() == 1);
    CHECK(std::holds_alternative<SendWorker>(effects[1]));
  }

  TEST_CASE("when no worker has a version, the job begins from its seed") {
    Bench bench;
    bench.allocate({device(0), device(1)});
    bench.hello(1);
    bench.hello(2);
    CHECK(bench.report(1, std::nullopt).empty());
    const Install install = message<Install>(bench.report(2, std::nullopt));
    CHECK(install.target == 0);
    CHECK(install.source == Source(FromSeed{}));
    REQUIRE(install.members.size() == 2);
    CHECK(install.members[0].ranks == RankRange{0, 2});
    CHECK(install.members[1].ranks == RankRange{2, 4});
    for (const Member& member : install.members)
      CHECK(member.channel == bench.channel(member.incarnation.value));
    CHECK(install.last_version == kLast);
    CHECK(install.bucket_count == 2);
    CHECK(receivers<Go>(bench.ready(1, 0)).empty());
    CHECK(receivers<Go>(bench.ready(2, 0)) == Ids{1, 2});
  }

  TEST_CASE("the target is the newest sealed version, and its holder is the source") {
    Bench bench;
    bench.run_with(3);
    bench.exited(3);
    bench.report(1, 4);
    const Install install = message<Install>(bench.report(2, 5));
    CHECK(install.target == 5);
    REQUIRE(std::holds_alternative<FromPeer>(install.source));
    CHECK(std::get<FromPeer>(install.source).incarnation == Incarnation{2});
  }

  TEST_CASE(
      "a planned change drains first, and one round handles the member that joins and the one that "
      "leaves") {
    Bench bench;
    bench.run_with(2);
    Effects effects = bench.allocate({device(1), device(2)});
    // The device that is taken away is given back at the next boundary, without waiting for the
    // joiner.
    CHECK(receivers<Drain>(effects) == Ids{1, 2});
    bench.hello(3);
    bench.committed(1, 1);
    CHECK(bench.drained(1, 1).size() == 0);
    bench.committed(2, 1);
    effects = bench.drained(2, 1);
    CHECK(receivers<Prepare>(effects) == Ids{1, 2, 3});
    bench.report(1, 1);
    bench.report(2, 1);
    effects = bench.report(3, std::nullopt);
    // The member that leaves gets it too, because it may be the source.
    CHECK(receivers<Install>(effects) == Ids{1, 2, 3});
    CHECK(message<Install>(effects).members.size() == 2);
    CHECK(receivers<Release>(effects).empty());
    bench.ready(2, 1);
    effects = bench.ready(3, 1);
    CHECK(receivers<Go>(effects) == Ids{2, 3});
    CHECK(receivers<Release>(effects) == Ids{1});
    effects = bench.exited(1);
    REQUIRE(all<DeviceReleased>(effects).size() == 1);
    CHECK(all<DeviceReleased>(effects)[0].device == device(0));
  }

  TEST_CASE(
      "a rebalance drains and gives the same members new ranks, and begins in the phase Normal "
      "only") {
    Bench bench;
    bench.run_with(2);
    CHECK(receivers<Drain>(bench.event(RebalanceCommand{})) == Ids{1, 2});
    CHECK(receivers<Drain>(bench.event(RebalanceCommand{})).empty());
    bench.committed(1, 1);
    bench.committed(2, 1);
    bench.drained(1, 1);
    CHECK(receivers<Prepare>(bench.drained(2, 1)) == Ids{1, 2});
    bench.report(1, 1);
    const Effects effects = bench.report(2, 1);
    CHECK(message<Install>(effects).members.size() == 2);
    CHECK(bench.event(RebalanceCommand{}).empty());
  }

  TEST_CASE("hole: Go is journaled with the members before it is sent") {
    Bench bench;
    bench.run_with(2);
    bench.allocate({device(1)});
    bench.drained(1, 1);
    bench.drained(2, 1);
    bench.report(1, 1);
    bench.report(2, 1);
    const Effects effects = bench.ready(2, 1);
    const auto saved = std::find_if(effects.begin(), effects.end(), [](const Effect& e) {
      return std::holds_alternative<SaveRecord>(e);
    });
    const auto sent = std::find_if(effects.begin(), effects.end(), [](const Effect& e) {
      return std::holds_alternative<SendWorker>(e);
    });
    REQUIRE(saved != effects.end());
    CHECK(saved < sent);
    CHECK(std::get<SaveRecord>(*saved).record.known.size() == 1);
  }

  TEST_CASE("hole: a death in any phase of a round starts a new one") {
    Bench bench;
    bench.run_with(3);
    CHECK(receivers<Prepare>(bench.exited(3)) == Ids{1, 2});  // The phase Normal.
    CHECK(bench.core.phase() == Phase::kPreparing);
    CHECK(receivers<Prepare>(bench.exited(2)) == Ids{1});
    bench.report(1, 0);
    CHECK(bench.core.phase() == Phase::kInstalling);
    bench.exited(1);
    CHECK(bench.core.phase() == Phase::kIdle);
    CHECK(bench.core.generation() == Generation{3});
  }

  TEST_CASE("messages of an older generation or from an unknown worker change nothing") {
    Bench bench;
    bench.run_with(2);
    const Stamp old = bench.stamp(1);
    bench.exited(2);
    CHECK(bench.say(Committed{old, {1, {}, {}, std::nullopt}}).empty());
    CHECK(bench.say(Ready{old, 0}).empty());
    CHECK(bench.say(Drained{old, 0}).empty());
    const Effects effects = bench.report(77, 5);
    REQUIRE(all<KillWorker>(effects).size() == 1);
    CHECK(all<KillWorker>(effects)[0].incarnation == Incarnation{77});
    CHECK(bench.report(2, 5).empty());  // Late messages of a process that has exited.
  }

  TEST_CASE("a silent worker is killed, and its device is free only when it is reaped") {
    Bench bench;
    bench.run_with(2);
    Effects effects = bench.event(WorkerLost{Incarnation{2}, "no heartbeat"});
    CHECK(all<KillWorker>(effects).size() == 1);
    CHECK(receivers<Prepare>(effects) == Ids{1});
    CHECK(all<StartWorker>(effects).empty());
    CHECK(bench.event(WorkerLost{Incarnation{2}, "no heartbeat"}).empty());
    effects = bench.exited(2);
    CHECK(all<StartWorker>(effects).size() == 1);
  }

  TEST_CASE("stages: members wait in a pause for a joiner, then one round exchanges them") {
    Bench bench("a:1@2,b:1@8");
    CHECK(all<Demand>(bench.started).at(0).exact->text() == "a:1+b:1");
    bench.allocate({device(0), device(0, "b")});
    bench.hello(1);  // Worker b is not warm yet.
    const Install first = message<Install>(bench.report(1, std::nullopt));
    CHECK(first.pause_at == 2);
    bench.ready(1, 0);
    bench.committed(1, 1);
    bench.now = std::chrono::seconds(10);
    CHECK(receivers<Drain>(bench.committed(1, 2)).empty());
    CHECK(all<SendWorker>(bench.drained(1, 2)).empty());
    CHECK(bench.core.state() == JobState::kRescaling);
    bench.now = std::chrono::seconds(13);
    CHECK(receivers<Prepare>(bench.hello(2)) == Ids{1, 2});
    bench.report(1, 2);
    Effects effects = bench.report(2, std::nullopt);
    CHECK(message<Install>(effects).members.size() == 1);
    CHECK(message<Install>(effects).members[0].incarnation == Incarnation{2});
    CHECK_FALSE(message<Install>(effects).pause_at.has_value());
    effects = bench.ready(2, 2);
    CHECK(receivers<Go>(effects) == Ids{2});
    CHECK(receivers<Release>(effects) == Ids{1});
    effects = bench.exited(1);
    CHECK(all<DeviceReleased>(effects).size() == 1);
    const auto reports = bench.core.stage_reports(std::chrono::seconds(20));
    REQUIRE(reports.size() == 2);
    CHECK(reports[0].steps == 2);
    CHECK(reports[0].training == std::chrono::seconds(10));
    CHECK(reports[1].rescale == std::chrono::seconds(3));
    CHECK(reports[1].training == std::chrono::seconds(7));
  }

  TEST_CASE(
      "stages: when a joiner is lost in the round of a boundary, the job waits and keeps its "
      "state") {
    Bench bench("a:1@2,b:1@8");
    bench.allocate({device(0), device(0, "b")});
    bench.hello(1);
    bench.hello(2);
    bench.round({1}, std::nullopt, {1});
    bench.committed(1, 1);
    bench.committed(1, 2);
    bench.drained(1, 2);
    CHECK(bench.core.phase() == Phase::kPreparing);
    bench.exited(2);
    const Install install = message<Install>(bench.report(1, 2));
    CHECK(install.pause_at == 2);
    CHECK(install.members.size() == 1);
    bench.ready(1, 2);
    bench.drained(1, 2);
    CHECK(receivers<Prepare>(bench.hello(3)) == Ids{1, 3});
  }

  TEST_CASE("hole: when all workers are lost at once, the job goes back to the newest checkpoint") {
    Bench bench;
    bench.run_with(1);
    bench.event(CheckpointCommand{5, "dir"});
    bench.committed(1, 1);
    bench.say(CheckpointWritten{bench.stamp(1), 5, "dir", 1, {}, ""});
    bench.exited(1);
    CHECK(bench.core.phase() == Phase::kIdle);
    bench.hello(2);
    const Install install = message<Install>(bench.report(2, std::nullopt));
    CHECK(install.target == 1);
    CHECK(install.source == Source(FromCheckpoint{"dir"}));
  }

  TEST_CASE("lost steps count as steps to do, though the ledger has their lines") {
    Bench bench;
    bench.run_with(1);
    bench.event(CheckpointCommand{5, "dir"});
    for (Version version = 1; version <= 4; ++version) bench.committed(1, version);
    bench.say(CheckpointWritten{bench.stamp(1), 5, "dir", 2, {}, ""});
    CHECK(bench.core.progress() == 4);
    bench.exited(1);
    CHECK(bench.core.progress() == 2);
    bench.hello(2);
    CHECK(bench.core.progress() == 2);
    bench.report(2, std::nullopt);
    bench.ready(2, 2);
    REQUIRE(bench.core.phase() == Phase::kNormal);
    CHECK(bench.core.progress() == 2);
    bench.committed(2, 3);
    CHECK(bench.core.progress() == 3);
    CHECK(bench.core.ledger().through() == 4);
    bench.exited(2);
    bench.hello(3);
    bench.report(3, std::nullopt);
    bench.ready(3, 2);
    CHECK(bench.core.progress() == 2);
  }

  TEST_CASE("no step is lost while a worker holds the newest version") {
    Bench bench;
    bench.run_with(2);
    for (Version version = 1; version <= 4; ++version) bench.committed(1, version);
    bench.exited(1);  // The worker that reported these versions.
    CHECK(bench.core.progress() == 4);
    bench.report(2, 5);
    CHECK(bench.core.progress() == 5);
  }

  TEST_CASE("hole: a checkpoint counts only when the ledger has its version") {
    Bench bench;
    bench.run_with(1);
    bench.event(CheckpointCommand{5, "dir"});
    CHECK(bench.say(CheckpointWritten{bench.stamp(1), 5, "dir", 1, {}, ""}).empty());
    CHECK(bench.core.record().checkpoints.empty());
    const Effects effects = bench.committed(1, 1);
    REQUIRE(all<CheckpointDone>(effects).size() == 1);
    CHECK(all<CheckpointDone>(effects)[0].result->checkpoint ==
          CheckpointRef{"dir", 1, false, {"node"}});
    CHECK(bench.core.record().checkpoints.front() == CheckpointRef{"dir", 1, false, {"node"}});
  }

  TEST_CASE("hole: a node removes a replaced checkpoint after the record without it is saved") {
    Config config = Bench::config("", 4);
    config.spec.checkpoint = {.every_steps = 2, .directory = "/d", .keep = 2};
    config.checkpoint_directory = "/d";
    JobRecord record;
    record.checkpoints = {{"/d/step-4", 4, true, {"node"}}, {"/d/step-2", 2, true, {"node"}}};
    LedgerHistory history;
    for (Version v = 1; v <= 5; ++v)
      history.lines.push_back({v, {0, 0, 0, 0}, {7, v}, std::nullopt});
    Bench bench(record, history, config);
    const DeviceId elsewhere{"other", {"a"}, 0};
    bench.event(NodesPresent(std::set<std::string>{"node", "other"}));
    bench.allocate({elsewhere});
    bench.hello(100);
    bench.report(100, std::nullopt);
    const WriteCheckpoint asked = message<WriteCheckpoint>(bench.ready(100, 4));
    bench.committed(100, 5);
    bench.committed(100, 6);
    const Effects effects =
        bench.say(CheckpointWritten{bench.stamp(100), asked.request, "/d/step-6", 6, {}, ""});
    const auto position = [&](auto&& is) {
      return std::find_if(effects.begin(), effects.end(), is) - effects.begin();
    };
    const auto saved = position([](const Effect& effect) {
      const auto* save = std::get_if<SaveRecord>(&effect);
      return save != nullptr && save->record.checkpoints.front().path == "/d/step-6";
    });
    const auto removed = position(
        [](const Effect& effect) { return std::holds_alternative<RemoveCheckpoints>(effect); });
    CHECK(saved < removed);
    // Also the node of the writer: it may see a directory whose writer is away.
    const auto removals = all<RemoveCheckpoints>(effects);
    REQUIRE(removals.size() == 2);
    CHECK(removals[0].node == "node");
    CHECK(removals[1].node == "other");
    for (const RemoveCheckpoints& removal : removals)
      CHECK(removal.states.at(0).path == "/d/step-2");
  }

  TEST_CASE("a failed checkpoint is reported, and the job continues") {
    Bench bench;
    bench.run_with(1);
    CHECK(receivers<WriteCheckpoint>(bench.event(CheckpointCommand{5, "dir"})) == Ids{1});
    const Effects effects =
        bench.say(CheckpointWritten{bench.stamp(1), 5, "", 0, {}, "dir: no space left"});
    REQUIRE(all<CheckpointDone>(effects).size() == 1);
    CHECK(all<CheckpointDone>(effects)[0].result.error().message == "dir: no space left");
    CHECK(bench.core.state() == JobState::kRunning);
  }

  TEST_CASE("a checkpoint of a job that holds no device is refused at once, with what is saved") {
    Bench bench;
    const auto message = [&] {
      const auto answers = all<CheckpointDone>(bench.event(CheckpointCommand{5, "dir"}));
      return answers.size() == 1 && !answers[0].result ? answers[0].result.error().message : "";
    };
    CHECK(message().find("no state of it is saved") != std::string::npos);
    // The checkpoint of the end waits for the end.
    CHECK(all<CheckpointDone>(bench.event(CheckpointCommand{6, "end", true})).empty());
    // With a device the job is about to train.
    bench.allocate({device(1)});
    CHECK(all<CheckpointDone>(bench.event(CheckpointCommand{7, "soon"})).empty());
  }

  TEST_CASE("a checkpoint that is requested during a round is requested again after Go") {
    Bench bench;
    bench.run_with(2);
    bench.exited(2);
    CHECK(receivers<WriteCheckpoint>(bench.event(CheckpointCommand{5, "dir"})).empty());
    CHECK(receivers<WriteCheckpoint>(bench.round({1}, 1, {1})) == Ids{1});
  }

  TEST_CASE(
      "when a second worker is refused a path, the checkpoint of the first one there still "
      "counts") {
    Bench bench;
    bench.run_with(2);
    CHECK(receivers<WriteCheckpoint>(bench.event(CheckpointCommand{5, "dir"})) == Ids{1});
    const auto exists = [&](std::uint64_t from) {
      return bench.say(CheckpointWritten{bench.stamp(from), 5, "", 0, {}, "dir: exists already"});
    };
    bench.committed(1, 1);
    bench.allocate({device(1)});
    bench.drained(1, 1);
    bench.drained(2, 1);
    CHECK(receivers<WriteCheckpoint>(bench.round({1, 2}, 1, {2})) == Ids{2});
    CHECK(all<CheckpointDone>(exists(2)).empty());
    SUBCASE("and the first worker has written it") {
      const Effects effects = bench.say(CheckpointWritten{bench.stamp(1), 5, "dir", 1, {}, ""});
      REQUIRE(all<CheckpointDone>(effects).size() == 1);
      CHECK(all<CheckpointDone>(effects)[0].result->checkpoint ==
            CheckpointRef{"dir", 1, false, {"node"}});
    }
    SUBCASE("and the first worker ends without an answer") {
      const Effects effects = bench.exited(1);
      REQUIRE(all<CheckpointDone>(effects).size() == 1);
      CHECK(all<CheckpointDone>(effects)[0].result.error().message == "dir: exists already");
    }
  }

  TEST_CASE("the ledger gets each version once, and is acknowledged") {
    Bench bench;
    bench.run_with(2);
    CHECK(all<LedgerLineAdded>(bench.committed(2, 1)).size() == 1);
    CHECK(all<LedgerLineAdded>(bench.committed(1, 1)).empty());
    CHECK(bench.core.ledger().through() == 1);
  }

  TEST_CASE(
      "a worker may drop an evaluation only when the head has it, whichever later one it has") {
    Config config = Bench::config("", 4);
    config.spec.eval_every = 2;
    config.acknowledge_every = 1;
    Bench bench(config);
    bench.run_with(2);
    const auto evaluated = [&](std::uint64_t from, Version version) {
      return bench.say(Evaluated{bench.stamp(from), version, totals(5)});
    };
    const auto acknowledged = [&](Version version) {
      return receivers<Acknowledge>(bench.committed(2, version)) == Ids{1, 2};
    };
    CHECK(acknowledged(1));
    CHECK(acknowledged(2));
    CHECK_FALSE(acknowledged(3));  // The evaluation of version 2 is still on its way.
    evaluated(1, 2);
    CHECK(acknowledged(4));
    bench.committed(2, 5);
    evaluated(1, 6);  // The evaluation of version 4 was lost.
    bench.exited(2);
    CHECK(message<Install>(bench.report(1, 5)).evaluated_through == 2);
    bench.ready(1, 5);
    evaluated(1, 4);
    bench.hello(1);  // Its link broke, which causes a round.
    CHECK(message<Install>(bench.report(1, 5)).evaluated_through == 6);
  }

  TEST_CASE("two workers that disagree fail the job as non-deterministic") {
    Bench bench;
    bench.run_with(2);
    bench.committed(1, 1, 0xa);
    const Effects effects = bench.committed(2, 1, 0xb);
    CHECK(bench.core.state() == JobState::kFailed);
    CHECK(bench.core.error().find("non-deterministic: step 1: digest") == 0);
    CHECK(receivers<Release>(effects) == Ids{1, 2});
  }

  TEST_CASE("a failure that a worker reports ends the job, after all processes have ended") {
    Bench bench;
    bench.run_with(2);
    Effects effects = bench.say(Failed{bench.stamp(1), "loss of EST 0 is not finite"});
    CHECK(bench.core.state() == JobState::kFailed);
    CHECK(bench.core.error().find("loss of EST 0 is not finite") == 0);
    CHECK(receivers<Release>(effects) == Ids{1, 2});
    CHECK(all<JobEnded>(bench.exited(1)).empty());
    effects = bench.exited(2);
    CHECK(all<DeviceReleased>(effects).size() == 1);
    REQUIRE(all<JobEnded>(effects).size() == 1);
    CHECK(all<JobEnded>(effects)[0].state == JobState::kFailed);
  }

  TEST_CASE("a job that loses workers again and again without any progress fails") {
    Bench bench;
    bench.run_with(1);
    for (std::uint64_t id = 1; id < kLossesWithoutProgressMax; ++id) {
      bench.exited(id);
      bench.hello(id + 1);
      bench.round({id + 1}, std::nullopt, {id + 1});
    }
    CHECK(bench.core.state() == JobState::kRunning);
    bench.exited(kLossesWithoutProgressMax);
    CHECK(bench.core.state() == JobState::kFailed);
  }

  TEST_CASE("the loss of a node counts as one loss, with any number of workers on it") {
    Bench bench;
    bench.run_with(3);
    std::uint64_t first = 1;
    for (int nodes = 1; nodes < kLossesWithoutProgressMax; ++nodes, first += 3) {
      for (std::uint64_t id = first; id < first + 3; ++id)
        bench.event(WorkerExited{Incarnation{id}, "its node is lost", true});
      for (std::uint64_t id = first + 3; id < first + 6; ++id) bench.hello(id);
      bench.round({first + 3, first + 4, first + 5}, std::nullopt,
                  {first + 3, first + 4, first + 5});
    }
    CHECK(bench.core.state() == JobState::kRunning);
    for (std::uint64_t id = first; id < first + 3; ++id)
      bench.event(WorkerExited{Incarnation{id}, "its node is lost", true});
    CHECK(bench.core.state() == JobState::kFailed);
  }

  TEST_CASE("cancel releases everything; a process that does not exit in time is killed") {
    Bench bench;
    bench.run_with(1);
    Effects effects = bench.event(CancelCommand{9});
    CHECK(bench.core.state() == JobState::kCancelled);
    CHECK(bench.core.record().known.empty());
    CHECK(receivers<Release>(effects) == Ids{1});
    bench.now += std::chrono::seconds(6);
    CHECK(all<KillWorker>(bench.core.tick(bench.now)).size() == 1);
    effects = bench.exited(1);
    CHECK(all<CommandDone>(effects).at(0).status.ok());
    CHECK(all<JobEnded>(effects).size() == 1);
    effects = bench.event(CancelCommand{10});
    CHECK(all<CommandDone>(effects).at(0).status.error().kind == ErrorKind::kRefused);
  }

  TEST_CASE("the job finishes when all members, the ledger and the evaluation are at the end") {
    Bench bench;
    bench.run_with(2);
    for (Version v = 1; v <= kLast; ++v) bench.committed(1, v);
    CHECK(bench.core.state() == JobState::kRunning);
    bench.say(Evaluated{bench.stamp(1), kLast, totals(5)});
    CHECK(bench.core.state() == JobState::kRunning);  // Worker 2 is behind.
    const Effects effects = bench.committed(2, kLast);
    CHECK(bench.core.state() == JobState::kFinished);
    CHECK(receivers<Release>(effects) == Ids{1, 2});
  }

  TEST_CASE("an evaluation that differs from the one before fails the job") {
    Bench bench;
    bench.run_with(1);
    CHECK(all<EvaluationAdded>(bench.say(Evaluated{bench.stamp(1), 4, totals(5)})).size() == 1);
    CHECK(bench.say(Evaluated{bench.stamp(1), 4, totals(5)}).empty());
    bench.say(Evaluated{bench.stamp(1), 4, totals(6)});
    CHECK(bench.core.state() == JobState::kFailed);
  }

  TEST_CASE("scale pins the demand and is answered when the job has the devices") {
    Bench bench;
    bench.run_with(1);
    Effects effects = bench.event(ScaleCommand{3, parse_device_set("a:2").value()});
    CHECK(all<Demand>(effects).at(0).exact->text() == "a:2");
    CHECK(all<CommandDone>(effects).empty());
    effects = bench.allocate({device(0), device(1)});
    CHECK(all<CommandDone>(effects).at(0).status.ok());
    CHECK(receivers<Drain>(bench.hello(2)) == Ids{1});
    CHECK(bench.core.record().pinned->text() == "a:2");
    effects = bench.event(ScaleCommand{4, std::nullopt});
    CHECK(all<DemandLifted>(effects).size() == 1);
  }

  TEST_CASE("a scale request that cannot be met leaves the job as it was") {
    Bench bench;
    bench.run_with(1);
    bench.event(ScaleCommand{3, parse_device_set("a:2").value()});
    const Effects effects = bench.event(DemandRefused{"a: there are 1 devices"});
    CHECK(all<CommandDone>(effects).at(0).status.error().message == "a: there are 1 devices");
    CHECK_FALSE(bench.core.record().pinned.has_value());
    CHECK(bench.core.state() == JobState::kRunning);
  }

  TEST_CASE("a refused scale request goes back to the last one that was granted") {
    Bench bench;
    bench.run_with(1);
    bench.event(ScaleCommand{3, parse_device_set("a:2").value()});
    Effects effects = bench.event(ScaleCommand{4, parse_device_set("a:3").value()});
    CHECK(all<CommandDone>(effects).at(0).request == 3);
    CHECK_FALSE(all<CommandDone>(effects).at(0).status.ok());
    effects = bench.event(DemandRefused{"a: there are 1 devices"});
    CHECK(all<CommandDone>(effects).at(0).request == 4);
    CHECK_FALSE(bench.core.record().pinned.has_value());
  }

  TEST_CASE("scale is refused for staged jobs, for more devices than ESTs, and after the end") {
    const auto refusal = [](Bench& bench, const char* devices) {
      const Effects effects = bench.event(ScaleCommand{3, parse_device_set(devices).value()});
      return all<CommandDone>(effects).at(0).status.error().kind == ErrorKind::kRefused;
    };
    Bench staged("a:1@2,a:2@8");
    CHECK(refusal(staged, "a:1"));
    Bench bench;
    CHECK(refusal(bench, "a:5"));
    bench.event(CancelCommand{1});
    CHECK(refusal(bench, "a:1"));
  }

  TEST_CASE("a stage whose devices are not available fails the job") {
    Bench bench("a:9@2", 16);
    bench.event(DemandRefused{"a: there are 3 devices"});
    CHECK(bench.core.state() == JobState::kFailed);
    CHECK(bench.core.error().find("a: there are 3 devices") != std::string::npos);
    Bench empty("a:9@2", 16);
    empty.allocate({});  // This gives it no device, so its demand was not met.
    empty.event(DemandRefused{"a: there are 3 devices"});
    CHECK(empty.core.state() == JobState::kFailed);
  }

  TEST_CASE("a scale request is not met by a device that the job gives up") {
    Bench bench;
    bench.run_with(2);
    bench.event(GiveBackCommand{{device(1)}});
    CHECK(all<CommandDone>(bench.event(ScaleCommand{3, parse_device_set("a:2").value()})).empty());
    const Effects effects = bench.allocate({device(0), device(1), device(2)});
    CHECK(all<CommandDone>(effects).at(0).status.ok());
  }

  TEST_CASE("a job that has not trained yet waits for devices that existed when it was admitted") {
    JobRecord record;  // This is the job as the journal has it. An earlier head admitted it.
    Bench restored(record, {});
    restored.event(DemandRefused{"a: there is no device"});
    CHECK(restored.core.state() == JobState::kQueued);
    restored.now += kDemandAgainAfter;
    CHECK(all<DemandLifted>(restored.core.tick(restored.now)).size() == 1);
    CHECK(all<StartWorker>(restored.allocate({device(0)})).size() == 1);

    Bench scaled;  // The demand before is in force again, and its devices have gone meanwhile.
    scaled.event(ScaleCommand{1, parse_device_set("a:3").value()});
    scaled.event(DemandRefused{"a: there are 2 devices"});
    scaled.event(DemandRefused{"a: there is no device"});
    CHECK(scaled.core.state() == JobState::kQueued);
  }

  TEST_CASE("a process that goes with its node did not fail to start") {
    Bench bench;
    bench.allocate({device(0)});
    for (std::uint64_t id = 1; id <= 5; ++id)
      bench.event(WorkerExited{Incarnation{id}, "its node is lost", true});
    CHECK(bench.core.state() == JobState::kStarting);
  }

  TEST_CASE("a job that has trained asks again for devices that it cannot get now") {
    Bench bench("a:2@2,a:1@8");
    bench.run_with(2);
    CHECK(bench.event(DemandRefused{"a: there is 1 device"}).size() == 1);  // A line of the log.
    CHECK(bench.core.state() == JobState::kRunning);
    CHECK(all<Demand>(bench.core.tick(bench.now)).empty());
    bench.now += kDemandAgainAfter;
    CHECK(all<Demand>(bench.core.tick(bench.now)).size() == 1);
    CHECK(all<Demand>(bench.core.tick(bench.now)).empty());
  }

  TEST_CASE(
      "while a demand is refused, devices that the demand before needs again are not given back") {
    Bench bench("a:2@2,a:1@8");
    bench.run_with(2);
    bench.event(DemandRefused{"a: there is 1 device"});
    const auto released = all<DeviceReleased>(bench.allocate({device(0), device(1), device(2)}));
    CHECK(released.empty());
    bench.now += kDemandAgainAfter;
    CHECK(all<DeviceReleased>(bench.core.tick(bench.now)).size() == 1);
  }

  TEST_CASE("a drain that does not end is followed by a round without the late member") {
    Bench bench;
    bench.run_with(2);
    bench.allocate({device(1)});
    bench.now += std::chrono::seconds(29);
    CHECK(bench.core.tick(bench.now).empty());
    bench.now += std::chrono::seconds(2);
    CHECK(receivers<Prepare>(bench.core.tick(bench.now)) == Ids{1, 2});
  }

  TEST_CASE("hole: two workers cut off from each other: a new round, then one is taken out") {
    Bench bench;
    bench.run_with(2);
    Effects effects = bench.say(Suspect{bench.stamp(1), 0, Incarnation{2}});
    CHECK(receivers<Prepare>(effects) == Ids{1, 2});
    CHECK(all<KillWorker>(effects).empty());
    bench.round({1, 2}, 0, {1, 2});
    effects = bench.say(Suspect{bench.stamp(1), 0, Incarnation{2}});
    REQUIRE(all<KillWorker>(effects).size() == 1);
    CHECK(all<KillWorker>(effects)[0].incarnation == Incarnation{2});
  }

  TEST_CASE("of two workers that suspect each other the one that is behind is taken out") {
    Bench bench;
    bench.run_with(2);
    bench.committed(2, 1);  // This happens before, because progress would clear the suspicion.
    bench.say(Suspect{bench.stamp(2), 1, Incarnation{1}});
    bench.report(1, 1);
    bench.report(2, 1);
    bench.ready(1, 1);
    bench.ready(2, 1);
    const Effects effects = bench.say(Suspect{bench.stamp(2), 1, Incarnation{1}});
    CHECK(all<KillWorker>(effects).at(0).incarnation == Incarnation{1});  // It is suspected twice.
  }

  TEST_CASE("when a joiner waits for its source in vain, the joiner is taken out, not the source") {
    Bench bench;
    bench.run_with(1);
    bench.allocate({device(0), device(1)});
    bench.hello(2);
    bench.drained(1, 0);
    for (const bool again : {false, true}) {
      bench.report(1, 0);
      bench.report(2, std::nullopt);
      const Effects effects = bench.say(Suspect{bench.stamp(2), 0, Incarnation{1}});
      CHECK(receivers<Prepare>(effects) == (again ? Ids{1} : Ids{1, 2}));
      CHECK(all<KillWorker>(effects).size() == (again ? 1 : 0));
    }
  }

  TEST_CASE("hole: a restarted head runs a fresh round with the workers of its journal") {
    JobRecord record;
    record.state = JobState::kRunning;
    record.generation = Generation{6};
    record.known = {{Incarnation{1}, device(0), "address", "host"},
                    {Incarnation{2}, device(1), "address", "host"}};
    Bench bench(record, {.lines = {{1, {0, 0, 0, 0}, {7, 1}, std::nullopt}}});
    REQUIRE(!all<SaveRecord>(bench.started).empty());
    CHECK(all<SaveRecord>(bench.started)[0].record.generation == Generation{7});
    CHECK(receivers<Prepare>(bench.started) == Ids{1, 2});
    CHECK(all<StartWorker>(bench.started).empty());
    CHECK(all<KillWorker>(bench.hello(9)).size() == 1);  // A joiner that the head before started.
    CHECK(bench.core.progress() == 1);
    bench.report(1, 3);
    const Install install = message<Install>(bench.report(2, 3));
    CHECK(install.acknowledged_through == 1);
    CHECK(bench.core.progress() == 3);
    bench.ready(1, 3);
    bench.ready(2, 3);
    // They are reported again after Go.
    CHECK(all<LedgerLineAdded>(bench.committed(1, 2)).size() == 1);
    CHECK(bench.core.state() == JobState::kRunning);
  }

  TEST_CASE("a head that restarts after the end has nothing left to do") {
    JobRecord record;
    record.state = JobState::kFinished;
    record.generation = Generation{6};
    const Bench bench(record, {});
    CHECK(all<JobEnded>(bench.started).size() == 1);
    CHECK(all<SendWorker>(bench.started).empty());
  }

  // The kernels of the device type decide the bits, so a job that moved to another type would end
  // with other bits.
  TEST_CASE("below D2 a job stays on the type of device on which it began") {
    for (const auto level : {DeterminismLevel::kD0, DeterminismLevel::kD1}) {
      Config config = Bench::config("", 4);
      config.spec.level = level;
      Bench bench(config);
      CHECK(all<CommandDone>(bench.event(ScaleCommand{3, parse_device_set("a:1+b:1").value()}))
                .at(0)
                .status.error()
                .message.ends_with("decide the bits; allowed are devices of one type"));
      CHECK_FALSE(bench.core.record().bound_type.has_value());
      bench.run_with(1);
      CHECK(bench.core.record().bound_type == DeviceType{"a"});
      CHECK(all<CommandDone>(bench.event(ScaleCommand{4, parse_device_set("b:1").value()}))
                .at(0)
                .status.error()
                .message.ends_with("allowed are devices of a, on which the job began"));
      // It was granted before the cluster scheduler knew the bound type.
      const Effects effects = bench.allocate({device(0), device(1, "b")});
      CHECK(all<StartWorker>(effects).empty());
      CHECK(all<DeviceReleased>(effects).at(0).device == device(1, "b"));
      CHECK(all<StartWorker>(bench.allocate({device(0), device(1)})).size() == 1);
      JobRecord record = bench.core.record();
      record.known.clear();
      Bench restarted(record, {}, config);
      CHECK(all<StartWorker>(restarted.allocate({device(1, "b")})).empty());
    }
  }

  // A head that dies during a change may find devices of both types, and the cluster scheduler
  // takes none of them away.
  TEST_CASE("below D2 a job that holds devices of two types begins on one of them") {
    Config config = Bench::config("", 4);
    config.spec.level = DeterminismLevel::kD1;
    Bench bench(config);
    bench.allocate({device(0), device(1), device(2, "b")});
    for (const std::uint64_t id : {1, 2, 3}) bench.hello(id);
    bench.round({1, 2, 3}, std::nullopt, {1, 2});
    CHECK(bench.core.state() == JobState::kRunning);
    CHECK(bench.core.record().bound_type == DeviceType{"a"});
  }

  TEST_CASE("a staged job and a job at D2 may continue with other types") {
    Bench bench;
    bench.run_with(1);
    CHECK_FALSE(bench.core.record().bound_type.has_value());
    Config config = Bench::config("a:1@5,b:1@5", 4);
    config.spec.level = DeterminismLevel::kD1;
    Bench staged(config);
    staged.run_with(1);
    CHECK_FALSE(staged.core.record().bound_type.has_value());
  }

  TEST_CASE("a job that fails keeps its saved states, one that is cancelled does not") {
    JobRecord record;
    record.state = JobState::kQueued;
    record.generation = Generation{4};
    record.checkpoints = {CheckpointRef{"/s/job-g4", 3, false, {"node"}, {}}};
    Config config = Bench::config("", 4);
    config.suspend_prefix = "/s/job-g";
    for (const bool fails : {true, false}) {
      Bench bench(record, {}, config);
      bench.allocate({device(0)});
      bench.hello(100);
      bench.report(100, std::nullopt);
      bench.ready(100, 3);
      if (fails) {
        bench.say(Failed{bench.stamp(100), "the data is gone"});
      } else {
        bench.event(CancelCommand{5});
      }
      CHECK(bench.core.state() == (fails ? JobState::kFailed : JobState::kCancelled));
      CHECK(bench.core.record().checkpoints.empty() == !fails);
    }
  }

  TEST_CASE("when its only device is taken away, the job keeps it until another worker is warm") {
    Bench bench;
    bench.run_with(1);
    CHECK(receivers<Drain>(bench.allocate({})).empty());
    CHECK(receivers<Drain>(bench.allocate({device(1)})).empty());
    CHECK(receivers<Drain>(bench.hello(2)) == Ids{1});
  }
}

}  // namespace
}  // namespace es::actors::intra_job
