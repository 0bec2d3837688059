#pragma once
// JobTrace runs one trace of a job: it asks the workers to record, chooses the steps, and knows
// when all spans are there. The spans pass through the head to the client and are not kept.
//
// 1. Every member is asked to record, and answers at once. The answers tell how far its clock is
//    from that of the head; it is asked a few times more for this.
// 2. Every member says from which step on it records everything. The first traced step is the
//    greatest of these, and all members are told the steps.
// 3. A worker is settled when it has sent its last part, or will send nothing more. Workers that
//    join meanwhile are asked too. The trace is over when all workers are settled.
//
// The core is pure: events and times go in, requests to workers come out.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/tracing/core/clock_alignment.h"
#include "actors/base/tracing/core/span.h"
#include "actors/base/tracing/core/worker_trace.h"
#include "proto/base/job_record.h"

namespace es::actors::intra_job {

// More steps do not fit into the memory of a trace for most jobs.
inline constexpr std::uint32_t kTracedStepsMax = 1000;
// A worker that has not answered the first request after this time does not take part.
inline constexpr Instant kTraceAnswerTimeout = std::chrono::seconds(10);
inline constexpr int kClockExchanges = 8;

struct TraceOptions {
  std::uint64_t number = 0;
  std::uint32_t steps = 1;
  Version last_version = 0;  // of the job
  bool all_operators = false;
  bool peak = false;
  Instant now{};
  std::uint64_t unix_ms = 0;
};

struct TraceMember {
  Incarnation worker{};
  DeviceId device{};
  bool same_machine = false;  // as the head
};

// Send this request to a worker now, with the time of sending.
struct TraceSend {
  Incarnation to{};
  tracing::TraceRequest request{};
};
using TraceSends = std::vector<TraceSend>;

struct TraceBegan {
  Version step = 0;
};

class JobTrace {
 public:
  explicit JobTrace(const TraceOptions& options) : options_(options) {}

  std::uint64_t number() const { return options_.number; }
  // The members of a new placement have started.
  TraceSends members(const std::vector<TraceMember>& members, Instant now);
  // `exchange`: unless the worker says by itself that it has begun.
  TraceSends answered(Incarnation worker, const std::optional<tracing::ClockExchange>& exchange,
                      std::optional<TraceBegan> began);
  // A part of a worker has been passed on. Returns whether it belongs to this trace.
  bool takes_part(Incarnation worker) const { return workers_.contains(worker); }
  void last_part(Incarnation worker);
  // Its process has ended. `why` is empty if the job has released it.
  TraceSends gone(Incarnation worker, const std::string& why);
  // The job is over. Its workers may still send their last parts; they are waited for until their
  // processes have ended.
  void job_ends(const std::string& why);
  // The job waits without workers, or the last one has ended: no more spans will come soon.
  void no_workers(const std::string& why);
  TraceSends stop();
  std::optional<Instant> next_tick() const;
  TraceSends tick(Instant now);

  bool finished() const { return finished_; }
  bool has_begun() const { return !workers_.empty(); }

  // What the head itself does.
  void round_begins(Generation generation, Instant now);
  void round_ends(Generation generation, Instant now);
  void ledger_line(Version version, Instant begin, Instant end);
  // The spans of the head, as its process.
  tracing::ProcessTrace head() const;
  // The rest of the trace, without spans. REQUIRES: finished().
  tracing::Trace summary() const;

 private:
  enum class State { kAsked, kAnswers, kRecords, kSettled };
  struct Worker {
    DeviceId device;
    tracing::ClockAlignment clock;
    State state = State::kAsked;
    Instant asked{};
    Version step = 0;  // from which it records everything
    int exchanges = 0;
    bool sent_all = false;
    std::string missing{};
  };
  tracing::TraceRequest request() const;
  TraceSends choose_steps();
  void settle(Worker& worker, const std::string& missing);
  void finish_if_settled();
  void add(const tracing::Span& span);

  TraceOptions options_;
  std::map<Incarnation, Worker> workers_;
  Version first_ = 0, end_ = 0;
  std::string note_;
  std::string over_;  // why no more steps will come; empty: they will
  bool finished_ = false;

  std::vector<tracing::Span> spans_;
  std::uint64_t dropped_ = 0;
  std::optional<std::pair<Generation, Instant>> round_;
  Instant ledger_end_{};
};

}  // namespace es::actors::intra_job
