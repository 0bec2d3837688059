// A checkpoint of the last version that a job reaches, at its end or when it is cancelled.
#include "tests/actors/head/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

CheckpointCommand at_end(const std::string& otherwise = "") {
  return {.request = 5, .directory = "dir", .at_end = true, .otherwise = otherwise};
}

CheckpointWritten written(const Bench& bench, const WriteCheckpoint& asked, Version version,
                          const std::string& error = "") {
  return {.stamp = bench.stamp(1),
          .request = asked.request,
          .path = error.empty() ? asked.directory : "",
          .version = version,
          .digests = {},
          .error = error};
}

// Two workers at version 3, of a job that is cancelled. Returns the effects of the second worker's
// Drained.
Effects cancelled_at_3(Bench& bench, const std::string& otherwise = "") {
  bench.run_with(2);
  const WriteCheckpoint first = message<WriteCheckpoint>(bench.event(at_end(otherwise)));
  CHECK(first.at == kLast);
  for (Version v = 1; v <= 3; ++v) bench.committed(1, v);
  const Effects effects = bench.event(CancelCommand{6});
  CHECK(receivers<Drain>(effects) == Ids{1, 2});
  CHECK(all<CommandDone>(effects).empty());
  CHECK(receivers<WriteCheckpoint>(bench.drained(1, 3)).empty());
  return bench.drained(2, 3);
}

std::vector<CheckpointDone> finish_with(Bench& bench, const std::string& error) {
  bench.run_with(2);
  const WriteCheckpoint asked = message<WriteCheckpoint>(bench.event(at_end()));
  for (Version v = 1; v <= kLast; ++v)
    for (const std::uint64_t id : {1, 2}) bench.committed(id, v);
  bench.say(Evaluated{bench.stamp(1), kLast, totals(1)});
  CHECK(bench.core.phase() == Phase::kNormal);  // The checkpoint is not written yet.
  const auto done = all<CheckpointDone>(bench.say(written(bench, asked, kLast, error)));
  CHECK(bench.core.state() == JobState::kFinished);
  return done;
}

// The path of a checkpoint, and its version.
using Place = std::pair<std::string, Version>;

Place place(const CheckpointDone& done) {
  return {done.result->checkpoint.path, done.result->checkpoint.version};
}

}  // namespace

TEST_SUITE("actors/head/intra_job/lifecycle") {
  TEST_CASE("a cancelled job stops at a common version and ends when its checkpoint is written") {
    Bench bench;
    const WriteCheckpoint asked = message<WriteCheckpoint>(cancelled_at_3(bench));
    CHECK(asked.directory == "dir");
    CHECK(asked.at == 0);
    Effects effects = bench.say(written(bench, asked, 3));
    REQUIRE(all<CheckpointDone>(effects).size() == 1);
    CHECK(place(all<CheckpointDone>(effects)[0]) == Place("dir", 3));
    CHECK(bench.core.state() == JobState::kCancelled);
    CHECK(receivers<Release>(effects) == Ids{1, 2});
    bench.exited(1);
    effects = bench.exited(2);
    CHECK(all<CommandDone>(effects).at(0).status.ok());
    CHECK(all<JobEnded>(effects).size() == 1);
  }

  TEST_CASE("the checkpoint is written once when the ledger is late") {
    Bench bench;
    bench.run_with(1);
    const WriteCheckpoint asked = message<WriteCheckpoint>(bench.event(at_end()));
    bench.event(CancelCommand{6});
    bench.drained(1, 1);
    bench.say(written(bench, asked, 1));
    CHECK(bench.core.phase() == Phase::kNormal);
    const Effects effects = bench.committed(1, 1);
    CHECK(all<CheckpointDone>(effects).size() == 1);
    CHECK(bench.core.state() == JobState::kCancelled);
  }

  TEST_CASE(
      "a job without such a checkpoint, or without a version to write, is cancelled at once") {
    Bench bench;
    bench.run_with(1);
    bench.event(CheckpointCommand{5, "now"});
    bench.event(CancelCommand{6});
    CHECK(bench.core.state() == JobState::kCancelled);
    Bench waits;
    waits.event(at_end());
    const Effects effects = waits.event(CancelCommand{6});
    CHECK(waits.core.state() == JobState::kCancelled);
    CHECK(all<CheckpointDone>(effects).at(0).result.error().kind == ErrorKind::kRefused);
  }

  TEST_CASE("when a worker is lost meanwhile, the others stop where the round begins") {
    Bench bench;
    cancelled_at_3(bench);
    bench.exited(1);
    CHECK(message<Install>(bench.report(2, 3)).pause_at == 3);
    CHECK(message<WriteCheckpoint>(bench.ready(2, 3)).at == kLast);
    CHECK(message<WriteCheckpoint>(bench.drained(2, 3)).at == 0);
  }

  TEST_CASE("a checkpoint that cannot be written to the first directory goes to the other one") {
    Bench bench;
    const WriteCheckpoint first = message<WriteCheckpoint>(cancelled_at_3(bench, "other"));
    Effects effects = bench.say(written(bench, first, 3, "dir: no space left"));
    CHECK(all<CheckpointDone>(effects).empty());
    CHECK(bench.core.phase() == Phase::kNormal);
    const WriteCheckpoint second = message<WriteCheckpoint>(effects);
    CHECK(second.directory == "other");
    CHECK(second.make_parent);  // the directory of the node for such states may not be there yet
    CHECK(second.at == 0);
    SUBCASE("and that error is reported") {
      effects = bench.say(written(bench, second, 3));
      REQUIRE(all<CheckpointDone>(effects).size() == 1);
      CHECK(place(all<CheckpointDone>(effects)[0]) == Place("other", 3));
      CHECK(all<CheckpointDone>(effects)[0].result->first_error == "dir: no space left");
    }
    SUBCASE("or both errors are reported, and the job ends") {
      effects = bench.say(written(bench, second, 3, "other: no space left"));
      REQUIRE(all<CheckpointDone>(effects).size() == 1);
      CHECK(all<CheckpointDone>(effects)[0].result.error().message ==
            "dir: no space left; other: no space left");
    }
    CHECK(bench.core.state() == JobState::kCancelled);
  }

  TEST_CASE("a job that completes its steps writes the last checkpoint before it ends") {
    Bench bench;
    const auto done = finish_with(bench, "");
    REQUIRE(done.size() == 1);
    CHECK(place(done[0]) == Place("dir", kLast));
    Bench full;
    CHECK(finish_with(full, "dir: no space left").at(0).result.error().message ==
          "dir: no space left");
  }

  TEST_CASE("a job that cannot write the last checkpoint of its series fails") {
    for (const bool fails : {false, true}) {
      CAPTURE(fails);
      Config config = Bench::config("", 4);
      config.spec.checkpoint = {.every_steps = kLast, .directory = "/c", .keep = 2};
      config.checkpoint_directory = "/c/job";
      Bench bench(config);
      bench.allocate({device(0)});
      bench.hello(1);
      bench.report(1, std::nullopt);
      WriteCheckpoint asked = message<WriteCheckpoint>(bench.ready(1, 0));
      for (Version v = 1; v <= kLast; ++v) bench.committed(1, v);
      bench.say(Evaluated{bench.stamp(1), kLast, totals(1)});
      asked.directory = "/c/job/step-10";
      bench.say(written(bench, asked, kLast, fails ? "/c/job: no space left" : ""));
      CHECK(bench.core.state() == (fails ? JobState::kFailed : JobState::kFinished));
      if (fails)
        CHECK(bench.core.error() ==
              "all 10 steps are done, but their result is not kept: no checkpoint of version 10: "
              "/c/job: no space left");
    }
  }
}

}  // namespace es::actors::intra_job
