#pragma once
// Executor: runs a program for one EST mini-batch at a time, with the kernels of one class.
//
// Threads: one at a time. Memory: everything is allocated by the constructor; a run allocates
// nothing. Nothing of a run is kept for the next one but packed weights.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpu/aligned_buffer.h"
#include "gpu/batch.h"
#include "gpu/graph/memory_plan.h"
#include "gpu/graph/op_kernels.h"
#include "gpu/params/buckets.h"

namespace es::gpu {

struct LocalStep {
  const float* params = nullptr;  // flat layout
  const float* stats = nullptr;   // the EST's statistics of this version
  float* next_stats = nullptr;    // of the next version; other memory than stats
  float* grads = nullptr;         // flat layout; all of it is written, padding included
  Batch batch;
};

struct LocalStepResult {
  float loss = 0.0F;    // mean over the mini-batch
  bool finite = false;  // loss and next statistics (a fused ReLU would hide a NaN from the loss)
};

class Executor {
 public:
  using OnBucketReady = std::function<void(std::uint32_t bucket)>;

  Executor(Program program, const KernelTable& kernels, const std::vector<Bucket>& buckets);

  const Graph& graph() const { return program_.graph; }
  // graph().ops[0, forward_ops()) are the model's own operators.
  std::size_t forward_ops() const { return program_.first_backward; }
  const MemoryPlan& plan() const { return plan_; }
  std::int64_t workspace_floats() const { return workspace_.floats(); }
  std::int64_t packed_floats() const { return packed_.floats(); }

  // The parameters have changed: convolution weights are packed again when they are next needed.
  void invalidate_weights();

  // Forward and, when its result is finite, backward. on_bucket_ready is called with 0, 1, 2, ...
  // as soon as all gradients of the bucket (and of the buckets before it) are written; not at all
  // when the forward result is not finite.
  LocalStepResult run_local_step(const LocalStep& step, const OnBucketReady& on_bucket_ready);

  // Forward in evaluation mode. The results stay valid until the next run:
  // logits [batch][classes] and row_loss [batch].
  struct EvalOutput {
    const float* logits;
    const float* row_loss;
  };
  EvalOutput run_eval(const float* params, const float* stats, const Batch& batch);

  // Runs the forward pass of the step again and names the first operator with an output that is not
  // finite ("layer1.0.bn1 (batch_norm)"), or nothing when there is none. For error messages.
  std::string first_non_finite_op(const LocalStep& step);

 private:
  void plan_packing();
  void plan_buckets(const std::vector<Bucket>& buckets);
  void set_input(const float* images);
  void run_one(std::size_t op, RunMode mode, const RunBuffers& buffers);
  RunBuffers buffers_of(const LocalStep& step);
  bool outputs_finite(const Op& op) const;

  // Constant after construction.
  Program program_;
  const KernelTable& kernels_;
  MemoryPlan plan_;
  std::vector<std::size_t> bucket_ready_op_;  // by bucket: index of the operator that completes it
  std::vector<std::int64_t> packed_offset_;   // by operator; -1 = packs nothing
  std::vector<TensorId> input_tensors_;       // the input and its views

  AlignedBuffer arena_;
  AlignedBuffer workspace_;
  AlignedBuffer packed_;
  std::vector<bool> packed_valid_;  // by operator
  std::vector<float*> tensors_;     // address by tensor
};

}  // namespace es::gpu
