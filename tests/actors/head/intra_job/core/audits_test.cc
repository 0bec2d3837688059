// The head of a job with audits: when an audit passes, which worker is evicted, and to which
// version the job returns.
#include "tests/actors/head/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

constexpr Digest kRight{1, 1}, kWrong{2, 2};

Config audited() {
  Config config = Bench::config("", 4);
  config.spec.audit.every_steps = 5;
  return config;
}

Effects opinion(Bench& bench, std::uint64_t from, Version step, VirtualRank rank, Digest digest) {
  return bench.say(Audited{bench.stamp(from), step, rank, digest});
}

// Three workers; the audit of step 0 is over, and versions 1 to 5 are in the ledger.
void at_second_audit(Bench& bench) {
  bench.run_with(3);
  opinion(bench, 1, 0, 0, kRight);
  CHECK(receivers<AuditPassed>(opinion(bench, 2, 0, 0, kRight)) == Ids{1, 2, 3});
  for (Version v = 1; v <= 5; ++v)
    for (const std::uint64_t id : {1, 2, 3}) bench.committed(id, v);
}

// In the audit of step 5, rank 1, worker 2 computes a wrong result and repeats it. Returns the
// judgement.
Effects blame_second_worker(Bench& bench) {
  opinion(bench, 2, 5, 1, kWrong);
  CHECK(receivers<Audit>(opinion(bench, 3, 5, 1, kRight)) == Ids{1, 2, 3});
  opinion(bench, 1, 5, 1, kRight);
  opinion(bench, 2, 5, 1, kWrong);
  return opinion(bench, 3, 5, 1, kRight);
}

void checkpoint_at(Bench& bench, const std::string& path, Version version) {
  const std::uint64_t request = version + 20;
  bench.event(CheckpointCommand{request, path});
  bench.say(CheckpointWritten{.stamp = bench.stamp(1),
                              .request = request,
                              .path = path,
                              .version = version,
                              .digests = {},
                              .error = {}});
}

TEST_SUITE("actors/head/intra_job/intra_job_audit") {
  TEST_CASE(
      "a wrong device that has computed nothing before is taken out, and nothing else happens") {
    Bench bench(audited());
    bench.run_with(3);
    opinion(bench, 1, 0, 0, kWrong);
    CHECK(receivers<Audit>(opinion(bench, 2, 0, 0, kRight)) == Ids{1, 2, 3});
    opinion(bench, 2, 0, 0, kRight);
    opinion(bench, 3, 0, 0, kRight);
    const Effects effects = opinion(bench, 1, 0, 0, kRight);  // Its two results differ.
    REQUIRE(all<DeviceSuspected>(effects).size() == 1);
    CHECK(all<DeviceSuspected>(effects)[0].device == device(0));
    REQUIRE(all<KillWorker>(effects).size() == 1);
    CHECK(all<KillWorker>(effects)[0].incarnation == Incarnation{1});
    CHECK(all<LedgerRewound>(effects).empty());
    CHECK(receivers<Prepare>(effects) == Ids{2, 3});
  }

  TEST_CASE("a suspect device is given back, and no process is started on it again") {
    Bench bench(audited());
    at_second_audit(bench);
    blame_second_worker(bench);
    const Effects effects = bench.exited(2);
    REQUIRE(all<DeviceReleased>(effects).size() == 1);
    CHECK(all<DeviceReleased>(effects)[0].device == device(1));
    CHECK(all<StartWorker>(effects).empty());
  }

  TEST_CASE("versions that a wrong device may have changed are void, and the job begins again") {
    Bench bench(audited());
    at_second_audit(bench);
    const Effects effects = blame_second_worker(bench);
    CHECK(all<DeviceSuspected>(effects).at(0).device == device(1));
    CHECK(all<KillWorker>(effects).size() == 3);
    CHECK(all<LedgerRewound>(effects).at(0).through == 0);
    CHECK(all<SaveRecord>(effects).back().record.known.empty());
    CHECK(bench.core.ledger().through() == 0);
    for (const std::uint64_t id : {1, 2, 3}) bench.exited(id);
    bench.hello(4);
    bench.hello(5);
    bench.report(4, std::nullopt);
    const Install install = message<Install>(bench.report(5, std::nullopt));
    CHECK(install.target == 0);
    CHECK(install.members.size() == 2);
    bench.ready(4, 0);
    bench.ready(5, 0);
    // The bits differ from those of the void versions, and this is no conflict.
    bench.committed(4, 1, 8);
    CHECK(bench.core.ledger().through() == 1);
    CHECK(bench.core.state() == JobState::kRunning);
  }

  TEST_CASE("a checkpoint of a void version that is reported late is not taken") {
    Bench bench(audited());
    at_second_audit(bench);
    bench.event(CheckpointCommand{30, "/late"});
    blame_second_worker(bench);
    const auto late = bench.say(CheckpointWritten{bench.stamp(1), 30, "/late", 1, {}, ""});
    CHECK(late.empty());
    for (const std::uint64_t id : {1, 2, 3}) bench.exited(id);
    bench.hello(4);
    bench.hello(5);
    bench.round({4, 5}, std::nullopt, {4, 5});
    for (const std::uint64_t id : {4, 5})
      CHECK(all<CheckpointDone>(bench.committed(id, 1, 8)).empty());
    CHECK(bench.core.record().checkpoints.empty());
  }

  TEST_CASE("the job returns to the newest checkpoint that the wrong device cannot have changed") {
    Bench bench(audited());
    bench.run_with(3);
    opinion(bench, 1, 0, 0, kRight);
    opinion(bench, 2, 0, 0, kRight);  // This makes the second device trusted up to version 1.
    bench.committed(1, 1);
    checkpoint_at(bench, "/one", 1);
    for (Version v = 2; v <= 5; ++v) bench.committed(1, v);
    checkpoint_at(bench, "/four", 4);
    const Effects effects = blame_second_worker(bench);
    CHECK(all<LedgerRewound>(effects).at(0).through == 1);
    CHECK(all<SaveRecord>(effects).back().record.checkpoints.front().path == "/one");
    CHECK(bench.core.ledger().through() == 1);
  }

  TEST_CASE("void checkpoints of the job's own series are removed, one of a client stays") {
    Config config = audited();
    config.spec.checkpoint = {.every_steps = 2, .directory = "/d", .keep = 2};
    config.checkpoint_directory = "/d";
    config.suspend_prefix = "/s/job-suspended-";
    JobRecord record;
    record.state = JobState::kRunning;
    record.generation = Generation{1};
    for (std::uint32_t i = 0; i < 3; ++i)
      record.known.push_back({Incarnation{i + 1}, device(i), "address", "host"});
    const CheckpointRef step4{"/d/step-4", 4, true, {"node"}};
    record.checkpoints = {step4, {"/s/job-suspended-1", 3, false}, {"/mine", 3, false}};
    LedgerHistory history;
    for (Version v = 1; v <= 5; ++v)
      history.lines.push_back({v, {0, 0, 0, 0}, {7, v}, std::nullopt});
    Bench bench(config);
    bench.replace_core(config, record, history);
    bench.start();
    bench.round({1, 2, 3}, 5, {1, 2, 3});
    const Effects effects = blame_second_worker(bench);
    CHECK(all<RemoveCheckpoints>(effects).at(0).states == std::vector<CheckpointRef>{step4});
    CHECK(all<KeepSuspensions>(effects).at(0).paths.empty());
    CHECK(all<LogLine>(effects).size() > 0);
    const JobRecord saved = all<SaveRecord>(effects).back().record;
    CHECK(saved.spoiled == std::vector<CheckpointRef>{step4});
    CHECK(saved.checkpoints.empty());
    for (const std::uint64_t id : {1, 2, 3}) bench.exited(id);
    const Effects ended = bench.event(CancelCommand{9});
    CHECK(all<RemoveCheckpoints>(ended).at(0).states == std::vector<CheckpointRef>{step4});
  }

  TEST_CASE(
      "a head that dies while its job goes back reads the record first and continues to go back") {
    Bench bench(audited());
    at_second_audit(bench);
    const Effects effects = blame_second_worker(bench);
    const auto index_of = [&](auto&& is) {
      return std::find_if(effects.begin(), effects.end(), is) - effects.begin();
    };
    const auto saved = index_of([](const Effect& e) {
      const auto* save = std::get_if<SaveRecord>(&e);
      return save != nullptr && save->record.rewinding == Version{0} && save->record.known.empty();
    });
    REQUIRE(saved < static_cast<std::ptrdiff_t>(effects.size()));
    CHECK(saved < index_of([](const Effect& e) { return std::holds_alternative<KillWorker>(e); }));
    CHECK(saved <
          index_of([](const Effect& e) { return std::holds_alternative<LedgerRewound>(e); }));
    CHECK_FALSE(all<SaveRecord>(effects).back().record.rewinding.has_value());
    LedgerHistory history;  // The lines as they were before.
    for (Version v = 1; v <= 5; ++v)
      history.lines.push_back({v, {0, 0, 0, 0}, {7, v}, std::nullopt});
    history.evaluations = {{5, totals(1)}};
    Bench again(std::get<SaveRecord>(effects[saved]).record, history);
    CHECK(all<LedgerRewound>(again.started).at(0).through == 0);
    CHECK_FALSE(all<SaveRecord>(again.started).back().record.rewinding.has_value());
    CHECK(again.core.ledger().through() == 0);
    again.allocate({device(0)});
    again.hello(100);
    CHECK(message<Install>(again.report(100, std::nullopt)).evaluated_through == 0);
    again.ready(100, 0);
    // The bits differ from those of the void versions, and this is no conflict.
    again.committed(100, 1, 8);
    CHECK(again.core.state() == JobState::kRunning);
  }

  TEST_CASE("a round in the middle of an audit makes the audit begin again") {
    Bench bench(audited());
    bench.run_with(3);
    opinion(bench, 1, 0, 0, kWrong);
    bench.exited(3);
    bench.round({1, 2}, 0, {1, 2});
    CHECK(receivers<AuditPassed>(opinion(bench, 2, 0, 0, kRight)).empty());
    CHECK(receivers<AuditPassed>(opinion(bench, 1, 0, 0, kRight)) == Ids{1, 2});
  }

  TEST_CASE("two devices with one result each are both taken out") {
    Bench bench(audited());
    bench.run_with(2);
    opinion(bench, 1, 0, 0, kWrong);
    opinion(bench, 2, 0, 0, kRight);
    opinion(bench, 1, 0, 0, kWrong);
    const Effects effects = opinion(bench, 2, 0, 0, kRight);
    CHECK(all<DeviceSuspected>(effects).size() == 2);
    CHECK(all<KillWorker>(effects).size() == 2);
    CHECK(bench.core.phase() == Phase::kIdle);
  }

  TEST_CASE("after a restart of the head no device is trusted beyond the beginning") {
    Bench before(audited());
    before.run_with(3);
    LedgerHistory history;
    for (Version v = 1; v <= 5; ++v)
      history.lines.push_back({v, {0, 0, 0, 0}, {7, v}, std::nullopt});
    JobRecord record = before.core.record();
    Bench bench(audited());
    bench.replace_core(audited(), record, history);
    bench.start();
    bench.round({1, 2, 3}, 5, {1, 2, 3});
    const Effects effects = blame_second_worker(bench);
    CHECK(all<LedgerRewound>(effects).at(0).through == 0);
  }
}

}  // namespace
}  // namespace es::actors::intra_job
