// The job's own series of checkpoints: when one is due, which ones are removed, and what the job
// does after damage.
#include "actors/head/intra_job/core/periodic_checkpoints.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "actors/head/intra_job/core/job_core.h"

namespace es::actors::intra_job {
namespace {

using namespace protocol;

constexpr Version kLast = 50;

CheckpointSpec every(std::uint64_t steps, std::uint32_t keep = 2) {
  return {.every_steps = steps, .directory = "/d", .keep = keep};
}

CheckpointRef step(Version version, bool periodic = true) {
  return {"/d/step-" + std::to_string(version), version, periodic};
}

// One worker on one device. It continues from whatever the head names as the source.
class Bench {
 public:
  Bench() : core(config(), services()) {
    core.start(now);
    core.on(Event(NodesPresent(std::set<std::string>{"node"})), now);
    begin();
  }

  static Config config() {
    Config config;
    config.spec.max_p = 1;
    config.spec.checkpoint = every(20);
    config.last_version = kLast;
    config.checkpoint_directory = "/d";
    return config;
  }
  Services services() {
    return {.next_incarnation = [this] { return Incarnation{++worker}; },
            .assign_ranks =
                [](std::uint32_t max_p, const std::vector<DeviceId>&) {
                  return std::vector<RankRange>{{0, max_p}};
                }};
  }
  Stamp stamp() const { return {core.generation(), Incarnation{worker}}; }
  Effects say(WorkerMessage message) { return last = answered(core.on(message, now)); }
  // The node can read every path about which the head asks.
  Effects answered(Effects effects) {
    for (std::size_t i = 0; i < effects.size(); ++i) {
      const auto* find = std::get_if<FindStates>(&effects[i]);
      if (find == nullptr) continue;
      StatesFound found{find->node, {}};
      for (const CheckpointRef& state : find->states)
        found.states.push_back({state, Sight::kWhole});
      const Effects more = core.on(Event(found), now);
      effects.insert(effects.end(), more.begin(), more.end());
    }
    return effects;
  }
  // Starts a new process on the device and runs up to its report.
  void begin() {
    core.on(Event(Allocation{++sequence, 0, {{"node", {"a"}, 0}}}), now);
    say(Hello{{Generation{0}, Incarnation{worker}}, {}, "address", "host"});
    say(Report{stamp(), std::nullopt});
  }
  void lose() {
    answered(core.on(Event(WorkerExited{Incarnation{worker}, "signal 9"}), now));
    say(Hello{{Generation{0}, Incarnation{worker}}, {}, "address", "host"});
    say(Report{stamp(), std::nullopt});
  }
  void commit(Version first, Version through) {
    for (Version v = first; v <= through; ++v)
      say(Committed{stamp(), {v, {0}, {7, v}, std::nullopt}});
  }
  // Answers the last request.
  Effects written(Version version, const std::string& error = "") {
    const WriteCheckpoint asked = *sent<WriteCheckpoint>(last);
    commit(core.ledger().through() + 1, version);
    return say(CheckpointWritten{stamp(),
                                 asked.request,
                                 asked.directory + "/step-" + std::to_string(version),
                                 version,
                                 {},
                                 error,
                                 ErrorKind::kFailure});
  }

  template <class M>
  static const M* sent(const Effects& effects) {
    for (const Effect& effect : effects)
      if (const auto* send = std::get_if<SendWorker>(&effect))
        if (const M* message = std::get_if<M>(send->message.get())) return message;
    return nullptr;
  }

  Instant now{};
  std::uint64_t worker = 0, sequence = 0;
  Effects last;
  JobCore core;
};

TEST_SUITE("actors/head/intra_job/periodic_checkpoints") {
  TEST_CASE("a checkpoint is due at every multiple and at the end, and none is due twice") {
    JobRecord record;
    PeriodicCheckpoints plan(every(20), kLast, record);
    for (const Version at : {20, 40, 50}) {
      plan.plan(at - 10, record);
      REQUIRE(plan.pending());
      CHECK(plan.pending()->at == at);
      plan.settle(at);
    }
    plan.plan(kLast, record);
    CHECK_FALSE(plan.pending());
    PeriodicCheckpoints none(every(0), kLast, record);
    none.plan(0, record);
    CHECK_FALSE(none.pending());
  }

  TEST_CASE(
      "checkpoints that fall due while one is being written are left out, but not the last one") {
    JobRecord record;
    PeriodicCheckpoints plan(every(10), kLast, record);
    plan.plan(0, record);
    plan.settle(10);
    plan.plan(37, record);
    CHECK(plan.pending()->at == 40);
    plan.settle(40);
    plan.plan(kLast, record);
    CHECK(plan.pending()->at == kLast);
  }

  TEST_CASE("the newest `keep` of the series stay, and others are not touched") {
    JobRecord record;
    PeriodicCheckpoints plan(every(10, 3), kLast, record);
    std::vector<std::string> gone;
    for (const Version v : {10, 20, 30, 40}) {
      plan.plan(v - 1, record);
      const std::vector<std::string> remove = plan.pending()->remove;
      gone.insert(gone.end(), remove.begin(), remove.end());
      add_checkpoint(record, step(v), remove);
      plan.settle(v);
      add_checkpoint(record, {"/mine/" + std::to_string(v), v + 5, false}, {});
    }
    CHECK(gone == std::vector<std::string>{"/d/step-10"});
    CHECK(record.checkpoints.front() == CheckpointRef{"/mine/40", 45, false});
    std::vector<std::string> series;
    for (const CheckpointRef& ref : record.checkpoints)
      if (ref.periodic) series.push_back(ref.path);
    CHECK(series == std::vector<std::string>{"/d/step-40", "/d/step-30", "/d/step-20"});
  }

  TEST_CASE("checkpoints stay ordered by version, in any order of arrival") {
    JobRecord record;
    add_checkpoint(record, step(30), {});
    add_checkpoint(record, step(10), {});
    add_checkpoint(record, step(20), {});
    add_checkpoint(record, step(20), {});
    CHECK(record.checkpoints == std::vector<CheckpointRef>{step(30), step(20), step(10)});
    CHECK(drop_checkpoint(record, "/d/step-30"));
    CHECK(record.checkpoints.front() == step(20));
    CHECK_FALSE(drop_checkpoint(record, "/d/step-30"));
  }

  TEST_CASE(
      "void ones are removed when the series is past their versions, unless one is good again") {
    JobRecord record;
    record.spoiled = {step(30), step(20)};
    PeriodicCheckpoints plan(every(10), kLast, record);
    plan.plan(15, record);
    CHECK(plan.pending()->at == 20);
    CHECK(plan.pending()->remove.empty());
    // Its bits were right, and the writer has found it at its path.
    add_checkpoint(record, step(20), {});
    CHECK(record.spoiled == std::vector<CheckpointRef>{step(30)});
    plan.settle(20);
    plan.plan(35, record);
    CHECK(plan.pending()->remove == std::vector<std::string>{"/d/step-30"});
    const std::vector<std::string> removed = plan.pending()->remove;
    add_checkpoint(record, step(40), removed);
    CHECK(record.spoiled.empty());
    plan.settle(40);
    plan.plan(41, record);
    CHECK(plan.pending()->remove == std::vector<std::string>{"/d/step-20"});  // By their age.
  }

  TEST_CASE("of the checkpoints that were written to give up the devices the newest stays") {
    JobRecord record;
    add_checkpoint(record, {"/s/job-suspended-3", 10, false}, {});
    add_checkpoint(record, {"/mine", 15, false}, {});
    add_checkpoint(record, {"/s/job-suspended-5", 20, false}, {});
    const std::string prefix = "/s/job-suspended-";
    CHECK(suspensions(record, prefix) ==
          std::vector<std::string>{"/s/job-suspended-5", "/s/job-suspended-3"});
    CHECK(drop_suspensions(record, prefix, "/s/job-suspended-5"));
    CHECK_FALSE(drop_suspensions(record, prefix, "/s/job-suspended-5"));
    CHECK(record.checkpoints ==
          std::vector<CheckpointRef>{{"/s/job-suspended-5", 20, false}, {"/mine", 15, false}});
    CHECK(suspensions(record, "").empty());
  }

  TEST_CASE(
      "a worker is asked ahead of time, again after a round, and the job waits for the last one") {
    Bench bench;
    bench.say(Ready{bench.stamp(), 0});
    REQUIRE(Bench::sent<WriteCheckpoint>(bench.last) != nullptr);
    const WriteCheckpoint first = *Bench::sent<WriteCheckpoint>(bench.last);
    CHECK(first.periodic);
    CHECK(first.at == 20);
    CHECK(first.directory == "/d");
    bench.lose();
    bench.say(Ready{bench.stamp(), 0});
    CHECK(Bench::sent<WriteCheckpoint>(bench.last)->at == 20);
    CHECK(Bench::sent<WriteCheckpoint>(bench.written(20))->at == 40);
    CHECK(bench.core.record().checkpoints.front().path == step(20).path);
    CHECK(Bench::sent<WriteCheckpoint>(bench.written(40))->at == kLast);
    const Effects asked = bench.last;
    bench.commit(41, kLast);
    bench.say(Evaluated{bench.stamp(), kLast, std::make_shared<const std::vector<std::byte>>()});
    CHECK(bench.core.state() == JobState::kRunning);
    bench.last = asked;
    bench.written(kLast);
    CHECK(bench.core.state() == JobState::kFinished);
    CHECK(bench.core.record().checkpoints.front().path == step(kLast).path);
  }

  TEST_CASE("a failing disk is reported until it works again, and the last good checkpoint stays") {
    Bench bench;
    bench.say(Ready{bench.stamp(), 0});
    bench.written(20);
    bench.written(40, "/d/step-40/data: cannot be written: No space left on device");
    CHECK(bench.core.state() == JobState::kRunning);
    CHECK(bench.core.warning().find("version 40: /d/step-40/data") != std::string::npos);
    CHECK(bench.core.record().checkpoints.front().path == step(20).path);
    CHECK(std::ranges::none_of(bench.last, [](const Effect& effect) {
      return std::holds_alternative<RemoveCheckpoints>(effect);
    }));
    bench.written(kLast);
    CHECK(bench.core.warning().empty());
  }

  TEST_CASE("a damaged newest checkpoint is skipped with a warning, but never for the seed") {
    Bench bench;
    bench.say(Ready{bench.stamp(), 0});
    bench.written(20);
    bench.written(40);
    bench.lose();
    for (const std::string path : {"/d/step-40", "/d/step-20"}) {
      const Install* install = Bench::sent<Install>(bench.last);
      REQUIRE(install != nullptr);
      CHECK(install->source == Source(FromCheckpoint{path}));
      bench.say(CheckpointUnreadable{bench.stamp(), path, path + "/data: damaged: block 3", true});
      bench.say(Report{bench.stamp(), std::nullopt});
    }
    CHECK(bench.core.warning().find("/d/step-40/data: damaged: block 3") != std::string::npos);
    CHECK(bench.core.warning().find("from version 20") != std::string::npos);
    // All saved states are gone: the job holds no device and waits for a command of its user.
    CHECK(Bench::sent<Install>(bench.last) == nullptr);
    CHECK(Bench::sent<Release>(bench.last) != nullptr);
    CHECK(bench.core.state() == JobState::kQueued);
    CHECK(bench.core.waiting_for().find("/d/step-20/data: damaged: block 3") != std::string::npos);
    CHECK(bench.core.waiting_for().find("--accept-loss") != std::string::npos);
    CHECK(bench.core.record().checkpoints.front().path == "/d/step-20");
    bench.core.on(Event(ResumeCommand{1, true}), bench.now);
    CHECK(bench.core.record().checkpoints.empty());
    CHECK(bench.core.waiting_for() == "its worker processes to start");
  }
}

}  // namespace
}  // namespace es::actors::intra_job
