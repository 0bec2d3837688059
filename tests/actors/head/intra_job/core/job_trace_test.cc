#include "actors/head/intra_job/core/job_trace.h"

#include <doctest/doctest.h>

TEST_SUITE("intra_job/job_trace") {
  using namespace es;
  using namespace es::actors;
  using namespace es::actors::intra_job;
  using tracing::ClockExchange;

  JobTrace trace_of(std::uint32_t steps, Version last = 100) {
    return JobTrace({.number = 9, .steps = steps, .last_version = last, .now = Instant(1)});
  }

  std::vector<TraceMember> members(std::initializer_list<std::uint64_t> workers) {
    std::vector<TraceMember> list;
    for (const std::uint64_t worker : workers)
      list.push_back({{worker}, {"n", {"cpu-avx2"}, static_cast<std::uint32_t>(worker)}, true});
    return list;
  }

  std::vector<std::uint64_t> receivers(const TraceSends& sends) {
    std::vector<std::uint64_t> list;
    for (const TraceSend& send : sends) list.push_back(send.to.value);
    return list;
  }

  using Ids = std::vector<std::uint64_t>;

  TraceSends begins(JobTrace & trace, std::uint64_t worker, Version step) {
    return trace.answered({worker}, {}, TraceBegan{step});
  }

  TEST_CASE("the first step is one that all members record") {
    JobTrace trace = trace_of(5);
    const TraceSends asked = trace.members(members({1, 2}), Instant(1));
    CHECK(receivers(asked) == Ids{1, 2});
    CHECK(asked[0].request.trace == 9);
    CHECK(asked[0].request.end == 0);
    CHECK(begins(trace, 1, 30).empty());
    const TraceSends chosen = begins(trace, 2, 33);
    CHECK(receivers(chosen) == Ids{1, 2});
    CHECK(chosen[0].request.first == 33);
    CHECK(chosen[0].request.end == 38);
    trace.last_part({1});
    CHECK(!trace.finished());
    trace.last_part({2});
    CHECK(trace.finished());
    const tracing::Trace summary = trace.summary();
    CHECK(summary.first == 33);
    CHECK(summary.end == 38);
    CHECK(summary.note.empty());
    CHECK(summary.processes.size() == 2);
    CHECK(summary.processes[0].missing.empty());
  }

  TEST_CASE("clocks are asked a few times") {
    JobTrace trace = trace_of(5);
    trace.members(members({1}), Instant(1));
    const ClockExchange exchange{Instant(10), Instant(12), Instant(13), Instant(15)};
    for (int i = 1; i < kClockExchanges; ++i)
      CHECK(receivers(trace.answered({1}, exchange, {})) == Ids{1});
    CHECK(trace.answered({1}, exchange, {}).empty());
  }

  TEST_CASE("a trace near the end of a job has fewer steps, and says so") {
    JobTrace trace = trace_of(50, 40);
    trace.members(members({1}), Instant(1));
    const TraceSends chosen = begins(trace, 1, 38);
    REQUIRE(chosen.size() == 1);
    CHECK(chosen[0].request.end == 40);
    trace.last_part({1});
    CHECK(trace.finished());
    CHECK(trace.summary().note == "the job has no more steps");
  }

  TEST_CASE("a worker that dies does not hold the others up, and is named") {
    JobTrace trace = trace_of(5);
    trace.members(members({1, 2}), Instant(1));
    begins(trace, 1, 3);
    // Before the steps are chosen: the remaining worker decides them.
    const TraceSends chosen = trace.gone({2}, "it was ended by signal 9 (Killed)");
    CHECK(receivers(chosen) == Ids{1});
    trace.last_part({1});
    CHECK(trace.finished());
    CHECK(trace.summary().processes[1].missing == "it was ended by signal 9 (Killed)");
  }

  TEST_CASE("a worker that joins is asked with the steps, and waited for") {
    JobTrace trace = trace_of(5);
    trace.members(members({1, 2}), Instant(1));
    begins(trace, 1, 3);
    begins(trace, 2, 3);
    trace.gone({2}, "");  // the job has released it
    const TraceSends asked = trace.members(members({1, 3}), Instant(2));
    CHECK(receivers(asked) == Ids{3});
    CHECK(asked[0].request.end == 8);
    trace.last_part({1});
    CHECK(!trace.finished());
    trace.last_part({3});
    CHECK(trace.finished());
    CHECK(trace.summary().processes[1].missing.empty());
  }

  TEST_CASE("if all workers are lost, the trace goes on with the next ones") {
    JobTrace trace = trace_of(5);
    trace.members(members({1}), Instant(1));
    begins(trace, 1, 3);
    trace.gone({1}, "its node is lost");
    CHECK(!trace.finished());
    trace.members(members({2}), Instant(2));
    trace.last_part({2});
    CHECK(trace.finished());
  }

  TEST_CASE("the end of the job ends the trace") {
    JobTrace trace = trace_of(5);
    trace.members(members({1}), Instant(1));
    trace.no_workers("the job is cancelled");
    CHECK(trace.finished());
    const tracing::Trace summary = trace.summary();
    CHECK(summary.note == "the job is cancelled");
    CHECK(summary.first == summary.end);
    CHECK(summary.processes[0].missing == "the job is cancelled");
  }

  TEST_CASE("the last parts of workers are waited for when the job is over") {
    JobTrace trace = trace_of(5, 10);
    trace.members(members({1, 2, 3}), Instant(1));
    for (const std::uint64_t worker : {1, 2, 3}) begins(trace, worker, 7);
    trace.last_part({1});
    trace.job_ends("the job is finished");
    CHECK(!trace.finished());
    trace.last_part({2});
    CHECK(!trace.finished());
    trace.gone({3}, "");  // it has ended as it should, without its last part
    CHECK(trace.finished());
    const tracing::Trace summary = trace.summary();
    CHECK(summary.note == "the job has no more steps");
    CHECK(summary.processes[0].missing.empty());
    CHECK(summary.processes[1].missing.empty());
    CHECK(summary.processes[2].missing == "the job is finished");
  }

  TEST_CASE("a job that is cancelled without a whole trace says so when its workers have ended") {
    JobTrace trace = trace_of(5);
    trace.members(members({1, 2}), Instant(1));
    begins(trace, 1, 3);
    trace.job_ends("the job is cancelled");
    trace.gone({1}, "");
    CHECK(!trace.finished());
    trace.no_workers("the job is cancelled");
    CHECK(trace.finished());
    CHECK(trace.summary().note == "the job is cancelled");
    CHECK(trace.summary().processes[0].missing == "the job is cancelled");
  }

  TEST_CASE("a job that ends before the steps are chosen has those that all recorded") {
    JobTrace trace = trace_of(5, 10);
    trace.members(members({1, 2}), Instant(1));
    begins(trace, 1, 8);
    trace.last_part({1});
    trace.last_part({2});
    CHECK(trace.finished());
    CHECK(trace.summary().first == 8);
    CHECK(trace.summary().end == 10);
  }

  TEST_CASE("a worker that does not answer is left out after a while") {
    JobTrace trace = trace_of(5);
    trace.members(members({1, 2}), Instant(1));
    begins(trace, 1, 3);
    REQUIRE(trace.next_tick());
    CHECK(trace.tick(Instant(1) + kTraceAnswerTimeout - Instant(1)).empty());
    CHECK(receivers(trace.tick(*trace.next_tick())) == Ids{1});
    CHECK(!trace.next_tick());
    CHECK(trace.summary().processes[1].missing == "it did not answer");
  }

  TEST_CASE("a trace to which no worker answers is over") {
    JobTrace trace = trace_of(5);
    trace.members(members({1}), Instant(1));
    CHECK(trace.tick(Instant(1) + kTraceAnswerTimeout).empty());
    CHECK(trace.finished());
    CHECK(trace.summary().note == "no worker answered");
  }

  TEST_CASE("a client that goes away stops all workers") {
    JobTrace trace = trace_of(5);
    trace.members(members({1, 2}), Instant(1));
    const TraceSends stops = trace.stop();
    CHECK(receivers(stops) == Ids{1, 2});
    CHECK(stops[0].request.stop);
    CHECK(trace.finished());
  }

  TEST_CASE("the head shows its rounds, and the ledger lines of the traced steps") {
    JobTrace trace = trace_of(1);
    trace.members(members({1}), Instant(1));
    begins(trace, 1, 7);
    trace.round_begins({4}, Instant(10));
    trace.round_begins({4}, Instant(11));
    trace.round_begins({5}, Instant(20));  // replaces the first
    trace.round_ends({4}, Instant(25));
    trace.round_ends({5}, Instant(30));
    trace.ledger_line(7, Instant(40), Instant(41));  // before the trace
    trace.ledger_line(8, Instant(40), Instant(45));
    const std::vector<tracing::Span> spans = trace.head().spans;
    REQUIRE(spans.size() == 3);
    CHECK(spans[0].begin == Instant(10));
    CHECK(spans[0].end() == Instant(20));
    CHECK(spans[1].number == 5);
    CHECK(spans[1].end() == Instant(30));
    CHECK(spans[2].kind == tracing::SpanKind::kLedger);
    CHECK(spans[2].step == 7);
    CHECK(spans[2].begin == Instant(41));  // spans of a lane do not overlap
  }
}
