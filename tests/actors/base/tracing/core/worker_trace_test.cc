#include "actors/base/tracing/core/worker_trace.h"

#include <doctest/doctest.h>

TEST_SUITE("tracing/worker_trace") {
  using namespace es;
  using namespace es::actors;
  using namespace es::actors::tracing;
  using Answer = WorkerTrace::Answer;
  using Send = WorkerTrace::Send;

  struct Bench {
    Recorder recorder;
    WorkerTrace trace{recorder};
    Instant now{1000};

    Answer ask(std::uint64_t number, Version first = 0, Version end = 0, bool stop = false) {
      return trace.on({.trace = number, .first = first, .end = end, .stop = stop}, now);
    }
    // One step of 10 ns, with a slice of 4 ns.
    void step(Version step) {
      trace.step_begins(step, now);
      recorder.add({.kind = SpanKind::kSlice,
                    .lane = lane::kDevice,
                    .step = step,
                    .begin = now + Instant(1),
                    .duration = Instant(4)});
      trace.part_summed(now + Instant(6));
      trace.update_begins(now + Instant(8));
      now += Instant(10);
      trace.committed(step, now);
    }
    std::vector<Span> spans(const std::vector<TracePiece>& pieces) const {
      std::vector<Span> all;
      for (const TracePiece& piece : pieces)
        all.insert(all.end(), piece.spans.begin(), piece.spans.end());
      return all;
    }
  };

  TEST_CASE("a worker records from the request on and sends only the chosen steps") {
    Bench b;
    CHECK(b.ask(1) == Answer::kBegin);
    CHECK(b.trace.running() == 1);
    b.trace.began(1, {.pid = 7});
    b.step(3);
    b.step(4);
    CHECK(b.trace.take(b.now, Send::kIfDue).empty());  // the steps are not chosen
    CHECK(b.ask(1, 4, 6) == Answer::kNothing);
    b.step(5);
    const auto pieces = b.trace.take(b.now, Send::kIfDue);
    REQUIRE(pieces.size() == 1);
    CHECK(pieces[0].last);
    CHECK(pieces[0].about->pid == 7);
    for (const Span& span : pieces[0].spans) CHECK((span.step == 4 || span.step == 5));
    CHECK(pieces[0].spans.size() == 10);
    CHECK(b.trace.running() == 0);
    CHECK(!b.recorder.on());
  }

  TEST_CASE("steps that were over when they were chosen are sent at once") {
    Bench b;
    b.ask(1);
    for (Version step = 0; step < 9; ++step) b.step(step);
    b.ask(1, 2, 4);
    const auto pieces = b.trace.take(b.now, Send::kIfDue);
    REQUIRE(pieces.size() == 1);
    CHECK(pieces[0].last);
    CHECK(pieces[0].spans.size() == 10);
  }

  TEST_CASE("what belongs to no step is sent if it was while the steps ran") {
    Bench b;
    b.ask(1);
    const auto load = [&](Instant begin) {
      b.recorder.add({.kind = SpanKind::kLoadBatch,
                      .lane = lane::kFirstLoader,
                      .step = 99,
                      .begin = begin,
                      .duration = Instant(2)});
    };
    b.step(0);  // 1000 to 1010
    load(Instant(1001));
    b.ask(1, 1, 2);
    b.step(1);  // 1010 to 1020
    load(Instant(1012));
    load(Instant(1021));
    const std::vector<Span> spans = b.spans(b.trace.take(b.now, Send::kIfDue));
    int loads = 0;
    for (const Span& span : spans)
      if (span.kind == SpanKind::kLoadBatch) {
        ++loads;
        CHECK(span.begin == Instant(1012));
      }
    CHECK(loads == 1);
  }

  TEST_CASE("parts are sent after a while, and none is too large") {
    Bench b;
    b.ask(1);
    b.ask(1, 0, 1000);
    b.step(0);
    CHECK(b.trace.take(b.now, Send::kIfDue).empty());
    b.now += kPartInterval;
    b.step(1);
    const auto due = b.trace.take(b.now, Send::kIfDue);
    REQUIRE(due.size() == 1);
    CHECK(!due[0].last);
    for (std::size_t i = 0; i < 2 * kSpansOfPart + 5; ++i)
      b.recorder.add({.kind = SpanKind::kSlice, .step = 2});
    const auto many = b.trace.take(b.now, Send::kIfDue);
    REQUIRE(many.size() == 3);
    CHECK(many[0].spans.size() == kSpansOfPart);
    CHECK(many[2].spans.size() == 5);
  }

  TEST_CASE("a worker that may leave, or whose job is over, sends what it has") {
    Bench b;
    b.ask(1);
    b.ask(1, 0, 100);
    b.step(0);
    const auto leaves = b.trace.take(b.now, Send::kNow);
    REQUIRE(leaves.size() == 1);
    CHECK(!leaves[0].last);
    CHECK(b.trace.running() == 1);
    b.step(1);
    const auto over = b.trace.take(b.now, Send::kLast);
    REQUIRE(over.size() == 1);
    CHECK(over[0].last);
    CHECK(over[0].spans.size() == 5);
    CHECK(b.trace.running() == 0);
  }

  TEST_CASE("dropped spans are told") {
    Bench b;
    b.ask(1);
    b.recorder.start(2);
    b.step(0);
    b.ask(1, 0, 1);
    const auto pieces = b.trace.take(b.now, Send::kIfDue);
    REQUIRE(pieces.size() == 1);
    CHECK(pieces[0].dropped == 3);
  }

  TEST_CASE("a newer trace replaces an older one, and old messages change nothing") {
    Bench b;
    CHECK(b.ask(5) == Answer::kBegin);
    CHECK(b.ask(4) == Answer::kNothing);
    CHECK(b.trace.running() == 5);
    CHECK(b.ask(6) == Answer::kBegin);
    CHECK(b.trace.running() == 6);
    CHECK(b.ask(6, 0, 0, true) == Answer::kEnd);
    CHECK(b.ask(6) == Answer::kNothing);  // it is over
    CHECK(b.ask(6, 0, 0, true) == Answer::kNothing);
    CHECK(b.trace.running() == 0);
    CHECK(b.trace.take(b.now, Send::kLast).empty());
  }
}
