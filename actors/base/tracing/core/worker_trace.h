#pragma once
// WorkerTrace decides what the control half of a worker does for a trace: when recording begins and
// ends, and which of the recorded spans are sent to the head, and when.
//
// A worker records from the moment at which the head asks it, because the members of a job do not
// reach a step at the same time. The head then chooses steps that all members record, and the
// worker sends only what belongs to them.
#include <optional>
#include <vector>

#include "actors/base/tracing/core/recorder.h"
#include "actors/base/tracing/core/span.h"
#include "actors/base/tracing/core/step_phases.h"

namespace es::actors::tracing {

// Recorded spans are sent when there are this many, or after this time. So the spans of a worker
// that dies are there up to this time before its death.
inline constexpr std::size_t kSpansOfPart = 8192;
inline constexpr Instant kPartInterval = std::chrono::milliseconds(200);

// What the head asks (TraceWorker).
struct TraceRequest {
  std::uint64_t trace = 0;
  Version first = 0, end = 0;  // end = 0: not known yet
  bool stop = false;
  bool all_operators = false;
  bool peak = false;
};

// A part to send (TracePart).
struct TracePiece {
  std::uint64_t trace = 0;
  std::optional<TracedProcess> about{};
  std::vector<Span> spans{};
  std::uint64_t dropped = 0;
  bool last = false;
};

// Cuts spans into pieces of at most kSpansOfPart, at least one. The first has `about`.
std::vector<TracePiece> pieces_of(std::uint64_t trace, std::optional<TracedProcess> about,
                                  const std::vector<Span>& spans, std::uint64_t dropped);

class WorkerTrace {
 public:
  explicit WorkerTrace(Recorder& recorder) : recorder_(recorder) {}

  enum class Answer { kNothing, kBegin, kEnd };
  // kBegin: a new trace; the device half must begin to record. kEnd: it must stop.
  Answer on(const TraceRequest& request, Instant now);
  // The number of the running trace; 0: none runs.
  std::uint64_t running() const { return trace_; }
  bool all_operators() const { return all_operators_; }

  // The device half records everything from step `step` on.
  void began(std::uint64_t trace, TracedProcess about);

  // What happens in the control half. Ignored while no trace runs.
  void step_begins(Version step, Instant now);
  void part_summed(Instant now) { phases_.part_summed(now); }
  void update_begins(Instant now) { phases_.update_begins(now); }
  void committed(Version step, Instant now);
  void abandon() { phases_.abandon(); }
  void add(const Span& span) { recorder_.add(span); }

  // kNow: this worker may soon leave the placement. kLast: the job is over.
  enum class Send { kIfDue, kNow, kLast };
  // Returns what is to be sent now. Call it after every commit. After the last piece no trace runs.
  std::vector<TracePiece> take(Instant now, Send when);

 private:
  bool belongs(const Span& span) const;
  void note_times(const std::vector<Span>& spans);

  Recorder& recorder_;
  StepPhases phases_;
  std::uint64_t trace_ = 0;
  std::uint64_t newest_ = 0;  // the greatest number seen
  bool all_operators_ = false;
  Version first_ = 0, end_ = 0;
  Version reached_ = 0;                  // the version that the newest commit made
  std::optional<Instant> begin_, over_;  // when the first traced step began and the last one ended
  Instant sent_{};
  std::optional<TracedProcess> about_;
  Recorder::Taken taken_;  // only its memory is used again
};

}  // namespace es::actors::tracing
