#include "actors/head/intra_job/core/stage_clock.h"

#include <doctest/doctest.h>

namespace es::actors::intra_job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_SUITE("actors/head/intra_job/stage_clock") {
  TEST_CASE("training and pauses of two placements are kept apart") {
    StageClock clock;
    clock.pause(seconds(1));  // Before the first start there is no pause.
    clock.go(seconds(10), 0, "a:2");
    clock.step(seconds(20));
    clock.step(seconds(30));
    clock.pause(seconds(30));
    clock.pause(seconds(31));  // The second member pauses.
    clock.go(seconds(33), 1, "a:1");
    clock.step(seconds(40));
    const std::vector<StageReport> reports = clock.reports(seconds(40));
    REQUIRE(reports.size() == 2);
    CHECK(reports[0].placement == "a:2");
    CHECK(reports[0].steps == 2);
    CHECK(reports[0].training == seconds(20));
    CHECK(reports[0].rescale == seconds(0));
    CHECK(reports[1].steps == 1);
    CHECK(reports[1].training == seconds(7));
    CHECK(reports[1].rescale == seconds(3));
  }

  TEST_CASE("a lost worker that is replaced does not open a new report") {
    StageClock clock;
    clock.go(seconds(0), 0, "a:2");
    clock.pause(seconds(5));
    clock.go(seconds(6), 0, "a:2");
    clock.pause(seconds(10));
    const std::vector<StageReport> reports = clock.reports(seconds(20));
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].training == seconds(9));
    CHECK(reports[0].rescale == seconds(1));
  }

  TEST_CASE("every pause has a cause, and ends a span of training on named devices") {
    StageClock clock;
    clock.go(seconds(10), 0, "a:2", 0, {"n/a#0", "n/a#1"});
    clock.step(seconds(11));
    clock.step(seconds(12));
    clock.pause(seconds(12));
    clock.pause(seconds(13), PauseCause::kWorkerLost);  // A worker is lost during the change.
    clock.pause(seconds(13), PauseCause::kLink);        // This matters less.
    clock.go(seconds(15), 0, "a:1", 2, {"n/a#1"});
    clock.step(seconds(20));
    clock.pause(seconds(20), PauseCause::kSuspended);
    clock.go(seconds(30), 0, "a:1", 3, {"n/a#0"});
    const std::vector<SpanReport> spans = clock.spans(seconds(34));
    REQUIRE(spans.size() == 3);
    CHECK(spans[0].begin == seconds(0));
    CHECK(spans[0].training == seconds(2));
    CHECK(spans[0].pause == seconds(0));
    CHECK(spans[0].steps == 2);
    CHECK(spans[1].begin == seconds(5));
    CHECK(spans[1].pause == seconds(3));
    CHECK(spans[1].cause == PauseCause::kWorkerLost);
    CHECK(spans[1].first == 2);
    CHECK(spans[1].devices == std::vector<std::string>{"n/a#1"});
    CHECK(spans[2].training == seconds(4));
    CHECK(spans[2].cause == PauseCause::kSuspended);
    const auto of = [&](PauseCause cause) {
      return clock.pauses().at(static_cast<std::size_t>(cause));
    };
    CHECK(of(PauseCause::kWorkerLost).count == 1);
    CHECK(of(PauseCause::kWorkerLost).duration == seconds(3));
    CHECK(of(PauseCause::kSuspended).duration == seconds(10));
    CHECK(of(PauseCause::kChange).count == 0);
  }

  TEST_CASE("old spans and points of the progress are given up, not the newest") {
    StageClock clock;
    constexpr int kTurns = 3000;
    for (int i = 0; i < kTurns; ++i) {
      clock.go(seconds(2 * i), 0, "a:1", static_cast<Version>(i), {});
      clock.step(seconds(2 * i + 1));
      clock.pause(seconds(2 * i + 1));
    }
    const auto spans = clock.spans(seconds(2 * kTurns));
    CHECK(spans.size() == StageClock::kSpansMax);
    CHECK(spans.back().first == kTurns - 1);
    CHECK(clock.pauses().front().count == kTurns - 1);
    const std::vector<ProgressPoint>& progress = clock.progress();
    CHECK(progress.size() <= StageClock::kProgressMax + 1);
    CHECK(progress.size() > StageClock::kProgressMax / 4);
    CHECK(progress.back().steps == kTurns);
    CHECK(progress.back().at == seconds(2 * kTurns - 1));
    for (std::size_t i = 1; i < progress.size(); ++i) {
      CHECK(progress[i].at > progress[i - 1].at);
      CHECK(progress[i].steps > progress[i - 1].steps);
    }
  }

  TEST_CASE("equal placements of two stages are two reports") {
    StageClock clock;
    clock.go(seconds(0), 0, "a:2");
    clock.go(seconds(1), 1, "a:2");
    CHECK(clock.reports(seconds(2)).size() == 2);
  }

  TEST_CASE("the speed is that of the last seconds, not of all the time") {
    StageClock clock;
    CHECK(clock.steps_per_second(seconds(1)) == 0);
    clock.go(seconds(0), 0, "a:2");
    CHECK(clock.steps_per_second(seconds(1)) == 0);
    for (int i = 1; i <= 1000; ++i) clock.step(milliseconds(100 * i));  // Ten steps a second.
    CHECK(clock.steps_per_second(seconds(100)) == doctest::Approx(10));
    for (int i = 1; i <= 40; ++i) clock.step(seconds(100) + milliseconds(500 * i));
    CHECK(clock.steps_per_second(seconds(120)) == doctest::Approx(2));
    CHECK(clock.steps_per_second(milliseconds(120'400)) == doctest::Approx(2).epsilon(0.03));
  }

  TEST_CASE("steps of many seconds have a speed from the first one on, and a late step lowers it") {
    StageClock clock;
    clock.go(seconds(0), 0, "a:2");
    clock.step(seconds(50));
    CHECK(clock.steps_per_second(seconds(50)) == doctest::Approx(1.0 / 50));
    clock.step(seconds(75));
    CHECK(clock.steps_per_second(seconds(75)) == doctest::Approx(1.0 / 25));
    CHECK(clock.steps_per_second(seconds(100)) == doctest::Approx(1.0 / 25));
    CHECK(clock.steps_per_second(seconds(125)) == doctest::Approx(1.0 / 50));
  }

  TEST_CASE("without steps there is no speed, and after a pause it is measured anew") {
    StageClock clock;
    clock.go(seconds(0), 0, "a:2");
    for (int i = 1; i <= 10; ++i) clock.step(seconds(i));
    clock.pause(seconds(10));
    CHECK(clock.steps_per_second(seconds(10)) == 0);
    CHECK(clock.steps_per_second(seconds(1000)) == 0);
    clock.go(seconds(2000), 0, "a:2");
    CHECK(clock.steps_per_second(seconds(2000)) == 0);
    clock.step(seconds(2004));
    CHECK(clock.steps_per_second(seconds(2004)) == doctest::Approx(0.25));
  }

  TEST_CASE("the time of a step does not include the pause before it") {
    StageClock clock;
    CHECK(clock.step_times().counts.empty());
    clock.go(seconds(0), 0, "a:2");
    clock.step(milliseconds(40));
    clock.step(milliseconds(90));
    clock.pause(seconds(1));
    clock.go(seconds(100), 0, "a:1");
    clock.step(milliseconds(100'040));
    const StepTimes& times = clock.step_times();
    REQUIRE(times.counts.size() == kStepTimeBounds.size() + 1);
    CHECK(kStepTimeBounds[5] == 0.05);
    CHECK(times.counts[5] == 3);
    CHECK(times.seconds == doctest::Approx(0.13));
  }

  TEST_CASE("a thousand steps a second are measured as exactly as one") {
    StageClock clock;
    clock.go(seconds(0), 0, "a:2");
    for (int i = 1; i <= 60'000; ++i) clock.step(milliseconds(i));
    CHECK(clock.steps_per_second(seconds(60)) == doctest::Approx(1000));
  }
}

}  // namespace
}  // namespace es::actors::intra_job
