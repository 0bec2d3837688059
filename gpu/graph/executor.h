#pragma once
// Executor runs the programs of a model on the CPU with the kernels of one class.
//
// Threads: an operator may use the helper threads of `parallel`. Memory: the constructor allocates
// all of it.
//
// Values that are not finite: the executor reads the processor's floating-point flags after every
// operator (float_flags.h) and reads the outputs of an operator only if it raised one. This finds
// the first operator with an infinite or NaN output, provided that everything that enters the step
// is finite. The caller checks parameters, statistics and samples.
#include <cstdint>
#include <optional>
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

// A program with the kernels of oneDNN for the operators for which there are some.
struct CpuProgram {
  Program program;
  OnednnOps onednn;
};

// The scratch memory of the operator that needs most, in floats. Operators run one after the other
// and leave nothing in it.
std::int64_t max_workspace(const Program& program, const KernelTable& kernels, int threads);

class Executor final : public StepRunner {
 public:
  // `kernels` and `parallel` must outlive the executor. The constructor runs each kernel of oneDNN
  // once and drops those that refuse their work. REQUIRES: at least one program.
  Executor(std::vector<CpuProgram> programs, const KernelTable& kernels,
           const std::vector<Bucket>& buckets, Parallel& parallel);
  Executor(Program program, const KernelTable& kernels, const std::vector<Bucket>& buckets,
           Parallel& parallel, OnednnOps onednn = {});

  std::size_t programs() const override { return programs_.size(); }
  const Program& program(std::size_t index = 0) const override { return programs_[index].program; }
  const MemoryPlan& plan(std::size_t index = 0) const override { return programs_[index].plan; }
  std::int64_t workspace_floats() const override { return workspace_.floats(); }
  GradientMemory gradient_memory() const override { return {}; }
  std::string vendor_algorithm(std::size_t index, std::size_t program = 0) const override {
    return programs_[program].onednn.algorithm(index);
  }
  std::string vendor_library() const override;
  std::vector<std::string> vendor_refusals() const override;
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
  // A program, and what is made of it.
  struct Loaded {
    Program program;
    OnednnOps onednn;
    MemoryPlan plan;
    std::vector<std::size_t> bucket_ready_op;        // [bucket]
    std::vector<std::vector<OpResult>> results;      // [operator]
    std::optional<TensorAddresses> tensors;          // of a local step
    std::optional<TensorAddresses> evaluation = {};  // of an evaluation
    const Graph& graph() const { return program.graph; }
  };
  RunBuffers buffers_of(const Loaded& now, const LocalStep& step);
  void try_onednn_kernels(Loaded& of);
  Status run_one(const Loaded& now, std::size_t op, RunMode mode, const RunBuffers& buffers);
  Result<Fault> run_forward(const Loaded& now, const LocalStep& step, Check check);
  Fault fault_of(const Loaded& now, std::size_t op, const RunBuffers& buffers) const;
  void complete_bucket(std::uint32_t bucket, const GradientTarget& target);

  // These members are constant after construction, apart from the contents of the buffers and the
  // addresses.
  const KernelTable& kernels_;
  Parallel& parallel_;
  std::vector<Bucket> buckets_;
  std::vector<Loaded> programs_;

  AlignedBuffer arena_;
  AlignedBuffer in_place_of_gradient_;  // of evaluations without one
  AlignedBuffer workspace_;
  // The program and the addresses of the last run.
  const Loaded* last_program_ = nullptr;
  const TensorAddresses* last_run_ = nullptr;
  float* grads_ = nullptr;  // the gradient slot of the step in progress
  OpObserver* observer_ = nullptr;
  mutable std::vector<float> widened_;  // the last answer of values() that is stored as bf16
};

}  // namespace es::gpu
