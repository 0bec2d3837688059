#pragma once
// Executor: runs a program on the CPU, with the kernels of one class.
//
// Threads: operators may spread over the helpers of `parallel`. Memory: allocated by the
// constructor.
//
// Values that are not finite: every operator is watched through the processor's floating-point
// flags (float_flags.h), and only one that raised them has its outputs read again. That finds the
// first operator whose result is infinite or NaN provided that what enters the step is finite; the
// caller sees to that for parameters, statistics and samples.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/aligned_buffer.h"
#include "gpu/graph/op_kernels.h"
#include "gpu/graph/op_results.h"
#include "gpu/graph/step_runner.h"
#include "gpu/graph/tensor_addresses.h"
#include "gpu/graph/vendor_ops.h"
#include "gpu/parallel.h"

namespace es::gpu {

class Executor final : public StepRunner {
 public:
  // `kernels` and `parallel` outlive the executor; `vendor` runs the operators that it has, and
  // that it does not refuse when each has run once, here.
  Executor(Program program, const KernelTable& kernels, const std::vector<Bucket>& buckets,
           Parallel& parallel, VendorOps vendor = {});

  const Program& program() const override { return program_; }
  const MemoryPlan& plan() const override { return plan_; }
  std::int64_t workspace_floats() const override { return workspace_.floats(); }
  GradientMemory gradient_memory() const override { return {}; }
  std::string vendor_algorithm(std::size_t index) const override {
    return vendor_.algorithm(index);
  }
  std::string vendor_library() const override { return vendor_.library(); }
  std::vector<std::string> vendor_refusals() const override { return vendor_.refusals(); }
  void set_observer(OpObserver* observer) override { observer_ = observer; }

  Updater* updater() override { return nullptr; }
  void params_changed() override {}  // they are read where they are
  void prefetch(const StepInput&) override {}
  std::string slower_because() const override { return {}; }
  Result<LocalStepResult> run_local_step(const LocalStep& step,
                                         const OnBucketReady& on_bucket_ready) override;
  Status run_eval(const float* params, const float* stats, const Batch& batch) override;
  std::span<const float> values(TensorId t) const override;
  std::span<const float> gradient(ParamId param) const override;
  Status check() const override { return {}; }

 private:
  enum class Check { kFlagged, kAll };
  RunBuffers buffers_of(const LocalStep& step);
  void try_vendor_kernels();
  Status run_one(std::size_t op, RunMode mode, const RunBuffers& buffers);
  Result<Fault> run_forward(const LocalStep& step, Check check);
  Fault fault_of(std::size_t op, const RunBuffers& buffers) const;
  void complete_bucket(std::uint32_t bucket, const GradientTarget& target);

  // Constant after construction.
  Program program_;
  const KernelTable& kernels_;
  Parallel& parallel_;
  VendorOps vendor_;
  MemoryPlan plan_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_ready_op_;    // by bucket
  std::vector<std::vector<OpResult>> results_;  // by operator

  AlignedBuffer arena_;
  AlignedBuffer workspace_;
  TensorAddresses tensors_;
  float* grads_ = nullptr;  // of the step in progress
  OpObserver* observer_ = nullptr;
};

}  // namespace es::gpu
