// The head of a job whose evaluations decide how it goes on.
#include "tests/actors/head/intra_job/core/head_bench.h"

namespace es::actors::intra_job {
namespace {

constexpr Version kEvery = 2;

Config deciding() {
  Config config = Bench::config("", 4);
  config.spec.eval_every = kEvery;
  config.spec.schedule = {.kind = "plateau", .patience = 0};
  config.checkpoint_directory = "/d/job";
  return config;
}

Config stopping() {
  Config config = deciding();
  config.spec.schedule = {};
  config.spec.stop = {.metric = "loss", .patience = 2};
  return config;
}

Config keeping_best() {
  Config config = deciding();
  config.spec.schedule = {};
  config.spec.checkpoint = {.directory = "/d", .keep_best = "accuracy"};
  return config;
}

// The value of every metric is that of totals().
Effects evaluated(Bench& bench, std::uint64_t from, Version version, int value) {
  return bench.say(Evaluated{bench.stamp(from), version, totals(value)});
}

// Two workers hold the version, and the first one has evaluated it.
Effects reach(Bench& bench, Version version, int value) {
  for (Version v = bench.core.ledger().through() + 1; v <= version; ++v)
    for (const std::uint64_t id : {1, 2}) bench.committed(id, v);
  return evaluated(bench, 1, version, value);
}

std::vector<Version> decided(const Effects& effects) {
  std::vector<Version> steps;
  for (const SendWorker& send : all<SendWorker>(effects))
    if (const auto* one = std::get_if<Decided>(send.message.get()); one && send.to.value == 1)
      steps.push_back(one->step);
  return steps;
}

std::uint32_t reductions(const std::string& decisions) {
  return decode_decisions(decisions).value().reductions;
}

Effects best_written(Bench& bench, const WriteCheckpoint& asked, Version version,
                     const std::string& error = "") {
  CheckpointWritten written{.stamp = bench.stamp(1),
                            .request = asked.request,
                            .path = asked.directory + "/step-" + std::to_string(version),
                            .version = version};
  written.error = error;
  return bench.say(written);
}

TEST_SUITE("actors/head/decided_steps") {
  TEST_CASE("an evaluation is stored, and then its decision is sent to all members") {
    Bench bench(deciding());
    bench.run_with(2);
    const Effects effects = reach(bench, 2, 5);
    CHECK(std::holds_alternative<EvaluationAdded>(effects.front()));
    CHECK(receivers<Decided>(effects) == Ids{1, 2});
    CHECK(decided(effects) == std::vector<Version>{2});
    CHECK(reductions(message<Decided>(effects).decisions) == 0);
    CHECK(decided(evaluated(bench, 1, 2, 5)).empty());
    CHECK(reductions(message<Decided>(reach(bench, 4, 6)).decisions) == 1);
    CHECK(bench.core.evaluations().last_reduction() == 4);
  }

  TEST_CASE("a job that decides nothing sends no decision") {
    Config config = deciding();
    config.spec.schedule = {};
    Bench bench(config);
    bench.run_with(2);
    CHECK(receivers<Decided>(reach(bench, 2, 5)).empty());
  }

  TEST_CASE("after a loss of all workers the decisions that are known are sent again") {
    Bench bench(deciding());
    bench.run_with(2);
    reach(bench, 2, 5);
    reach(bench, 4, 6);
    bench.exited(1);
    bench.exited(2);
    bench.hello(3);
    bench.hello(4);
    bench.report(3, std::nullopt);
    bench.report(4, std::nullopt);
    bench.ready(3, 0);
    const Effects go = bench.ready(4, 0);
    std::vector<Version> steps;
    for (const SendWorker& send : all<SendWorker>(go))
      if (const auto* one = std::get_if<Decided>(send.message.get()); one && send.to.value == 3)
        steps.push_back(one->step);
    CHECK(steps == std::vector<Version>{2, 4});
  }

  TEST_CASE("a restarted head tells the members what the stored evaluations have decided") {
    Bench before(deciding());
    before.run_with(2);
    LedgerHistory history;
    for (Version v = 1; v <= 5; ++v)
      history.lines.push_back({v, {0, 0, 0, 0}, {7, v}, std::nullopt});
    history.evaluations = {{2, totals(5)}, {4, totals(6)}};
    Bench bench(before.core.record(), history, deciding());
    bench.report(1, 5);
    const Install install = message<Install>(bench.report(2, 5));
    CHECK(reductions(install.decisions) == 1);
    bench.ready(1, 5);
    CHECK(decided(bench.ready(2, 5)).empty());
  }

  TEST_CASE("an evaluation ends the job with its version, after a round") {
    Bench bench(stopping());
    bench.run_with(2);
    CHECK(decided(reach(bench, 2, 5)) == std::vector<Version>{2});
    CHECK(decided(reach(bench, 4, 5)) == std::vector<Version>{4});
    const Effects effects = reach(bench, 6, 5);
    CHECK(receivers<Decided>(effects).empty());
    CHECK(receivers<Prepare>(effects) == Ids{1, 2});
    CHECK(bench.core.last_version() == 6);
    bench.report(1, 6);
    CHECK(message<Install>(bench.report(2, 6)).last_version == 6);
    bench.ready(1, 6);
    CHECK(receivers<Release>(bench.ready(2, 6)) == Ids{1, 2});
    CHECK(bench.core.state() == JobState::kFinished);
  }

  TEST_CASE("a restarted head ends the job with the version that the stored evaluations name") {
    Bench before(stopping());
    before.run_with(2);
    LedgerHistory history;
    for (Version v = 1; v <= 6; ++v)
      history.lines.push_back({v, {0, 0, 0, 0}, {7, v}, std::nullopt});
    history.final_state = Digest{1, 2};
    history.evaluations = {{2, totals(5)}, {4, totals(5)}, {6, totals(5)}};
    Bench bench(before.core.record(), history, stopping());
    bench.report(1, 6);
    CHECK(message<Install>(bench.report(2, 6)).last_version == 6);
    bench.ready(1, 6);
    bench.ready(2, 6);
    CHECK(bench.core.state() == JobState::kFinished);
    CHECK(bench.core.ledger().last()->state == Digest{1, 2});
  }

  TEST_CASE("a step waits until the checkpoint of the best version is in the journal") {
    Bench bench(keeping_best());
    bench.run_with(2);
    const Effects effects = reach(bench, 2, 5);
    CHECK(decided(effects).empty());
    const WriteCheckpoint asked = message<WriteCheckpoint>(effects);
    CHECK(asked.directory == "/d/job/best");
    CHECK(asked.at == 2);
    const Effects written = best_written(bench, asked, 2);
    CHECK(all<SaveRecord>(written).at(0).record.best->path == "/d/job/best/step-2");
    CHECK(decided(written) == std::vector<Version>{2});
    // No better one: nothing is written.
    const Effects worse = reach(bench, 4, 4);
    CHECK(receivers<WriteCheckpoint>(worse).empty());
    CHECK(decided(worse) == std::vector<Version>{4});
    // A better one takes its place when it is complete.
    const WriteCheckpoint better = message<WriteCheckpoint>(reach(bench, 6, 6));
    CHECK(bench.core.record().best->version == 2);
    const Effects replaced = best_written(bench, better, 6);
    CHECK(bench.core.record().best->version == 6);
    const auto removed = all<RemoveCheckpoints>(replaced);
    REQUIRE(removed.size() == 1);
    CHECK(removed[0].states.at(0).path == "/d/job/best/step-2");
    CHECK(bench.core.record().checkpoints.size() == 1);
  }

  TEST_CASE("a writer that is lost has another member write the best version") {
    Bench bench(keeping_best());
    bench.run_with(2);
    const WriteCheckpoint first = message<WriteCheckpoint>(reach(bench, 2, 5));
    bench.exited(1);
    bench.report(2, 2);
    const Effects go = bench.ready(2, 2);
    CHECK(receivers<Decided>(go).empty());
    const WriteCheckpoint again = message<WriteCheckpoint>(go);
    CHECK(again.at == 2);
    CheckpointWritten written{.stamp = bench.stamp(2),
                              .request = again.request,
                              .path = "/d/job/best/step-2",
                              .version = 2};
    CHECK(receivers<Decided>(bench.say(written)) == Ids{2});
  }

  TEST_CASE("if the best version cannot be written, the job goes on and the one before stays") {
    Bench bench(keeping_best());
    bench.run_with(2);
    best_written(bench, message<WriteCheckpoint>(reach(bench, 2, 5)), 2);
    const Effects effects =
        best_written(bench, message<WriteCheckpoint>(reach(bench, 4, 6)), 4, "disk full");
    CHECK(decided(effects) == std::vector<Version>{4});
    CHECK(bench.core.record().best->version == 2);
    CHECK(bench.core.warning().find("version 4") != std::string::npos);
    CHECK(bench.core.warning().find("disk full") != std::string::npos);
  }

  TEST_CASE("the job ends when the checkpoint of its best last version is kept") {
    Config config = keeping_best();
    config.last_version = 2;
    Bench bench(config);
    bench.run_with(2);
    const WriteCheckpoint asked = message<WriteCheckpoint>(reach(bench, 2, 5));
    CHECK(bench.core.state() == JobState::kRunning);
    best_written(bench, asked, 2);
    CHECK(bench.core.state() == JobState::kFinished);
  }
}

}  // namespace
}  // namespace es::actors::intra_job
