// A job ends when it has held devices for resources.max_seconds, and is paused when they have cost
// its budget.
#include "tests/actors/head/intra_job/core/head_bench.h"

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

// A job that may spend this, without a time limit, in its record.
JobRecord with_budget(double budget) {
  JobRecord record;
  record.budget = budget;
  return record;
}

Bench with_record(const JobRecord& record) {
  return Bench(record, {}, limited(0));
}

// Workers 100 and following on devices of this price per hour.
void run_at(Bench& bench, std::vector<double> prices) {
  Allocation allocation{.sequence = ++bench.sequence, .releases_seen = bench.releases};
  Ids workers;
  for (std::uint32_t i = 0; i < prices.size(); ++i) allocation.devices.push_back(device(i));
  allocation.prices_per_hour = prices;
  const std::uint64_t first = bench.next;
  bench.event(allocation);
  for (std::uint64_t id = first; id < first + prices.size(); ++id) {
    bench.hello(id);
    workers.push_back(id);
  }
  bench.round(workers, std::nullopt, workers);
  REQUIRE(bench.core.state() == JobState::kRunning);
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

TEST_SUITE("actors/head/intra_job/usage_limits") {
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
    WriteCheckpoint asked = message<WriteCheckpoint>(bench.drained(1, 1));
    // The directory of the head, and that of the node.
    asked = message<WriteCheckpoint>(bench.say(written(bench, asked, 1, "disk is full")));
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

  TEST_CASE("devices cost their price for the time in which they are held, also while they leave") {
    Bench bench(limited(0));
    run_at(bench, {3600, 1800});
    bench.committed(1, 1);
    pass(bench, seconds(10));
    CHECK(bench.core.fleet().price_per_hour() == 5400);
    bench.event(Allocation{
        .sequence = ++bench.sequence, .devices = {device(0)}, .prices_per_hour = {3600}});
    CHECK(bench.core.record().spent == doctest::Approx(15));
    // The second device is still held, until its process has ended.
    bench.now += seconds(2);
    bench.drained(1, 1);
    bench.drained(2, 1);
    bench.report(1, 1);
    bench.report(2, 1);
    bench.ready(1, 1);
    bench.exited(2);
    CHECK(bench.core.record().spent == doctest::Approx(18));
    bench.now += seconds(10);
    bench.committed(1, 2);
    CHECK(bench.core.record().spent == doctest::Approx(28));
  }

  TEST_CASE("a job is saved and paused before it spends more than its budget, and waits for more") {
    Bench bench = with_record(with_budget(100));
    run_at(bench, {3600, 3600});
    bench.committed(100, 1);
    // It is saved while the devices cost 2 a second, which takes kSavingSeconds at most.
    CHECK(receivers<Drain>(pass(bench, milliseconds(44'990))).empty());
    CHECK(receivers<Drain>(pass(bench, milliseconds(45'100))) == Ids{100, 101});
    bench.now += seconds(2);
    bench.drained(100, 1);
    const WriteCheckpoint asked = message<WriteCheckpoint>(bench.drained(101, 1));
    CheckpointWritten done = written(bench, asked, 1);
    done.stamp = bench.stamp(100);
    Effects effects = bench.say(done);
    CHECK(bench.core.state() == JobState::kPaused);
    CHECK(receivers<Release>(effects) == Ids{100, 101});
    const JobRecord record = all<SaveRecord>(effects).back().record;
    CHECK(record.over_budget);
    CHECK(record.spent > 90);
    CHECK(record.spent <= 100);
    CHECK(record.checkpoints.front().path == asked.directory);
    CHECK(bench.core.waiting_for().starts_with(
        "a higher budget: its budget of 100 is used up: it has spent 94"));
    bench.exited(100);
    bench.exited(101);
    bench.releases = 2;
    // It does not go on before it may spend more.
    effects = bench.event(ResumeCommand{7});
    CHECK(all<CommandDone>(effects).at(0).status.error().kind == ErrorKind::kRefused);
    effects = bench.event(BudgetCommand{8, 90});
    CHECK(all<CommandDone>(effects).at(0).status.error().message.find("has spent 94") !=
          std::string::npos);
    CHECK(bench.core.state() == JobState::kPaused);
    effects = bench.event(BudgetCommand{9, 200});
    CHECK(all<CommandDone>(effects).at(0).status.ok());
    CHECK(bench.core.state() == JobState::kQueued);
    CHECK(!all<SaveRecord>(effects).back().record.over_budget);
    bench.event(Allocation{.sequence = ++bench.sequence,
                           .releases_seen = bench.releases,
                           .devices = {device(0)},
                           .prices_per_hour = {3600}});
    bench.hello(102);
    bench.report(102, std::nullopt);
    bench.ready(102, 1);
    CHECK(bench.core.state() == JobState::kRunning);
    CHECK(receivers<Drain>(pass(bench, bench.now + seconds(100))).empty());
    CHECK(receivers<Drain>(pass(bench, bench.now + seconds(2))).size() == 1);
  }

  TEST_CASE("what was spent is journaled every minute, and counts for the next head") {
    Bench bench = with_record(with_budget(1000));
    run_at(bench, {3600});
    bench.committed(100, 1);
    const Effects effects = pass(bench, seconds(125));
    CHECK(all<SaveRecord>(effects).size() == 2);
    JobRecord record = all<SaveRecord>(effects).back().record;
    CHECK(record.spent == doctest::Approx(120));
    record.spent = 990;
    Bench later(record, {{{1, {0, 0, 0, 0}, {7, 1}, std::nullopt}}}, limited(0));
    later.event(Allocation{
        .sequence = ++later.sequence, .devices = {device(0)}, .prices_per_hour = {3600}});
    later.report(100, 1);
    later.ready(100, 1);
    CHECK(receivers<Drain>(pass(later, milliseconds(4'990))).empty());
    CHECK(receivers<Drain>(pass(later, milliseconds(5'100))) == Ids{100});
  }

  TEST_CASE("a job that trains on without a head is charged for that time when it is found") {
    constexpr std::uint64_t kDate = 1'700'000'000'000;
    Config config = limited(1000);
    config.zero_unix_ms = kDate;
    Bench bench(with_budget(10'000), {}, config);
    run_at(bench, {3600, 1800});
    bench.committed(100, 1);
    const JobRecord record = all<SaveRecord>(pass(bench, seconds(65))).back().record;
    CHECK(record.spent == doctest::Approx(90));
    CHECK(record.held_ms == 60'000);
    CHECK(record.counted_unix_ms == kDate + 60'000);
    CHECK(record.price_per_hour == 5400);
    const LedgerHistory history{{{1, {0, 0, 0, 0}, {7, 1}, std::nullopt}}};

    SUBCASE("its workers come back to a head that begins 300 s later") {
      config.zero_unix_ms = kDate + 360'000;
      Bench later(record, history, config);
      // Another head may follow before they do.
      later.allocate({device(0), device(1)});
      CHECK(later.core.record().counted_unix_ms == kDate + 60'000);
      const Effects effects = later.hello(101);
      CHECK(later.core.record().spent == doctest::Approx(90 + 450));
      CHECK(later.core.record().held_ms == 360'000);
      CHECK(all<SaveRecord>(effects).back().record.counted_unix_ms == kDate + 360'000);
      CHECK(all<LogLine>(effects).front().text ==
            "it has held its devices for 300 s without a head, which counts: it has spent 450");
      later.hello(100);
      later.hello(101);
      CHECK(later.core.record().spent == doctest::Approx(90 + 450));
    }
    SUBCASE("no time counts twice if a head ends before they come back") {
      config.zero_unix_ms = kDate + 360'000;
      Bench middle(record, history, config);
      middle.allocate({device(0), device(1)});
      middle.now = seconds(20);
      middle.event(PauseCommand{5});
      middle.now = seconds(40);
      middle.event(ResumeCommand{6});
      JobRecord kept = middle.core.record();
      CHECK(kept.held_ms == 60'000);
      kept.state = JobState::kRunning;
      config.zero_unix_ms = kDate + 460'000;
      Bench later(kept, history, config);
      later.hello(100);
      CHECK(later.core.record().held_ms == 460'000);
      CHECK(later.core.record().spent == doctest::Approx(90 + 1.5 * 400));
    }
    SUBCASE("it is not known until when the workers had their devices") {
      config.zero_unix_ms = kDate + 360'000;
      Bench later(record, history, config);
      later.allocate({device(0), device(1)});
      later.exited(100);
      later.exited(101);
      later.hello(102);
      CHECK(later.core.record().spent == doctest::Approx(90));
      CHECK(later.core.record().held_ms == 60'000);
    }
    SUBCASE("the date was set back") {
      config.zero_unix_ms = kDate - 1000;
      Bench later(record, history, config);
      later.hello(100);
      CHECK(later.core.record().spent == doctest::Approx(90));
      CHECK(later.core.record().held_ms == 60'000);
    }
    SUBCASE("its time is used up when it is found") {
      config.zero_unix_ms = kDate + 2'000'000;
      Bench later(record, history, config);
      later.allocate({device(0), device(1)});
      later.hello(100);
      later.hello(101);
      later.report(100, 1);
      later.report(101, 1);
      later.ready(100, 1);
      CHECK(receivers<Drain>(later.ready(101, 1)) == Ids{100, 101});
    }
  }

  TEST_CASE("a job whose state cannot be saved goes on beyond its budget, and tries again") {
    Bench bench = with_record(with_budget(100));
    run_at(bench, {3600});
    bench.committed(100, 1);
    CHECK(receivers<Drain>(pass(bench, seconds(96))) == Ids{100});
    const WriteCheckpoint asked = message<WriteCheckpoint>(bench.drained(100, 1));
    CheckpointWritten failed = written(bench, asked, 1, "disk is full");
    failed.stamp = bench.stamp(100);
    failed.path = message<WriteCheckpoint>(bench.say(failed)).directory;
    bench.say(failed);
    CHECK(bench.core.state() != JobState::kPaused);
    bench.report(100, 1);
    bench.ready(100, 1);
    CHECK(bench.core.state() == JobState::kRunning);
    CHECK(receivers<Drain>(pass(bench, bench.now + kSaveAgainAfter + seconds(1))) == Ids{100});
  }

  TEST_CASE("a job that is given more before it is saved keeps its devices") {
    Bench bench = with_record(with_budget(100));
    run_at(bench, {3600});
    bench.committed(100, 1);
    CHECK(receivers<Drain>(pass(bench, seconds(96))) == Ids{100});
    bench.event(BudgetCommand{9, 500});
    bench.drained(100, 1);
    bench.report(100, 1);
    bench.ready(100, 1);
    CHECK(bench.core.state() == JobState::kRunning);
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
