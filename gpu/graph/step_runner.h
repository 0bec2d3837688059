#pragma once
// StepRunner runs the programs of a model on one device, one of them for one mini-batch of one EST
// at a time (Batch::program). Executor (executor.h) runs them on the CPU and cuda::DeviceExecutor
// on a GPU; both run the same programs with the same memory plans. All programs have one table of
// parameters.
//
// Threads: one at a time. Memory: everything is allocated at the start; activations have that of
// the program that needs most. A run allocates nothing, and no result of a run influences the next
// one. Pointers are to host memory.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/base/batch.h"
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

// The input of a local step besides the parameters.
struct StepInput {
  const float* stats = nullptr;  // the EST's statistics of the current version
  Batch batch;
  DropoutKey key;
};

struct LocalStep {
  const float* params = nullptr;  // flat layout; a device reads them only after params_changed()
  const float* stats = nullptr;   // the EST's statistics of the current version
  float* next_stats = nullptr;    // statistics of the next version; not the same memory as `stats`
  // All of the slot of this rank is written, with its padding. On a CPU it is memory for other
  // tensors until its gradients are written, so it means nothing before a bucket is ready.
  GradientTarget gradient;
  Batch batch;
  DropoutKey key;
  // Called once when a device has received all its work and the host would otherwise wait. A CPU
  // never calls it.
  std::function<void()> meanwhile;

  StepInput input() const { return {stats, batch, key}; }
};

// The first result of a step that is not finite.
struct Fault {
  const Op* op = nullptr;    // nullptr: all results are finite
  ParamId param = kNoParam;  // the parameter of the gradient; kNoParam: an output
};

struct LocalStepResult {
  float loss = 0.0F;  // mean over the mini-batch
  Fault fault;
};

// The memory that a device has for gradients at present. On a CPU the caller holds the gradients.
struct GradientMemory {
  std::int64_t device_floats = 0;  // the gradient that is written, and the sums that wait
  std::int64_t pinned_floats = 0;  // host memory of sums for which the device has no room
};

// Sees every operator of a run. For profiles.
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

  virtual std::size_t programs() const = 0;
  virtual const Program& program(std::size_t index = 0) const = 0;
  virtual const MemoryPlan& plan(std::size_t index = 0) const = 0;
  virtual std::int64_t workspace_floats() const = 0;
  virtual GradientMemory gradient_memory() const = 0;
  // Returns for example "brgconv:avx512_core"; empty if operator `index` of a program has no vendor
  // kernel.
  virtual std::string vendor_algorithm(std::size_t index, std::size_t program = 0) const = 0;
  // Returns the name and version of the vendor library; empty if no operator uses it.
  virtual std::string vendor_library() const = 0;
  // Returns a line for each operator that the library was to run and refused, and for each library
  // that does not work: "conv1 (conv2d): cudnnConvolutionForward: CUDNN_STATUS_..., so the
  // canonical kernel runs". The list is complete when the runner is constructed.
  virtual std::vector<std::string> vendor_refusals() const = 0;
  // Nullptr: no observer.
  virtual void set_observer(OpObserver* observer) = 0;

  const Graph& graph(std::size_t index = 0) const { return program(index).graph; }
  // graph().ops[0, forward_ops()) are the model's own operators.
  std::size_t forward_ops() const { return program().first_backward; }

  // Returns the object that computes updates where the runner has the parameters; nullptr: the host
  // computes them.
  virtual Updater* updater() = 0;
  // Returns the object that sums over workers in a device's memory; nullptr: a CPU.
  virtual cuda::DeviceReduction* reduction() { return nullptr; }
  // Says that parameters and statistics differ from those of the last run.
  virtual void params_changed() = 0;
  // Announces the input that the next local step will probably get, if its batch has a serial. A
  // device copies it while it computes, and begins with it when the computation is done. The
  // statistics are read before the function returns; memory announced by pin_batches() is read
  // before the current run_local_step() returns.
  virtual void prefetch(const StepInput& input) = 0;
  // Announces the memory from which mini-batches will come; `owner` keeps it alive. A device copies
  // them directly from there if it can.
  virtual void pin_batches(std::span<const float> /*memory*/,
                           std::shared_ptr<const void> /*owner*/) {}
  // Returns what a device does more slowly than it could, and why; empty: nothing.
  virtual std::string slower_because() const = 0;

  // Runs the forward and the backward pass and stops at a fault. on_bucket_ready is called with 0,
  // 1, 2, ... as soon as all gradients of the bucket (and of the buckets before it) are written,
  // known to be finite and merged along the path. A part that leaves is then in host memory. Error
  // (failure): the device is lost, or it has no memory for the slots of the path.
  virtual Result<LocalStepResult> run_local_step(const LocalStep& step,
                                                 const OnBucketReady& on_bucket_ready) = 0;

  // Runs the forward pass in evaluation mode. `gradient` is memory of trained_floats() floats that
  // a CPU uses, or nullptr: then it uses memory of its own, which the first such run allocates. The
  // results stay valid until the next run, and as long as this memory is not changed. Error: as
  // above.
  virtual Status run_eval(const float* params, const StepInput& input, float* gradient) = 0;
  // Returns a tensor that the last run_eval() has left, of the graph of its program: outputs,
  // row_loss, row_weight and mean_loss. The values are undefined if the device was lost meanwhile;
  // check() reports that.
  virtual std::span<const float> values(TensorId t) const = 0;
  // Returns the gradient of a parameter as the step in progress wrote it. Valid only for an
  // observer, at the end of the operator that writes it.
  virtual std::span<const float> gradient(ParamId param) const = 0;
  virtual Status check() const = 0;
  // For tests: from now on check() returns this error. A CPU cannot be lost.
  virtual void lose_device(const Error&) {}
};

// Returns for each bucket the index of the operator that completes it and all buckets before it.
std::vector<std::size_t> bucket_ready_ops(const Program& program,
                                          const std::vector<Bucket>& buckets);

}  // namespace es::gpu
