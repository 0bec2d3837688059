// The two cores together, under random orders of events and faults. The tests check the invariants
// S1-S5, F and L1 of the protocol (in simulation.cc and toy_engine.cc) and compare with the bits of
// an undisturbed run.
#include "tests/actors/base/protocol/simulation.h"

#include <doctest/doctest.h>

#include <functional>

#include "tests/support/seed.h"

namespace es::test {
namespace {

constexpr std::uint64_t kRuns = 1500;

// The sizes differ between runs: every number of ranks from 2 to 6, more on several hosts, where
// workers also make partial sums, and one to three buckets.
SimOptions elastic(std::uint64_t seed) {
  SimOptions options;
  options.seed = seed;
  options.hosts = 1 + seed / 2 % 4;
  options.max_p = 2 + seed % (options.hosts == 1 ? 5 : 12);
  options.bucket_count = 1 + seed % 3;
  options.steps = 4 + seed % 4;
  options.eval_every = seed % 4;
  // Every other run has sharded state, and more members, so that most hold a part only.
  options.sharded = seed / 8 % 2 == 0;
  if (options.sharded) {
    options.bucket_count = 1 + seed % 7;
    options.inventory = {{"a", 5}};
  }
  return options;
}

SimOptions staged(std::uint64_t seed) {
  SimOptions options = elastic(seed);
  if (seed % 2 == 0) {
    options.inventory = {{"a", 2}, {"b", 2}};
    options.stages = "a:2@2,b:2@1,a:1+b:1@2,a:1@100";
  } else {
    options.inventory = {{"a", 2}, {"b", 1}, {"c", 2}};
    options.stages = "a:1@1,a:2@1,b:1+c:1@2,a:2@50";
  }
  return options;
}

using Marks = std::map<std::string, int>;
using Configure = std::function<SimOptions(std::uint64_t seed)>;

void check_finished(const Simulation& simulation) {
  const ToyJob& job = simulation.job();
  const Version last = reference_end(job);
  REQUIRE(simulation.ledger().size() == last);
  CHECK(simulation.ledger().back() == reference_line(job, last));
  CHECK(simulation.evaluated().contains(last));
  std::uint64_t steps = 0;
  for (const auto& report : simulation.head().stage_reports(simulation.now())) {
    steps += report.steps;
  }
  CHECK(steps <= last);  // A restarted head counts from its restart.
}

// Runs many seeds. Every run must end in `expected`. If the request can come too late, the state
// finished is allowed too.
Marks run_many(const char* name, JobState expected, const Configure& configure) {
  Marks marks;
  const std::uint64_t base = seed(name);
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    Simulation simulation(configure(base + i));
    INFO("ES_SEED=" << base + i);
    REQUIRE_NOTHROW(simulation.run());
    INFO(simulation.head().error());
    if (simulation.state() == JobState::kFinished) {
      check_finished(simulation);
    } else {
      REQUIRE(simulation.state() == expected);
    }
    for (const auto& [what, count] : simulation.marks()) marks[what] += count;
  }
  return marks;
}

// Every version whose evaluation was due is in the list of evaluations.
void check_evaluated(const Simulation& simulation, Version every) {
  const Version last = simulation.job().last_version;
  for (Version version = every; every != 0 && version < last; version += every)
    CHECK(simulation.evaluated().contains(version));
}

// A job that lowers its rate, may stop early, and keeps its best version.
SimOptions deciding(std::uint64_t seed) {
  SimOptions options = seed % 2 == 0 ? staged(seed) : elastic(seed);
  options.steps = 12;
  options.eval_every = 1 + seed % 3;
  options.decisions.schedule.kind = "plateau";
  options.decisions.schedule.patience = seed % 3;
  options.decisions.schedule.cooldown = seed % 2;
  const auto patience = static_cast<std::uint32_t>(1 + seed / 4 % 4);
  if (seed % 4 != 0) options.decisions.stop = {.metric = "accuracy", .patience = patience};
  if (seed % 5 != 0) options.decisions.checkpoint.keep_best = "accuracy";
  return options;
}

void check_best(const Simulation& simulation) {
  const ToyJob& job = simulation.job();
  if (job.spec.checkpoint.keep_best.empty()) return;
  const Version best = reference_best(job, reference_end(job));
  REQUIRE(simulation.best().has_value());
  CHECK(simulation.best()->version == best);
  CHECK(simulation.checkpoints().at(simulation.best()->path) == reference_version(job, best));
}

void run_deciding(const char* name, const Configure& configure) {
  Marks marks;
  const std::uint64_t base = seed(name);
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    const SimOptions options = configure(base + i);
    Simulation simulation(options);
    INFO("ES_SEED=" << base + i);
    REQUIRE_NOTHROW(simulation.run());
    INFO(simulation.head().error());
    REQUIRE(simulation.state() == JobState::kFinished);
    check_finished(simulation);
    check_best(simulation);
    const auto& decided = simulation.head().evaluations();
    ++marks[reference_end(simulation.job()) < options.steps ? "stopped" : "not stopped"];
    ++marks[decided.last_reduction() ? "lowered" : "not lowered"];
  }
  for (const char* what : {"stopped", "not stopped", "lowered", "not lowered"})
    CHECK(marks.contains(what));
}

// Only a fault may cause a wait without an answer.
void check_no_time_limit(const Marks& marks) {
  CHECK(!marks.contains("a time limit was needed"));
}

TEST_SUITE("actors/base/protocol/simulation") {
  TEST_CASE("an undisturbed job finishes with the reference's bits on any number of devices") {
    const Marks marks = run_many("undisturbed", JobState::kFinished, elastic);
    check_no_time_limit(marks);
    CHECK(marks.contains("partial sum made"));
    CHECK(marks.contains("steps held up"));
  }

  TEST_CASE("stages run on exactly their devices, with one round for members that join and leave") {
    check_no_time_limit(run_many("stages", JobState::kFinished, staged));
    Simulation simulation({.seed = 5,
                           .steps = 7,
                           .inventory = {{"a", 2}, {"b", 2}},
                           .stages = "a:2@2,b:2@1,a:1+b:1@4"});
    simulation.run();
    const auto reports = simulation.head().stage_reports(simulation.now());
    REQUIRE(reports.size() == 3);
    CHECK(reports[0].placement == "a:2");
    CHECK(reports[0].steps == 2);
    CHECK(reports[1].placement == "b:2");
    CHECK(reports[1].steps == 1);
    CHECK(reports[2].placement == "a:1+b:1");
    CHECK(reports[2].steps == 4);
    CHECK(simulation.head().generation().value == 3);  // One round for each placement.
  }

  TEST_CASE("devices that come and go at any time change no bit") {
    check_no_time_limit(run_many("reallocation", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = elastic(seed);
      options.reallocations = 4;
      return options;
    }));
  }

  TEST_CASE("scale commands at any time change no bit") {
    check_no_time_limit(run_many("scale", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = elastic(seed);
      options.inventory = {{"a", 2}, {"b", 2}};
      options.scales = 3;
      options.reallocations = 1;
      return options;
    }));
  }

  TEST_CASE("a worker that dies in any phase costs time but no bit") {
    const Marks marks = run_many("crash", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = seed % 3 == 0 ? staged(seed) : elastic(seed);
      options.crashes = 1 + static_cast<int>(seed % 3);
      options.reallocations = 2;
      return options;
    });
    for (int phase = 0; phase <= 4; ++phase) {
      CHECK(marks.contains("crash in phase " + std::to_string(phase)));
    }
    CHECK(marks.contains("state was lost with all members"));
  }

  TEST_CASE("a worker that continues after it was given up is fenced") {
    const Marks marks = run_many("freeze", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = seed % 2 == 0 ? staged(seed) : elastic(seed);
      options.freezes = 2;
      options.crashes = 1;
      return options;
    });
    CHECK(marks.contains("woke up"));
  }

  TEST_CASE("a joiner that dies before or after its Hello is replaced") {
    const Marks marks = run_many("failed start", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = seed % 2 == 0 ? staged(seed) : elastic(seed);
      options.failed_starts = 2;
      options.reallocations = 2;
      return options;
    });
    CHECK(marks.contains("died before Hello"));
    CHECK(marks.contains("died after Hello"));
  }

  TEST_CASE("workers that wait find a cut link and a lost message") {
    run_many("cut", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = elastic(seed);
      options.cuts = 1;
      options.lost_messages = 2;
      return options;
    });
  }

  TEST_CASE("a head that restarts between any two effects loses no decision") {
    const Marks marks = run_many("head restart", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = seed % 2 == 0 ? staged(seed) : elastic(seed);
      options.head_restarts = 2;
      options.crashes = 1;
      options.checkpoints = 1;
      options.reallocations = 2;
      return options;
    });
    CHECK(marks.contains("head restarted"));
  }

  TEST_CASE("restarts of the head and changes of the devices cost no evaluation") {
    const std::uint64_t base = seed("evaluations");
    for (std::uint64_t i = 0; i < kRuns; ++i) {
      SimOptions options = i % 2 == 0 ? staged(base + i) : elastic(base + i);
      options.steps = 12;
      options.eval_every = 1 + i % 4;
      options.head_restarts = 3;
      options.reallocations = 2;
      Simulation simulation(options);
      INFO("ES_SEED=" << base + i);
      REQUIRE_NOTHROW(simulation.run());
      check_finished(simulation);
      check_evaluated(simulation, options.eval_every);
    }
  }

  TEST_CASE("evaluations decide the same on any placement and after any change of it") {
    run_deciding("decisions", [](std::uint64_t seed) {
      SimOptions options = deciding(seed);
      options.reallocations = 3;
      options.pauses = static_cast<int>(seed % 3);
      options.drains = static_cast<int>(seed % 2);
      return options;
    });
  }

  TEST_CASE("evaluations decide the same after losses and restarts of the head at any time") {
    run_deciding("decisions and faults", [](std::uint64_t seed) {
      SimOptions options = deciding(seed);
      options.crashes = static_cast<int>(seed % 4);
      options.head_restarts = 1 + static_cast<int>(seed % 3);
      options.lost_messages = static_cast<int>(seed % 2);
      options.reallocations = 1;
      options.periodic = seed % 3;
      options.checkpoints = static_cast<int>(seed % 2);
      return options;
    });
  }

  TEST_CASE(
      "checkpoints at any time hold the bits of their version, and each request is answered") {
    const Marks marks = run_many("checkpoint", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = seed % 2 == 0 ? staged(seed) : elastic(seed);
      options.checkpoints = 3;
      options.crashes = static_cast<int>(seed % 3);
      return options;
    });
    CHECK(marks.contains("checkpoint written"));
  }

  TEST_CASE("a series of checkpoints, lost workers and damaged disks in any order change no bit") {
    const Marks marks = run_many("series", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = seed % 2 == 0 ? staged(seed) : elastic(seed);
      options.periodic = 1 + seed % 3;
      options.damages = 3;
      options.crashes = 5;
      options.head_restarts = static_cast<int>(seed % 2);
      options.checkpoints = 1;
      return options;
    });
    CHECK(marks.contains("damage found"));
  }

  TEST_CASE("a job that gives up all devices, on request or because they end, changes no bit") {
    const Marks marks = run_many("pause", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = seed % 2 == 0 ? staged(seed) : elastic(seed);
      options.pauses = 2;
      options.drains = 2;
      options.crashes = static_cast<int>(seed % 3);
      options.head_restarts = static_cast<int>(seed % 2);
      options.scales = seed % 2 == 0 ? 0 : 1;
      return options;
    });
    CHECK(marks.contains("paused"));
    CHECK(marks.contains("drain in phase 3"));
  }

  TEST_CASE("a job that is cancelled at any time leaves no process and no device behind") {
    const Marks marks = run_many("cancel", JobState::kCancelled, [](std::uint64_t seed) {
      SimOptions options = seed % 2 == 0 ? staged(seed) : elastic(seed);
      options.cancel = true;
      options.checkpoints = 1;
      options.crashes = 1;
      options.freezes = 1;
      return options;
    });
    for (int phase = 0; phase <= 3; ++phase) {
      CHECK(marks.contains("cancel in phase " + std::to_string(phase)));
    }
  }

  TEST_CASE("all faults together change no bit") {
    run_many("everything", JobState::kFinished, [](std::uint64_t seed) {
      SimOptions options = seed % 2 == 0 ? staged(seed) : elastic(seed);
      options.crashes = 2;
      options.freezes = 1;
      options.cuts = 1;
      options.lost_messages = 1;
      options.head_restarts = 1;
      options.reallocations = 2;
      options.scales = 1;
      options.checkpoints = 1;
      return options;
    });
  }

  TEST_CASE("the same seed gives the same history") {
    SimOptions options = staged(11);
    options.crashes = 2;
    options.head_restarts = 1;
    Simulation first(options);
    Simulation second(options);
    first.run();
    second.run();
    CHECK(first.now() == second.now());
    CHECK(first.marks() == second.marks());
    CHECK(first.processes_started() == second.processes_started());
  }
}

}  // namespace
}  // namespace es::test
