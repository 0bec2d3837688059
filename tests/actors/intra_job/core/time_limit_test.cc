// A job ends when it has held devices for resources.max_seconds.
#include "tests/actors/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Config limited(double max_seconds) {
  Config config = Bench::config("", 4);
  config.spec.resources.max_seconds = max_seconds;
  config.suspend_prefix = "/s/job-suspended-";
  return config;
}

// Lets the time pass and calls tick() whenever the core wants it.
Effects pass(Bench& bench, Instant until) {
  Effects effects;
  while (bench.core.next_tick() && *bench.core.next_tick() <= until) {
    bench.now = std::max(bench.now, *bench.core.next_tick());
    const Effects more = bench.answered(bench.core.tick(bench.now));
    effects.insert(effects.end(), more.begin(), more.end());
    if (!receivers<Drain>(effects).empty() || bench.core.phase() == Phase::kEnding) break;
  }
  if (receivers<Drain>(effects).empty()) bench.now = until;
  return effects;
}

CheckpointWritten written(const Bench& bench, const WriteCheckpoint& asked, Version version,
                          const char* error = nullptr) {
  CheckpointWritten message{.stamp = bench.stamp(1),
                            .request = asked.request,
                            .path = asked.directory,
                            .version = version,
                            .digests = {},
                            .error = {}};
  if (error != nullptr) message.error = error;
  return message;
}

TEST_SUITE("actors/intra_job/time_limit") {
  TEST_CASE("at its limit a job is saved, and ends with a state and a text of its own") {
    Bench bench(limited(10));
    bench.run_with(2);
    for (Version v = 1; v <= 3; ++v) bench.committed(1, v);
    CHECK(receivers<Drain>(pass(bench, milliseconds(9999))).empty());
    CHECK(receivers<Drain>(pass(bench, seconds(10))) == Ids{1, 2});
    CHECK(bench.core.state() != JobState::kTimedOut);
    bench.drained(1, 3);
    const WriteCheckpoint asked = message<WriteCheckpoint>(bench.drained(2, 3));
    Effects effects = bench.say(written(bench, asked, 3));
    CHECK(bench.core.state() == JobState::kTimedOut);
    CHECK(bench.core.error() == "its time limit of 10 s (resources.max_seconds) is used up");
    CHECK(receivers<Release>(effects) == Ids{1, 2});
    // The saved state stays.
    CHECK(bench.core.record().checkpoints.front().path == asked.directory);
    CHECK(all<SaveRecord>(effects).back().record.state == JobState::kTimedOut);
    bench.exited(1);
    effects = bench.exited(2);
    CHECK(all<JobEnded>(effects).at(0).state == JobState::kTimedOut);
    CHECK(all<KeepSuspensions>(effects).at(0).paths == std::vector<std::string>{asked.directory});
  }

  TEST_CASE("a job whose state cannot be saved at its limit ends anyway") {
    Bench bench(limited(10));
    bench.run_with(1);
    bench.committed(1, 1);
    CHECK(receivers<Drain>(pass(bench, seconds(10))) == Ids{1});
    const WriteCheckpoint asked = message<WriteCheckpoint>(bench.drained(1, 1));
    const Effects effects = bench.say(written(bench, asked, 1, "disk is full"));
    CHECK(bench.core.state() == JobState::kTimedOut);
    bool said = false;
    for (const LogLine& line : all<LogLine>(effects))
      said = said || line.text.find("disk is full") != std::string::npos;
    CHECK(said);
  }

  TEST_CASE("the time without devices does not count") {
    Bench bench(limited(10));
    bench.now = seconds(1000);
    bench.run_with(1);
    bench.committed(1, 1);
    pass(bench, seconds(1006));
    bench.event(PauseCommand{5});
    const WriteCheckpoint asked = message<WriteCheckpoint>(bench.drained(1, 1));
    bench.say(written(bench, asked, 1));
    bench.exited(1);
    bench.releases = 1;
    CHECK(bench.core.state() == JobState::kPaused);
    pass(bench, seconds(2000));
    bench.event(ResumeCommand{6});
    bench.allocate({device(0)});
    bench.hello(2);
    bench.report(2, std::nullopt);
    bench.ready(2, 1);
    CHECK(bench.core.state() == JobState::kRunning);
    CHECK(receivers<Drain>(pass(bench, milliseconds(2'003'999))).empty());
    CHECK(receivers<Drain>(pass(bench, seconds(2004))) == Ids{2});
  }

  TEST_CASE("the time is journaled, and a restarted head goes on with it") {
    Bench bench(limited(1000));
    bench.run_with(1);
    bench.committed(1, 1);
    const Effects effects = pass(bench, seconds(125));
    CHECK(all<SaveRecord>(effects).size() == 2);
    JobRecord record = all<SaveRecord>(effects).back().record;
    CHECK(record.held_ms == 120'000);
    record.held_ms = 999'000;
    Bench later(record, {{{1, {0, 0, 0, 0}, {7, 1}, std::nullopt}}}, limited(1000));
    later.allocate({device(0)});
    later.report(1, 1);
    later.ready(1, 1);
    CHECK(receivers<Drain>(pass(later, milliseconds(999))).empty());
    CHECK(receivers<Drain>(pass(later, seconds(1))) == Ids{1});
  }

  TEST_CASE("without a limit no time is journaled and no call is asked for") {
    Bench bench;
    bench.run_with(1);
    bench.now = seconds(1000);
    CHECK(all<SaveRecord>(bench.committed(1, 1)).empty());
    CHECK(bench.core.record().held_ms == 0);
  }
}

}  // namespace
}  // namespace es::actors::intra_job
