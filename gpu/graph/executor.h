#pragma once
// Executor runs a program on the CPU with the kernels of one class.
//
// Threads: an operator may use the helper threads of `parallel`. Memory: the constructor allocates
// all of it.
//
// Values that are not finite: the executor reads the processor's floating-point flags after every
// operator (float_flags.h) and reads the outputs of an operator only if it raised one. This finds
// the first operator with an infinite or NaN output, provided that everything that enters the step
// is finite. The caller checks parameters, statistics and samples.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/base/aligned_buffer.h"
#include "gpu/base/parallel.h"
#include "gpu/graph/onednn_ops.h"
#include "gpu/graph/op_results.h"
#include "gpu/graph/op_run.h"
#include "gpu/graph/step_runner.h"
#include "gpu/graph/tensor_addresses.h"

namespace es::gpu {

class Executor final : public StepRunner {
 public:
  // `kernels` and `parallel` must outlive the executor. `onednn` runs the operators for which it
  // has a kernel. The constructor runs each of these kernels once and drops those that refuse their
  // work.
  Executor(Program program, const KernelTable& kernels, const std::vector<Bucket>& buckets,
           Parallel& parallel, OnednnOps onednn = {});

  const Program& program() const override { return program_; }
  const MemoryPlan& plan() const override { return plan_; }
  std::int64_t workspace_floats() const override { return workspace_.floats(); }
  GradientMemory gradient_memory() const override { return {}; }
  std::string vendor_algorithm(std::size_t index) const override {
    return onednn_.algorithm(index);
  }
  std::string vendor_library() const override { return onednn_.library(); }
  std::vector<std::string> vendor_refusals() const override { return onednn_.refusals(); }
  void set_observer(OpObserver* observer) override { observer_ = observer; }

  Updater* updater() override { return nullptr; }
  void params_changed() override {}  // a run reads parameters from the caller's memory
  void prefetch(const StepInput&) override {}
  std::string slower_because() const override { return {}; }
  Result<LocalStepResult> run_local_step(const LocalStep& step,
                                         const OnBucketReady& on_bucket_ready) override;
  Status run_eval(const float* params, const StepInput& input, float* gradient) override;
  std::span<const float> values(TensorId t) const override;
  std::span<const float> gradient(ParamId param) const override;
  Status check() const override { return {}; }

 private:
  enum class Check { kFlagged, kAll };
  RunBuffers buffers_of(const LocalStep& step);
  void try_onednn_kernels();
  Status run_one(std::size_t op, RunMode mode, const RunBuffers& buffers);
  Result<Fault> run_forward(const LocalStep& step, Check check);
  Fault fault_of(std::size_t op, const RunBuffers& buffers) const;
  void complete_bucket(std::uint32_t bucket, const GradientTarget& target);

  // These members are constant after construction, apart from the contents of the buffers.
  Program program_;
  const KernelTable& kernels_;
  Parallel& parallel_;
  OnednnOps onednn_;
  MemoryPlan plan_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_ready_op_;    // [bucket]
  std::vector<std::vector<OpResult>> results_;  // [operator]

  AlignedBuffer arena_;
  AlignedBuffer in_place_of_gradient_;  // of evaluations without one
  AlignedBuffer workspace_;
  TensorAddresses tensors_;     // of a local step
  TensorAddresses evaluation_;  // of an evaluation
  const TensorAddresses* last_run_ = &tensors_;
  float* grads_ = nullptr;  // the gradient slot of the step in progress
  OpObserver* observer_ = nullptr;
  mutable std::vector<float> widened_;  // the last answer of values() that is stored as bf16
};

}  // namespace es::gpu
