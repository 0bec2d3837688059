#include "actors/base/tracing/core/recorder.h"

#include <doctest/doctest.h>

#include <thread>

#include "actors/base/tracing/core/device_lane.h"
#include "actors/base/tracing/core/step_phases.h"
#include "actors/base/tracing/core/tick_times.h"

TEST_SUITE("tracing/recorder") {
  using namespace es::actors;
  using namespace es::actors::tracing;

  Span span(std::int64_t begin, std::int64_t duration, es::Version step = 0) {
    return {.kind = SpanKind::kSlice,
            .lane = lane::kDevice,
            .step = step,
            .begin = Instant(begin),
            .duration = Instant(duration)};
  }

  TEST_CASE("nothing is recorded before a start and after a stop") {
    Recorder recorder;
    CHECK(!recorder.on());
    recorder.add(span(1, 1));
    recorder.start();
    CHECK(recorder.on());
    recorder.add(span(2, 1));
    recorder.stop();
    recorder.add(span(3, 1));
    const Recorder::Taken taken = recorder.take();
    REQUIRE(taken.spans.size() == 1);
    CHECK(taken.spans[0].begin == Instant(2));
    CHECK(recorder.take().spans.empty());
  }

  TEST_CASE("spans beyond the limit are counted, also after some were taken") {
    Recorder recorder;
    recorder.start(3);
    for (int i = 0; i < 2; ++i) recorder.add(span(i, 1));
    CHECK(recorder.take().spans.size() == 2);
    for (int i = 0; i < 5; ++i) recorder.add(span(i, 1));
    const Recorder::Taken taken = recorder.take();
    CHECK(taken.spans.size() == 1);
    CHECK(taken.dropped == 4);
    recorder.start(3);
    CHECK(recorder.take().dropped == 0);
  }

  TEST_CASE("many spans at once count one by one") {
    Recorder recorder;
    recorder.start(5);
    const std::vector<Span> three{span(0, 1), span(1, 1), span(2, 1)};
    for (int i = 0; i < 3; ++i) recorder.add(three);
    const Recorder::Taken taken = recorder.take();
    REQUIRE(taken.spans.size() == 5);
    CHECK(taken.spans[4].begin == Instant(1));
    CHECK(taken.dropped == 4);
    recorder.add(std::span<const Span>());
    CHECK(recorder.take().dropped == 4);
  }

  TEST_CASE("the memory of what was taken is used again until the trace ends") {
    Recorder recorder;
    recorder.start();
    Recorder::Taken taken;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i <= round; ++i) recorder.add(span(i, 1));
      recorder.take(taken);
      CHECK(taken.spans.size() == static_cast<std::size_t>(round + 1));
    }
    taken.spans.reserve(1000);
    recorder.take(taken);
    recorder.add(span(7, 1));
    recorder.take(taken);
    REQUIRE(taken.spans.size() == 1);
    CHECK(taken.spans[0].begin == Instant(7));
    CHECK(taken.spans.capacity() >= 1000);
    recorder.stop();
    recorder.take(taken);
    CHECK(taken.spans.empty());
  }

  TEST_CASE("readings of a counter lie on the line between two readings of the clock") {
    const TickTimes times({Instant(1000), 500}, {Instant(2000), 2500});
    CHECK(times.at(500) == Instant(1000));
    CHECK(times.at(1500) == Instant(1500));
    CHECK(times.at(1503) == Instant(1501));
    CHECK(times.at(2500) == Instant(2000));
    // A counter that was read elsewhere gives no time outside of them.
    CHECK(times.at(0) == Instant(1000));
    CHECK(times.at(90'000) == Instant(2000));
    const TickTimes stands_still({Instant(1000), 500}, {Instant(2000), 500});
    CHECK(stands_still.at(501) == Instant(1000));
  }

  TEST_CASE("threads may record at the same time") {
    Recorder recorder;
    recorder.start(100'000);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) recorder.add(span(i, 1));
      });
    std::size_t taken = 0;
    for (int i = 0; i < 10; ++i) taken += recorder.take().spans.size();
    for (std::thread& thread : threads) thread.join();
    CHECK(taken + recorder.take().spans.size() == 4000);
  }

  TEST_CASE("a wait is interrupted by what the device does meanwhile") {
    Recorder recorder;
    recorder.start();
    DeviceLane device(recorder);
    device.wait_begins(5, Instant(10));
    device.add(SpanKind::kReduce, 5, 2, Instant(20), Instant(30));
    device.wait_ends(Instant(45));
    device.wait_ends(Instant(50));  // no wait
    device.wait_begins(5, Instant(60));
    device.forget_wait();
    device.add(SpanKind::kUpdate, 5, 0, Instant(70), Instant(80));
    const std::vector<Span> spans = recorder.take().spans;
    REQUIRE(spans.size() == 4);
    const std::pair<int, int> expected[] = {{10, 20}, {20, 30}, {30, 45}, {70, 80}};
    for (std::size_t i = 0; i < spans.size(); ++i) {
      CAPTURE(i);
      CHECK(spans[i].begin == Instant(expected[i].first));
      CHECK(spans[i].end() == Instant(expected[i].second));
      CHECK(spans[i].step == 5);
    }
    CHECK(spans[0].kind == SpanKind::kBatchWait);
    CHECK(spans[1].kind == SpanKind::kReduce);
    CHECK(spans[1].number == 2);
    CHECK(spans[2].kind == SpanKind::kBatchWait);
  }

  TEST_CASE("the phases of a step fill it without a gap") {
    StepPhases phases;
    CHECK(phases.committed(1, Instant(5)).empty());  // its begin was not seen
    phases.begin(2, Instant(10));
    phases.part_summed(Instant(14));
    phases.part_summed(Instant(20));
    phases.update_begins(Instant(26));
    const std::vector<Span> spans = phases.committed(2, Instant(33));
    REQUIRE(spans.size() == 4);
    CHECK(spans[0].kind == SpanKind::kStep);
    CHECK(spans[0].begin == Instant(10));
    CHECK(spans[0].end() == Instant(33));
    CHECK(spans[1].begin == spans[0].begin);
    CHECK(spans[1].end() == spans[2].begin);
    CHECK(spans[2].begin == Instant(20));
    CHECK(spans[2].end() == spans[3].begin);
    CHECK(spans[3].begin == Instant(26));
    CHECK(spans[3].end() == spans[0].end());
    phases.begin(3, Instant(40));
    phases.abandon();
    CHECK(phases.committed(3, Instant(50)).empty());
  }
}
