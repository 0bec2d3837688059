// How a job gives up all of its devices and returns: pause, resume, and a node that is about to
// end.
#include "tests/actors/head/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

// The request with which the core asks for the checkpoint, and the directory of that checkpoint.
WriteCheckpoint asked(const Effects& effects) {
  return message<WriteCheckpoint>(effects);
}

CheckpointWritten written(const Bench& bench, const WriteCheckpoint& asked, Version version) {
  return CheckpointWritten{.stamp = bench.stamp(1),
                           .request = asked.request,
                           .path = asked.directory,
                           .version = version,
                           .digests = {},
                           .error = {}};
}

// Two workers that have drained at version 3 for a pause. Returns the request of the core.
WriteCheckpoint drained_for_pause(Bench& bench) {
  bench.run_with(2);
  for (Version v = 1; v <= 3; ++v) bench.committed(1, v);
  CHECK(receivers<Drain>(bench.event(PauseCommand{5})) == Ids{1, 2});
  bench.drained(1, 3);
  return asked(bench.drained(2, 3));
}

Allocation urgent(Bench& bench, std::vector<DeviceId> devices) {
  return {++bench.sequence, bench.releases, std::move(devices), true};
}

TEST_SUITE("actors/head/intra_job/intra_job_pause") {
  TEST_CASE("a paused job has written a checkpoint, and holds no process and no device") {
    Bench bench;
    const WriteCheckpoint request = drained_for_pause(bench);
    Effects effects = bench.say(written(bench, request, 3));
    CHECK(bench.core.state() == JobState::kPaused);
    CHECK(receivers<Release>(effects) == Ids{1, 2});
    CHECK(all<Demand>(effects).at(0).exact->empty());
    CHECK(all<CommandDone>(effects).empty());
    const JobRecord saved = all<SaveRecord>(effects).back().record;
    CHECK(saved.state == JobState::kPaused);
    CHECK(saved.known.empty());
    CHECK(saved.checkpoints.front().version == 3);
    CHECK(all<DeviceReleased>(bench.exited(1)).size() == 1);
    effects = bench.exited(2);
    CHECK(all<DeviceReleased>(effects).size() == 1);
    CHECK(all<CommandDone>(effects).at(0).status.ok());
    CHECK(all<JobEnded>(effects).empty());
  }

  TEST_CASE("a resumed job continues from the checkpoint of the pause") {
    Bench bench;
    const WriteCheckpoint request = drained_for_pause(bench);
    bench.say(written(bench, request, 3));
    bench.exited(1);
    bench.exited(2);
    bench.releases = 2;
    Effects effects = bench.event(ResumeCommand{6});
    CHECK(all<CommandDone>(effects).at(0).status.ok());
    CHECK(all<DemandLifted>(effects).size() == 1);
    CHECK(bench.core.state() == JobState::kQueued);
    CHECK(all<StartWorker>(bench.allocate({device(0)})).size() == 1);
    bench.hello(3);
    const Install install = message<Install>(bench.report(3, std::nullopt));
    CHECK(install.target == 3);
    CHECK(install.source == Source(FromCheckpoint{request.directory}));
  }

  TEST_CASE("a job keeps the newest checkpoint of its pauses, and none after its end") {
    Config config = Bench::config("", 4);
    config.suspend_prefix = "/s/job-suspended-";
    Bench bench(config);
    const WriteCheckpoint first = drained_for_pause(bench);
    CHECK(first.directory.starts_with(config.suspend_prefix));
    Effects effects = bench.say(written(bench, first, 3));
    CHECK(all<KeepSuspensions>(effects).at(0).paths == std::vector<std::string>{first.directory});
    bench.exited(1);
    bench.exited(2);
    bench.releases = 2;
    bench.event(ResumeCommand{6});
    bench.allocate({device(0)});
    bench.hello(3);
    bench.report(3, std::nullopt);
    bench.ready(3, 3);
    bench.event(PauseCommand{7});
    const WriteCheckpoint second = asked(bench.drained(3, 3));
    CheckpointWritten late = written(bench, second, 3);
    late.stamp = bench.stamp(3);
    late.path = first.directory;  // It is of an earlier generation, and may not exist.
    CHECK(all<SaveRecord>(bench.say(late)).empty());
    late.path = second.directory;
    effects = bench.say(late);
    CHECK(all<KeepSuspensions>(effects).at(0).paths == std::vector<std::string>{second.directory});
    CHECK(bench.core.record().checkpoints.front().path == second.directory);
    CHECK(bench.core.record().checkpoints.size() == 1);
    bench.exited(3);
    effects = bench.event(CancelCommand{8});
    CHECK(all<KeepSuspensions>(effects).at(0).paths.empty());
    CHECK(bench.core.record().checkpoints.empty());
  }

  TEST_CASE(
      "only nodes on which a job has run are told which checkpoints to keep, while all of them are "
      "there") {
    const auto nodes_told = [](const Effects& effects) {
      std::set<std::string> nodes;
      for (const KeepSuspensions& keep : all<KeepSuspensions>(effects)) nodes.insert(keep.node);
      return nodes;
    };
    Config config = Bench::config("", 4);
    config.suspend_prefix = "/s/job-suspended-";
    Bench bench(config);
    bench.event(NodesPresent(std::set<std::string>{"node", "other", "third"}));
    const WriteCheckpoint asked = drained_for_pause(bench);
    CHECK(nodes_told(bench.say(written(bench, asked, 3))) == std::set<std::string>{"node"});
    bench.exited(1);
    bench.exited(2);
    // The other nodes may have the disk of the one that is away.
    bench.event(NodesPresent(std::set<std::string>{"other", "third"}));
    CHECK(nodes_told(bench.event(NodesPresent(std::set<std::string>{"node", "other", "third"}))) ==
          std::set<std::string>{"node"});
    bench.event(NodesPresent(std::set<std::string>{"other", "third"}));
    CHECK(nodes_told(bench.event(CancelCommand{8})) == std::set<std::string>{"other", "third"});
  }

  TEST_CASE("no node removes what a recovery of the journal has set aside") {
    JobRecord record;
    record.generation = Generation{4};
    record.set_aside = {"/s/job-suspended-2"};
    Config config = Bench::config("", 4);
    config.suspend_prefix = "/s/job-suspended-";
    Bench bench(record, {}, config);
    for (const KeepSuspensions& keep : all<KeepSuspensions>(bench.started))
      CHECK(keep.paths == record.set_aside);
    const auto at_end = all<KeepSuspensions>(bench.event(CancelCommand{8}));
    REQUIRE_FALSE(at_end.empty());
    CHECK(at_end.at(0).paths == record.set_aside);
  }

  TEST_CASE("a restarted head leaves a paused job paused") {
    JobRecord record;
    record.state = JobState::kPaused;
    record.generation = Generation{4};
    record.checkpoints = {CheckpointRef{"path", 3}};
    Bench bench(record, {});
    CHECK(bench.core.state() == JobState::kPaused);
    CHECK(all<StartWorker>(bench.started).empty());
    CHECK(all<Demand>(bench.started).at(0).exact->empty());
    CHECK(bench.allocate({}).empty());
    CHECK(bench.core.state() == JobState::kPaused);
    bench.event(ResumeCommand{6});
    bench.allocate({device(0)});
    bench.hello(100);
    CHECK(message<Install>(bench.report(100, std::nullopt)).target == 3);
  }

  TEST_CASE("a checkpoint that can be written nowhere leaves the job running") {
    Bench bench;
    CheckpointWritten failed = written(bench, drained_for_pause(bench), 0);
    failed.error = "no space left";
    failed.path = asked(bench.say(failed)).directory;
    failed.error = "none here either";
    const Effects effects = bench.say(failed);
    CHECK(all<CommandDone>(effects).at(0).status.error().message ==
          "no space left; none here either");
    CHECK(receivers<Prepare>(effects) == Ids{1, 2});
    bench.round({1, 2}, 3, {1, 2});
    CHECK(bench.core.state() == JobState::kRunning);
  }

  TEST_CASE("a node that cannot write where the head says keeps the state in a place of its own") {
    Config config = Bench::config("", 4);
    config.suspend_prefix = "/s/job-suspended-";
    Bench bench(config);
    const WriteCheckpoint first = drained_for_pause(bench);
    CheckpointWritten answer = written(bench, first, 0);
    answer.error = "/s: cannot be created: Permission denied";
    const WriteCheckpoint second = asked(bench.say(answer));
    CHECK(second.directory == "job-suspended-1");  // relative: below the node's own directory
    answer.error.clear();
    answer.version = 3;
    answer.path = "/own/job-suspended-1";
    const Effects effects = bench.say(answer);
    CHECK(bench.core.state() == JobState::kPaused);
    CHECK(bench.core.record().checkpoints.front().path == "/own/job-suspended-1");
    // It is removed like any other state of a suspension.
    CHECK(all<KeepSuspensions>(effects).at(0).paths ==
          std::vector<std::string>{"/own/job-suspended-1"});
    bench.exited(1);
    bench.exited(2);
    bench.event(CancelCommand{8});
    CHECK(bench.core.record().checkpoints.empty());
  }

  TEST_CASE("when a worker dies meanwhile, the pause begins again, in another directory") {
    Bench bench;
    const WriteCheckpoint first = drained_for_pause(bench);
    CHECK(receivers<Prepare>(bench.exited(1)) == Ids{2});
    CHECK(message<Install>(bench.report(2, 3)).pause_at == 3);
    CHECK(receivers<Drain>(bench.ready(2, 3)).empty());  // It pauses by itself.
    const WriteCheckpoint second = asked(bench.drained(2, 3));
    CHECK(second.directory != first.directory);
    CheckpointWritten message = written(bench, second, 3);
    message.stamp = bench.stamp(2);
    bench.say(message);
    CHECK(bench.core.state() == JobState::kPaused);
  }

  TEST_CASE("a job that waits for devices is paused at once") {
    Bench bench;
    const Effects effects = bench.event(PauseCommand{5});
    CHECK(bench.core.state() == JobState::kPaused);
    CHECK(all<CommandDone>(effects).at(0).status.ok());
    CHECK(bench.core.record().checkpoints.empty());
  }

  TEST_CASE("pause and resume are refused in states in which they have no meaning") {
    const auto refusal = [](const Effects& effects) {
      return all<CommandDone>(effects).at(0).status.error().message;
    };
    Bench bench;
    CHECK(refusal(bench.event(ResumeCommand{1})) == "the job is not paused");
    bench.event(PauseCommand{2});
    CHECK(refusal(bench.event(PauseCommand{3})) == "the job is paused already");
    const Effects effects = bench.event(CheckpointCommand{4, "dir"});
    CHECK(all<CheckpointDone>(effects).at(0).result.error().kind == ErrorKind::kRefused);
    bench.event(CancelCommand{5});
    CHECK(bench.core.state() == JobState::kCancelled);
    CHECK(refusal(bench.event(PauseCommand{6})) == "the job has ended");
    CHECK(refusal(bench.event(ResumeCommand{7})) == "the job has ended");
  }

  TEST_CASE("a job whose devices have gone stays paused and reports why") {
    Bench bench;
    bench.event(ScaleCommand{1, parse_device_set("a:2").value()});
    bench.event(PauseCommand{2});
    bench.event(ResumeCommand{3});
    bench.event(DemandRefused{"needs a:2, the cluster has a:1"});
    CHECK(bench.core.state() == JobState::kPaused);
    CHECK(bench.core.waiting_for() == "needs a:2, the cluster has a:1");
  }

  TEST_CASE("a job whose last devices are about to end is saved and queued") {
    Bench bench;
    bench.run_with(1);
    bench.committed(1, 1);
    CHECK(receivers<Drain>(bench.event(urgent(bench, {}))) == Ids{1});
    const WriteCheckpoint request = asked(bench.drained(1, 1));
    Effects effects = bench.say(written(bench, request, 1));
    CHECK(bench.core.state() == JobState::kQueued);
    CHECK(receivers<Release>(effects) == Ids{1});
    CHECK(all<DeviceReleased>(bench.exited(1)).size() == 1);
    ++bench.releases;
    CHECK(all<StartWorker>(bench.allocate({device(1)})).size() == 1);
  }

  TEST_CASE("a job that gets another device in time is handed over instead") {
    Bench bench;
    bench.run_with(1);
    bench.committed(1, 1);
    bench.event(urgent(bench, {device(1)}));
    CHECK(bench.core.state() == JobState::kRunning);
    CHECK(receivers<Drain>(bench.hello(2)) == Ids{1});
    CHECK(receivers<Prepare>(bench.drained(1, 1)) == Ids{1, 2});
  }

  TEST_CASE("a job that gets a device while it drains to be saved continues without a checkpoint") {
    Bench bench;
    bench.run_with(1);
    bench.committed(1, 1);
    bench.event(urgent(bench, {}));
    bench.allocate({device(0)});
    CHECK(receivers<Prepare>(bench.drained(1, 1)) == Ids{1});
    bench.round({1}, 1, {1});
    CHECK(bench.core.state() == JobState::kRunning);
  }

  // The job is told to leave while its only member evaluates `version`: it is saved at this
  // version, and the evaluation is left for later.
  void check_saved_in_evaluation(Bench & bench, Version version) {
    bench.run_with(1);
    for (Version v = 1; v <= version; ++v) {
      bench.committed(1, v);
      if (v < version && v % 2 == 0) bench.say(Evaluated{bench.stamp(1), v, totals(1)});
    }
    CHECK(receivers<Drain>(bench.event(urgent(bench, {}))) == Ids{1});
    bench.now += std::chrono::milliseconds(900);
    CHECK(bench.core.tick(bench.now).empty());  // A short evaluation may end by itself.
    bench.now += std::chrono::milliseconds(200);
    CHECK(*bench.core.next_tick() < bench.now);
    CHECK(receivers<Prepare>(bench.core.tick(bench.now)) == Ids{1});
    const Install install = message<Install>(bench.report(1, version));
    CHECK(install.pause_at == version);
    CHECK(install.evaluated_through < version);
    CHECK(all<SendWorker>(bench.ready(1, version)).size() == 1);  // Go
    Effects effects = bench.drained(1, version);
    effects = bench.say(written(bench, asked(effects), version));
    CHECK(receivers<Release>(effects) == Ids{1});
    CHECK(bench.core.state() == JobState::kQueued);
    CHECK(bench.core.record().checkpoints.front().version == version);
  }

  TEST_CASE("a job that evaluates when its devices are about to end loses no step") {
    Config config = Bench::config("", 4);
    config.spec.eval_every = 2;
    SUBCASE("between two steps") {
      Bench bench(config);
      check_saved_in_evaluation(bench, 4);
    }
    SUBCASE("after the last step") {
      Bench bench(config);
      check_saved_in_evaluation(bench, kLast);
      // Elsewhere it only evaluates, and ends.
      bench.exited(1);
      ++bench.releases;
      bench.allocate({device(1)});
      bench.hello(2);
      CHECK(message<Install>(bench.report(2, std::nullopt)).target == kLast);
      bench.ready(2, kLast);
      bench.say(Evaluated{bench.stamp(2), kLast, totals(1)});
      CHECK(bench.core.state() == JobState::kFinished);
    }
  }

  TEST_CASE("an evaluation is handed over with the job when another device is there") {
    Bench bench;
    bench.run_with(1);
    for (Version v = 1; v <= kLast; ++v) bench.committed(1, v);
    bench.event(urgent(bench, {device(1)}));
    CHECK(receivers<Drain>(bench.hello(2)) == Ids{1});
    bench.now += std::chrono::seconds(2);
    CHECK(receivers<Prepare>(bench.core.tick(bench.now)) == Ids{1, 2});
    bench.report(1, kLast);
    const Install install = message<Install>(bench.report(2, std::nullopt));
    CHECK(install.members.size() == 1);
    CHECK(install.pause_at == std::nullopt);
    CHECK(std::get<FromPeer>(install.source).incarnation == Incarnation{1});
  }

  TEST_CASE("a job is saved although its step takes longer than its devices are there") {
    Bench bench;
    bench.run_with(2);
    bench.committed(1, 1);
    bench.event(urgent(bench, {}));
    bench.now += std::chrono::seconds(11);
    CHECK(receivers<Prepare>(bench.core.tick(bench.now)) == Ids{1, 2});
    bench.report(1, 1);
    CHECK(message<Install>(bench.report(2, 1)).pause_at == 1);
    bench.ready(1, 1);
    bench.ready(2, 1);
    bench.drained(1, 1);
    CHECK(asked(bench.drained(2, 1)).make_parent);
  }

  TEST_CASE("a job is saved when no other process comes up in time, which then continues") {
    Bench bench;
    bench.run_with(1);
    bench.committed(1, 1);
    CHECK(all<StartWorker>(bench.event(urgent(bench, {device(1)}))).size() == 1);
    CHECK(*bench.core.next_tick() == bench.now + std::chrono::seconds(10));
    bench.now += std::chrono::seconds(10);
    CHECK(receivers<Drain>(bench.core.tick(bench.now)) == Ids{1});
    const WriteCheckpoint request = asked(bench.drained(1, 1));
    const Effects effects = bench.say(written(bench, request, 1));
    CHECK(receivers<Release>(effects) == Ids{1});
    CHECK(all<KillWorker>(effects).empty());  // The other process still starts.
    bench.exited(1);
    CHECK(receivers<Prepare>(bench.hello(2)) == Ids{2});
    CHECK(message<Install>(bench.report(2, std::nullopt)).source ==
          Source(FromCheckpoint{request.directory}));
  }

  TEST_CASE("a job that is kept after all continues from a round that was to hold it") {
    Bench bench;
    bench.run_with(1);
    for (Version v = 1; v <= kLast; ++v) bench.committed(1, v);
    bench.event(urgent(bench, {}));
    bench.now += std::chrono::seconds(2);
    bench.core.tick(bench.now);
    bench.report(1, kLast);
    CHECK(receivers<Prepare>(bench.allocate({device(0)})) == Ids{1});
    CHECK(message<Install>(bench.report(1, kLast)).pause_at == std::nullopt);
  }

  TEST_CASE("a job that still loads its state gives its devices up at once") {
    Bench bench;
    bench.allocate({device(0), device(1)});
    bench.hello(1);
    bench.hello(2);
    bench.report(1, std::nullopt);
    bench.report(2, std::nullopt);
    bench.ready(1, 0);
    CHECK(receivers<Release>(bench.event(urgent(bench, {}))) == Ids{1, 2});
    CHECK(bench.core.state() == JobState::kQueued);
    CHECK(bench.core.record().checkpoints.empty());
  }

  TEST_CASE("a worker that loads when a round begins has the time of a start to report") {
    Bench bench;
    bench.allocate({device(0), device(1)});
    bench.hello(1);
    bench.hello(2);
    bench.report(1, std::nullopt);
    bench.report(2, std::nullopt);
    CHECK(receivers<Prepare>(bench.exited(2)) == Ids{1});  // Worker 1 still loads.
    bench.now += std::chrono::minutes(9);
    CHECK(all<KillWorker>(bench.core.tick(bench.now)).empty());
    bench.now += std::chrono::minutes(2);
    CHECK(all<KillWorker>(bench.core.tick(bench.now)).size() >= 1);
  }

  TEST_CASE("a job reports what it waits for") {
    Bench bench;
    CHECK(bench.core.waiting_for() == "at least 1 device");
    CHECK(bench.core.devices_wanted() == 4);
    Bench staged("a:2@2,a:1@8");
    CHECK(staged.core.waiting_for() == "devices a:2, has none");
    CHECK(staged.core.devices_wanted() == 2);
    staged.allocate({device(0)});
    CHECK(staged.core.waiting_for() == "devices a:2, has a:1");
    staged.allocate({device(0), device(1)});
    CHECK(staged.core.waiting_for() == "its worker processes to start");
    // The devices of the next stage come together with those of the first one.
    Bench growing("a:1@2,a:3@4,a:2@4");
    CHECK(growing.core.waiting_for() == "devices a:3, has none");
    CHECK(growing.core.devices_wanted() == 3);
  }
}

TEST_SUITE("actors/head/intra_job/intra_job_core") {
  TEST_CASE(
      "hole: a worker whose link broke says Hello again, and a round finds the lost messages") {
    Bench bench;
    bench.run_with(2);
    CHECK(receivers<Prepare>(bench.hello(1)) == Ids{1, 2});
    CHECK(bench.hello(1).size() == 1);  // It gets the messages again that it may have missed.
    bench.report(1, 0);
    CHECK(bench.hello(1).empty());
    bench.report(2, 0);
    CHECK(receivers<Prepare>(bench.hello(2)) == Ids{1, 2});  // Its Install may be lost.
  }

  TEST_CASE("a worker that does not report, and a process without a Hello, are given up") {
    Bench bench;
    bench.run_with(2);
    bench.exited(2);
    bench.now += std::chrono::seconds(31);
    CHECK(all<KillWorker>(bench.core.tick(bench.now)).at(0).incarnation == Incarnation{1});
    Bench starting;
    starting.allocate({device(0)});
    starting.now += std::chrono::minutes(9);
    CHECK(starting.core.tick(starting.now).empty());
    starting.now += std::chrono::minutes(2);
    CHECK(all<KillWorker>(starting.core.tick(starting.now)).size() == 1);
  }

  TEST_CASE(
      "when a head died between the last ledger line and the end, the next one ends the job") {
    JobRecord record;
    record.state = JobState::kRunning;
    record.generation = Generation{6};
    record.known = {{Incarnation{1}, device(0), "address", "host"}};
    LedgerHistory history;
    for (Version v = 1; v <= kLast; ++v)
      history.lines.push_back({v, {0, 0, 0, 0}, {7, v}, std::nullopt});
    history.final_state = Digest{1, 2};
    history.evaluations = {{kLast, totals(5)}};
    Bench bench(record, history);
    bench.report(1, kLast);
    const Effects effects = bench.ready(1, kLast);
    CHECK(receivers<Release>(effects) == Ids{1});
    CHECK(bench.core.state() == JobState::kFinished);
    CHECK(bench.core.ledger().last()->state == Digest{1, 2});
  }
}

}  // namespace
}  // namespace es::actors::intra_job
