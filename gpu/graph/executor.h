#pragma once
// Executor: runs a program for one EST mini-batch at a time, with the kernels of one class.
//
// Threads: one at a time; operators may spread over the helpers of `parallel`. Memory: everything
// is allocated by the constructor; a run allocates nothing, and nothing of a run is kept for the
// next.
//
// Values that are not finite: every operator is watched through the processor's floating-point
// flags (float_flags.h), and only one that raised them has its outputs read again. That finds the
// first operator whose result is infinite or NaN provided that what enters the step is finite; the
// caller sees to that for parameters, statistics and samples.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpu/aligned_buffer.h"
#include "gpu/batch.h"
#include "gpu/graph/memory_plan.h"
#include "gpu/graph/op_kernels.h"
#include "gpu/graph/vendor_ops.h"
#include "gpu/parallel.h"
#include "gpu/params/buckets.h"

namespace es::gpu {

struct LocalStep {
  const float* params = nullptr;  // flat layout
  const float* stats = nullptr;   // the EST's statistics of this version
  float* next_stats = nullptr;    // of the next version; other memory than stats
  float* grads = nullptr;         // flat layout; all of it is written, padding included
  Batch batch;
  DropoutKey key;
};

// The first result of a step that is not finite.
struct Fault {
  const Op* op = nullptr;    // nullptr: none
  ParamId param = kNoParam;  // whose gradient it is; kNoParam: an output
};

struct LocalStepResult {
  float loss = 0.0F;  // mean over the mini-batch
  Fault fault;
};

// Sees every operator of a run; for profiles.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void begin_op(const Op& op) = 0;
  virtual void end_op(const Op& op) = 0;
};

class Executor {
 public:
  using OnBucketReady = std::function<void(std::uint32_t bucket)>;

  // `kernels` and `parallel` outlive the executor; `vendor` runs the operators that it has.
  Executor(Program program, const KernelTable& kernels, const std::vector<Bucket>& buckets,
           Parallel& parallel, VendorOps vendor = {});

  const Graph& graph() const { return program_.graph; }
  // graph().ops[0, forward_ops()) are the model's own operators.
  std::size_t forward_ops() const { return program_.first_backward; }
  const MemoryPlan& plan() const { return plan_; }
  std::int64_t workspace_floats() const { return workspace_.floats(); }
  const VendorOps& vendor() const { return vendor_; }
  // nullptr: nobody.
  void set_observer(OpObserver* observer) { observer_ = observer; }

  // Forward and backward; stops at a fault. on_bucket_ready is called with 0, 1, 2, ... as soon as
  // all gradients of the bucket (and of the buckets before it) are written and known to be finite.
  LocalStepResult run_local_step(const LocalStep& step, const OnBucketReady& on_bucket_ready);

  // Forward in evaluation mode. The results stay valid until the next run.
  void run_eval(const float* params, const float* stats, const Batch& batch);
  // A tensor that the last run left: graph().outputs, row_loss, mean_loss after run_eval().
  std::span<const float> values(TensorId t) const;

 private:
  enum class Check { kFlagged, kAll };
  void plan_buckets(const std::vector<Bucket>& buckets);
  void bind_inputs(const Batch& batch);
  RunBuffers buffers_of(const LocalStep& step);
  void run_one(std::size_t op, RunMode mode, const RunBuffers& buffers);
  Fault run_forward(const LocalStep& step, Check check);
  Fault fault_of(const Op& op, const LocalStep& step) const;
  bool all_finite(const float* values, std::int64_t count) const;

  // Constant after construction.
  Program program_;
  const KernelTable& kernels_;
  Parallel& parallel_;
  VendorOps vendor_;
  MemoryPlan plan_;
  std::vector<std::size_t> bucket_ready_op_;  // by bucket: index of the operator that completes it
  std::vector<TensorId> outside_views_;       // tensors whose memory is an input's

  AlignedBuffer arena_;
  AlignedBuffer workspace_;
  std::vector<float*> tensors_;  // address by tensor
  OpObserver* observer_ = nullptr;
};

}  // namespace es::gpu
