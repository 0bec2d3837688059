#pragma once
// StepRunner: runs a program for one EST mini-batch at a time, on one device. Executor (executor.h)
// is the CPU's, cuda::DeviceExecutor the GPU's; both run the same program with the same memory
// plan.
//
// Threads: one at a time. Memory: everything is allocated at the start; a run allocates nothing,
// and nothing of a run is kept for the next. Pointers are to host memory.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/batch.h"
#include "gpu/est/gradient_target.h"
#include "gpu/graph/differentiate.h"
#include "gpu/graph/memory_plan.h"
#include "gpu/optim/updater.h"
#include "gpu/params/buckets.h"
#include "proto/base/result.h"

namespace es::gpu {

namespace cuda {
class DeviceReduction;
}

// What a local step reads besides parameters.
struct StepInput {
  const float* stats = nullptr;  // the EST's statistics of this version
  Batch batch;
  DropoutKey key;
};

struct LocalStep {
  const float* params = nullptr;  // flat layout; a device reads them after params_changed() only
  const float* stats = nullptr;   // the EST's statistics of this version
  float* next_stats = nullptr;    // of the next version; other memory than stats
  GradientTarget gradient;        // all of the slot is written, padding included
  Batch batch;
  DropoutKey key;
  // Called once when a device has all its work and the host would wait for it; never by a CPU.
  std::function<void()> meanwhile;

  StepInput input() const { return {stats, batch, key}; }
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

// Memory that a device has for gradients, at present. A CPU's are the caller's.
struct GradientMemory {
  std::int64_t device_floats = 0;  // the one that is written and sums that wait
  std::int64_t pinned_floats = 0;  // host memory of sums that the device has no room for
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
  virtual GradientMemory gradient_memory() const = 0;
  // "brgconv:avx512_core", or nothing when operator `index` has no vendor kernel.
  virtual std::string vendor_algorithm(std::size_t index) const = 0;
  // Name and version of the vendor library, or nothing when no operator uses it.
  virtual std::string vendor_library() const = 0;
  // A line for each operator that the library was to run and refused, and for each library that
  // does not work: "conv1 (conv2d): cudnnConvolutionForward: CUDNN_STATUS_..., so the canonical
  // kernel runs". Complete when the runner is made.
  virtual std::vector<std::string> vendor_refusals() const = 0;
  // nullptr: nobody.
  virtual void set_observer(OpObserver* observer) = 0;

  const Graph& graph() const { return program().graph; }
  // graph().ops[0, forward_ops()) are the model's own operators.
  std::size_t forward_ops() const { return program().first_backward; }

  // Makes updates where the parameters of runs are; nullptr: it does not.
  virtual Updater* updater() = 0;
  // Makes sums over workers in a device's memory; nullptr: a CPU.
  virtual cuda::DeviceReduction* reduction() { return nullptr; }
  // Parameters and statistics are not those of the last run any more.
  virtual void params_changed() = 0;
  // What the next local step will probably be given, if its batch has a serial: a device copies it
  // beside what it computes, and begins with it when that is done. Reads the memory before it
  // returns, that of pin_batches() before the present run_local_step() does.
  virtual void prefetch(const StepInput& input) = 0;
  // Mini-batches will come from this memory, which `owner` keeps: a device copies them from where
  // they are, if it can.
  virtual void pin_batches(std::span<const float> /*memory*/,
                           std::shared_ptr<const void> /*owner*/) {}
  // What a device does in a slower way than it could, and why; empty: nothing.
  virtual std::string slower_because() const = 0;

  // Forward and backward; stops at a fault. on_bucket_ready is called with 0, 1, 2, ... as soon as
  // all gradients of the bucket (and of the buckets before it) are written, known to be finite and
  // merged along the path; what leaves is in host memory then.
  // Error (failure): the device is lost; it has no memory for the slots of the path.
  virtual Result<LocalStepResult> run_local_step(const LocalStep& step,
                                                 const OnBucketReady& on_bucket_ready) = 0;

  // Forward in evaluation mode. The results stay valid until the next run. Error: as above.
  virtual Status run_eval(const float* params, const float* stats, const Batch& batch) = 0;
  // A tensor that the last run left: graph().outputs, row_loss, mean_loss after run_eval(). Its
  // values mean nothing when the device was lost meanwhile: check().
  virtual std::span<const float> values(TensorId t) const = 0;
  // The gradient of a parameter as the step in progress wrote it; for an observer, at the end of
  // the operator that writes it.
  virtual std::span<const float> gradient(ParamId param) const = 0;
  virtual Status check() const = 0;
  // For tests: from now on check() says this. A CPU cannot be lost.
  virtual void lose_device(const Error&) {}
};

// By bucket: the index of the operator that completes it, and those before it.
std::vector<std::size_t> bucket_ready_ops(const Program& program,
                                          const std::vector<Bucket>& buckets);

}  // namespace es::gpu
