#pragma once
// OperatorRecorder adds the operators of local steps to the trace of this process, and describes
// them and the memory of the engine. Only the device thread uses it.
//
// Cost: two readings of the counter of the processor for each operator. At the end of a local step
// they become times, and all spans are added together.
#include <vector>

#include "actors/base/tracing/clock/trace_clock.h"
#include "actors/base/tracing/core/recorder.h"
#include "gpu/engine/engine.h"

namespace es::actors::worker {

class OperatorRecorder final : public gpu::OpObserver {
 public:
  // Both must outlive this object.
  OperatorRecorder(const gpu::Engine& engine, tracing::Recorder& recorder)
      : engine_(engine), recorder_(recorder) {}

  // The operators until end_slice() belong to a local step of this step, which begins now. Returns
  // the time.
  Instant begin_slice(Version step);
  // Adds them. Returns the end of the local step.
  Instant end_slice();
  void begin_op(const gpu::Op& op) override;
  void end_op(const gpu::Op& op) override;

 private:
  struct Run {
    std::uint32_t number = 0;
    std::uint64_t begin = 0, end = 0;  // ticks
  };

  std::uint32_t number_of(const gpu::Op& op) const;

  const gpu::Engine& engine_;
  tracing::Recorder& recorder_;
  Version step_ = 0;
  bool in_slice_ = false;  // evaluations run operators too
  tracing::ClockReading slice_;
  std::uint64_t op_begin_ = 0;
  // Of one slice. They keep their memory, so that a step allocates nothing.
  std::vector<Run> runs_;
  std::vector<tracing::Span> spans_;
};

// The operators of the local steps of all programs of the model, in the order of their numbers.
std::vector<tracing::TracedOperator> traced_operators(const gpu::Engine& engine);

// What this process holds in memory for the job, by purpose. At most `gradient_buffers` exist at
// the same time, `ests` contexts are held, and mini-batches have `batch_bytes`.
std::vector<tracing::TracedMemory> traced_memory(const gpu::Engine& engine,
                                                 std::uint32_t gradient_buffers, std::uint32_t ests,
                                                 std::uint64_t batch_bytes);

// The largest number of fp32 operations per nanosecond of the device. On a CPU it is measured, for
// all threads together, which takes a few milliseconds; on a GPU it is what the driver reports; 0:
// unknown.
double peak_of(const gpu::Engine& engine);

}  // namespace es::actors::worker
