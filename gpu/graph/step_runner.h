#pragma once
// StepRunner: runs a program for one EST mini-batch at a time, on one device. Executor (executor.h)
// is the CPU's, cuda::DeviceExecutor the GPU's; both run the same program with the same memory
// plan.
//
// Threads: one at a time. Memory: everything is allocated at the start; a run allocates nothing,
// and nothing of a run is kept for the next. Pointers are to host memory.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpu/batch.h"
#include "gpu/graph/differentiate.h"
#include "gpu/graph/memory_plan.h"
#include "gpu/params/buckets.h"
#include "proto/base/result.h"

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

class StepRunner {
 public:
  using OnBucketReady = std::function<void(std::uint32_t bucket)>;

  virtual ~StepRunner() = default;

  virtual const Program& program() const = 0;
  virtual const MemoryPlan& plan() const = 0;
  virtual std::int64_t workspace_floats() const = 0;
  // "brgconv:avx512_core", or nothing when operator `index` has no vendor kernel.
  virtual std::string vendor_algorithm(std::size_t index) const = 0;
  // Name and version of the vendor library, or nothing when no operator uses it.
  virtual std::string vendor_library() const = 0;
  // nullptr: nobody.
  virtual void set_observer(OpObserver* observer) = 0;

  const Graph& graph() const { return program().graph; }
  // graph().ops[0, forward_ops()) are the model's own operators.
  std::size_t forward_ops() const { return program().first_backward; }

  // The parameters are not those of the last run any more.
  virtual void params_changed() = 0;

  // Forward and backward; stops at a fault. on_bucket_ready is called with 0, 1, 2, ... as soon as
  // all gradients of the bucket (and of the buckets before it) are written and known to be finite.
  // Error (failure): the device is lost.
  virtual Result<LocalStepResult> run_local_step(const LocalStep& step,
                                                 const OnBucketReady& on_bucket_ready) = 0;

  // Forward in evaluation mode. The results stay valid until the next run. Error: as above.
  virtual Status run_eval(const float* params, const float* stats, const Batch& batch) = 0;
  // A tensor that the last run left: graph().outputs, row_loss, mean_loss after run_eval(). Its
  // values mean nothing when the device was lost meanwhile: check().
  virtual std::span<const float> values(TensorId t) const = 0;
  virtual Status check() const = 0;
};

// By bucket: the index of the operator that completes it, and those before it.
std::vector<std::size_t> bucket_ready_ops(const Program& program,
                                          const std::vector<Bucket>& buckets);

}  // namespace es::gpu
