// Workers that cannot start, end by themselves or have no link to others: whose fault it is, and
// what becomes of the job.
#include "tests/actors/head/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

const DeviceId kElsewhere{"other", {"a"}, 0};

Effects ended(Bench& bench, std::uint64_t who, EndCause cause, const std::string& way) {
  return bench.event(WorkerExited{
      .incarnation = {who}, .description = "was ended: " + way, .cause = cause, .way = way});
}

// One worker on "node" and one on "other", at this version.
void run_on_two_nodes(Bench& bench, Version version) {
  bench.allocate({device(0), kElsewhere});
  bench.hello(1);
  bench.hello(2);
  bench.round({1, 2}, std::nullopt, {1, 2});
  for (Version made = 1; made <= version; ++made) bench.committed(1, made);
}

Effects written(Bench& bench, std::uint64_t by, Effects asked, Version version) {
  const auto write = message<WriteCheckpoint>(asked);
  return bench.say(CheckpointWritten{.stamp = bench.stamp(by),
                                     .request = write.request,
                                     .path = write.directory,
                                     .version = version,
                                     .digests = {},
                                     .error = {}});
}

}  // namespace

TEST_SUITE("actors/head/intra_job/lost workers") {
  TEST_CASE("a process that fails to start gives its device back, and the cluster judges it") {
    Bench bench;
    bench.allocate({device(0)});
    const Effects effects = ended(bench, 1, EndCause::kItself, "status 1");
    REQUIRE(all<DeviceFailed>(effects).size() == 1);
    CHECK(all<DeviceFailed>(effects)[0].device == device(0));
    CHECK(all<DeviceFailed>(effects)[0].fault == DeviceFailed::Fault::kUnknown);
    CHECK(all<DeviceReleased>(effects).size() == 1);
    CHECK(all<StartWorker>(effects).empty());
    CHECK(bench.core.state() != JobState::kFailed);
    CHECK(bench.core.start_retries() == 1);
  }

  TEST_CASE("processes that are started together on one node are one try") {
    Bench bench;
    bench.allocate({device(0), device(1), device(2), device(3)});
    bench.now += std::chrono::seconds(1);
    for (std::uint64_t id = 1; id <= kSameEndsMax + 1; ++id)
      ended(bench, id, EndCause::kItself, "signal 11");
    CHECK(bench.core.state() != JobState::kFailed);
  }

  TEST_CASE("a program that ends in the same way three times on one node fails the job") {
    Bench bench;
    for (std::uint64_t id = 1; id <= kSameEndsMax; ++id) {
      CHECK(bench.core.state() != JobState::kFailed);
      bench.releases = id - 1;
      bench.now += std::chrono::seconds(1);
      bench.allocate({device(0)});
      ended(bench, id, EndCause::kItself, "signal 11");
    }
    CHECK(bench.core.state() == JobState::kFailed);
    CHECK(bench.core.error().find("in the same way 3 times on node node") != std::string::npos);
    CHECK(bench.core.error().find("signal 11") != std::string::npos);
  }

  TEST_CASE("a program that ends in the same way on two nodes fails the job") {
    for (const bool same : {true, false}) {
      Bench bench;
      bench.allocate({device(0), kElsewhere});
      bench.say(Failed{{Generation{0}, Incarnation{1}}, "needs 10 MiB more memory", true});
      CHECK(bench.core.state() != JobState::kFailed);
      bench.say(Failed{{Generation{0}, Incarnation{2}},
                       same ? "needs 12 MiB more memory" : "the data are not here",
                       true});
      CHECK((bench.core.state() == JobState::kFailed) == same);
      if (same) CHECK(bench.core.error().find("nodes node and other") != std::string::npos);
    }
  }

  TEST_CASE("a node that cannot start processes never fails a job") {
    Bench bench;
    for (std::uint64_t id = 1; id <= 3 * kLossesWithoutProgressMax; ++id) {
      bench.releases = id - 1;
      bench.allocate({id % 2 == 0 ? device(0) : kElsewhere});
      const Effects effects = ended(bench, id, EndCause::kNode, "status 127");
      REQUIRE(all<DeviceFailed>(effects).size() == 1);
      CHECK(all<DeviceFailed>(effects)[0].fault == DeviceFailed::Fault::kNode);
    }
    CHECK(bench.core.state() != JobState::kFailed);
  }

  TEST_CASE("new processes that cannot work where others do cost the job nothing") {
    Bench bench;
    bench.run_with(1);
    bench.committed(1, 1);
    for (std::uint64_t id = 2; id <= 2 * kLossesWithoutProgressMax; ++id) {
      bench.releases = id - 2;
      bench.allocate({device(0), kElsewhere});
      const Effects effects = ended(bench, id, EndCause::kItself, "out of memory");
      CHECK(receivers<Prepare>(effects).empty());
      CHECK(all<DeviceFailed>(effects).size() == 1);
    }
    CHECK(bench.core.state() == JobState::kRunning);
    CHECK(bench.core.placement() == "a:1");
  }

  TEST_CASE("a killed process is no fault of its device") {
    Bench bench;
    bench.allocate({device(0)});
    const Effects effects = bench.exited(1);
    CHECK(all<DeviceFailed>(effects).empty());
    CHECK(all<StartWorker>(effects).size() == 1);
  }

  TEST_CASE("devices on which a new process has computed are reported once") {
    Bench bench;
    bench.run_with(2);
    const auto work = all<DevicesWork>(bench.committed(1, 1));
    REQUIRE(work.size() == 1);
    CHECK(work[0].devices == std::vector{device(0), device(1)});
    CHECK(all<DevicesWork>(bench.committed(1, 2)).empty());
  }

  TEST_CASE("a job whose step may end its workers is saved before it takes that step again") {
    Bench bench;
    run_on_two_nodes(bench, 3);
    ended(bench, 2, EndCause::kItself, "signal 11");
    CHECK(message<Install>(bench.report(1, 3)).pause_at == 3);
    bench.ready(1, 3);
    Effects effects = written(bench, 1, bench.drained(1, 3), 3);
    CHECK(receivers<Prepare>(effects) == Ids{1});
    CHECK(bench.core.record().checkpoints.at(0).version == 3);
    CHECK_FALSE(message<Install>(bench.report(1, 3)).pause_at.has_value());
    bench.ready(1, 3);
    CHECK(bench.core.state() == JobState::kRunning);
    ended(bench, 1, EndCause::kItself, "signal 11");
    CHECK(bench.core.state() == JobState::kFailed);
    CHECK(bench.core.record().checkpoints.at(0).version == 3);
  }

  TEST_CASE("a job that fails is saved first if a member holds its state") {
    for (const bool can_be_written : {true, false}) {
      Bench bench;
      run_on_two_nodes(bench, 3);
      bench.say(Failed{bench.stamp(1), "bad data"});
      CHECK(bench.core.state() != JobState::kFailed);
      CHECK(message<Install>(bench.report(2, 3)).pause_at == 3);
      bench.ready(2, 3);
      Effects asked = bench.drained(2, 3);
      if (can_be_written) {
        written(bench, 2, asked, 3);
      } else {
        bench.exited(2);
      }
      CHECK(bench.core.state() == JobState::kFailed);
      CHECK(bench.core.error().find("bad data") == 0);
      CHECK(bench.core.record().checkpoints.size() == (can_be_written ? 1 : 0));
    }
  }

  TEST_CASE("if the only workers that hold the state are lost too, nothing waits for them") {
    Bench bench;
    run_on_two_nodes(bench, 3);
    ended(bench, 2, EndCause::kItself, "signal 11");
    const Effects effects = ended(bench, 1, EndCause::kItself, "signal 9 of another kind");
    CHECK(bench.core.state() != JobState::kFailed);
    CHECK(all<StartWorker>(effects).size() >= 1);
  }

  TEST_CASE("a job leaves the node to which the others have no link, with all devices there") {
    Bench bench;
    const DeviceId also{"other", {"a"}, 1};
    bench.allocate({device(0), kElsewhere, also});
    for (const std::uint64_t id : {1, 2, 3}) bench.hello(id);
    bench.round({1, 2, 3}, std::nullopt, {1, 2, 3});
    bench.allocate({device(0), device(1), kElsewhere, also});
    bench.hello(4);
    for (const std::uint64_t id : {1, 2, 3}) bench.drained(id, 0);
    bench.round({1, 2, 3, 4}, 0, {1, 2, 3, 4});
    // The link is that of the nodes, whichever of their workers report it.
    bench.say(Suspect{bench.stamp(1), 0, Incarnation{2}});
    bench.round({1, 2, 3, 4}, 0, {1, 2, 3, 4});
    const Effects effects = bench.say(Suspect{bench.stamp(1), 0, Incarnation{3}});
    REQUIRE(all<DeviceFailed>(effects).size() == 1);
    CHECK(all<DeviceFailed>(effects)[0].fault == DeviceFailed::Fault::kLink);
    CHECK(all<DeviceFailed>(effects)[0].device.node == "other");
    CHECK(all<DeviceFailed>(effects)[0].other == "node");
    CHECK(all<KillWorker>(effects).size() == 2);
    const auto prepared = receivers<Prepare>(effects);
    CHECK(std::set<std::uint64_t>(prepared.begin(), prepared.end()).contains(1));
  }

  TEST_CASE("links that do not work never fail a job") {
    Bench bench;
    run_on_two_nodes(bench, 0);
    std::uint64_t id = 2;
    for (int i = 0; i < 2 * kLossesWithoutProgressMax; ++i) {
      bench.say(Suspect{bench.stamp(1), 0, Incarnation{id}});
      bench.round({1, id}, 0, {1, id});
      bench.say(Suspect{bench.stamp(1), 0, Incarnation{id}});
      bench.round({1}, 0, {1});
      bench.exited(id++);
      bench.releases = id - 2;
      bench.allocate({device(0), kElsewhere});
      bench.hello(id);
      bench.drained(1, 0);
      bench.report(1, 0);
      bench.report(id, std::nullopt);
      bench.ready(1, 0);
      bench.ready(id, 0);
    }
    CHECK(bench.core.state() == JobState::kRunning);
  }
}

}  // namespace es::actors::intra_job
