#pragma once
// What one thread of a process did in a period of time, and the processes of a trace. All are plain
// values.
#include <cstdint>
#include <string>
#include <vector>

#include "actors/base/protocol/core/instant.h"
#include "proto/base/device_id.h"
#include "proto/base/ids.h"

namespace es::actors::tracing {

// The numbers are on the wire: they are only added and never change their meaning.
enum class SpanKind : std::uint16_t {
  // The device of a worker.
  kSlice = 1,      // local step of EST `number`
  kOperator = 2,   // operator `number` (TracedProcess::operators), inside of a slice
  kBatchWait = 3,  // no mini-batch was ready for the next slice
  kReduce = 4,     // sum of bucket `number` over the workers
  kUpdate = 5,     // update of the parameters, and their digest
  kEvaluate = 6,   // evaluation of version `step`
  kLoad = 7,       // version `step` is obtained in a round
  kAudit = 8,      // local step of EST `number` once more
  // The steps of a worker, as its control half sees them. The first contains the other three.
  kStep = 16,          // from its begin to its commit
  kLocalSteps = 17,    // until the last own part was summed
  kGradientWait = 18,  // until all buckets were there and, in an audited step, the audit has passed
  kCommit = 19,        // until the new version was whole
  // Gradients of bucket `number`, with `bytes`.
  kSendPart = 24,  // a part of the ranks, to worker `peer`, which sums the bucket
  kSendSum = 25,   // the sum, to worker `peer`
  kTakePart = 26,  // from worker `peer`
  kTakeSum = 27,   // from worker `peer`
  // A loader.
  kLoadBatch = 32,  // mini-batch of EST `number`
  // The head of the job.
  kRound = 40,   // change of the placement under generation `number`
  kLedger = 41,  // version `step` + 1 became known as committed, and its ledger line was written
};

// The track of a process on which a span is shown. Spans of one lane do not overlap, unless one
// contains the other one.
namespace lane {
inline constexpr std::uint16_t kSteps = 0, kExchanges = 1, kDevice = 2;
inline constexpr std::uint16_t kRounds = 8, kLedger = 9;
inline constexpr std::uint16_t kFirstLoader = 16;
}  // namespace lane

struct Span {
  SpanKind kind = SpanKind::kSlice;
  std::uint16_t lane = 0;
  std::uint32_t number = 0;
  Version step = 0;  // the step that makes version `step` + 1
  Instant begin{};
  Instant duration{};
  std::uint64_t peer = 0;
  std::uint64_t bytes = 0;
  Instant end() const { return begin + duration; }
  bool operator==(const Span&) const = default;
};

// Whether spans of this kind belong to one step of their worker. Others belong to a trace by their
// time.
bool belongs_to_step(SpanKind kind);

struct TracedOperator {
  std::string node{};  // module path, for example "layer1.0.conv1"
  std::string kind{};  // for example "conv2d weight gradient"
  bool backward = false;
  double flops = 0;  // multiplications and additions of its dense products
  double bytes = 0;  // bytes of the tensors and parameters that it reads or writes
  bool operator==(const TracedOperator&) const = default;
};

struct TracedMemory {
  std::string name{};      // for example "parameters"
  std::string lifetime{};  // for example "job"
  std::uint64_t bytes = 0;
  bool operator==(const TracedMemory&) const = default;
};

// What a worker says about itself.
struct TracedProcess {
  std::uint64_t pid = 0;
  std::vector<TracedOperator> operators{};  // empty if they are not traced
  std::vector<TracedMemory> memory{};
  double peak_gflops = 0;  // of all threads of the device together; 0: not measured
  bool operator==(const TracedProcess&) const = default;
};

// By how much the clock of another process is ahead.
struct ClockOffset {
  bool same_clock = false;
  Instant ahead{};
  Instant error{};  // largest difference of `ahead` from the truth
  bool operator==(const ClockOffset&) const = default;
};

// One process of a job in a trace.
struct ProcessTrace {
  Incarnation worker{};  // 0: the head
  DeviceId device{};     // of a worker
  ClockOffset clock{};
  std::string missing{};  // why spans are missing; empty: none are
  TracedProcess about{};
  std::vector<Span> spans{};  // in the clock of the process
  std::uint64_t dropped = 0;
};

struct Trace {
  std::string job{};
  Version first = 0, end = 0;  // the traced steps
  Instant zero{};              // clock of the head when the trace was requested
  std::uint64_t zero_unix_ms = 0;
  std::string note{};                     // why there are fewer steps than requested
  std::vector<ProcessTrace> processes{};  // the head first, then by incarnation
};

}  // namespace es::actors::tracing
