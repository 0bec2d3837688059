#pragma once
// DeviceExecutor runs the programs of a model on a CUDA device. It queues all work on streams:
//
//   copy-in    mini-batch and statistics; parameters if they have changed
//   compute    operators
//   merge, copy-out   gradients, bucket by bucket, while the backward pass runs
//              (device_gradients.h)
//
//
// The host queues a whole local step, copies the input of the next step, and queues the forward
// pass of the next step behind the current step. Then it takes the results in their order: loss and
// statistics, bucket 0, bucket 1, ... The outputs of operators are searched for values that are not
// finite (finite_checks.h). With canonical kernels all outputs are searched, so the device reports
// what a CPU would report. With vendor kernels, whose bits no CPU has, only what leaves the step is
// searched; a step with such a value runs again, and then all outputs are searched.
//
// What a forward pass leaves for the host (loss, statistics, and the findings of the search) exists
// twice, like the inputs: variant 0 and variant 1. A forward pass that was queued ahead is used if
// the next step has the announced input and the parameters have not changed. Otherwise the host
// waits for it and ignores its results.
//
// From its second execution on, a local step consists of a few CUDA graphs (step_recordings.h),
// except while an observer watches.
//
// Memory: create() allocates in device memory the arena and the workspace of the program that needs
// most, the constants, two mini-batches, the parameters and one gradient; in pinned host memory one
// gradient and two mini-batches. Sums over ESTs and optimizer moments are allocated when they are
// first needed (device_gradients.h, device_updater.h). Only the number of sums depends on the
// number of ESTs, and it grows with the logarithm.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/base/aligned_buffer.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/device_gradients.h"
#include "gpu/cuda/device_inputs.h"
#include "gpu/cuda/device_reduction.h"
#include "gpu/cuda/device_updater.h"
#include "gpu/cuda/finite_checks.h"
#include "gpu/cuda/step_recordings.h"
#include "gpu/cuda/vendor.h"
#include "gpu/graph/dense_op.h"
#include "gpu/graph/op_run.h"
#include "gpu/graph/step_runner.h"
#include "gpu/graph/tensor_addresses.h"

namespace es::gpu::cuda {

class DeviceExecutor final : public StepRunner {
 public:
  // `vendor` runs the convolutions and products for which it has a kernel; nullptr: no vendor
  // library. create() runs each of these kernels once and drops those that refuse their work. Error
  // (failure): memory is missing, or the device is lost. REQUIRES: at least one program.
  static Result<std::unique_ptr<DeviceExecutor>> create(std::vector<Program> programs,
                                                        std::unique_ptr<Device> device,
                                                        const std::vector<Bucket>& buckets,
                                                        std::unique_ptr<DeviceVendorLibrary> vendor,
                                                        std::uint32_t device_sums = 0);
  static Result<std::unique_ptr<DeviceExecutor>> create(Program program,
                                                        std::unique_ptr<Device> device,
                                                        const std::vector<Bucket>& buckets,
                                                        std::unique_ptr<DeviceVendorLibrary> vendor,
                                                        std::uint32_t device_sums = 0);

  std::size_t programs() const override { return programs_.size(); }
  const Program& program(std::size_t index = 0) const override { return programs_[index].program; }
  const MemoryPlan& plan(std::size_t index = 0) const override { return programs_[index].plan; }
  std::int64_t workspace_floats() const override { return workspace_floats_; }
  GradientMemory gradient_memory() const override { return gradients_->memory(); }
  std::string vendor_algorithm(std::size_t index, std::size_t program = 0) const override;
  std::string vendor_library() const override;
  std::vector<std::string> vendor_refusals() const override { return vendor_refusals_; }
  void set_observer(OpObserver* observer) override { observer_ = observer; }

  Updater* updater() override { return updater_.get(); }
  DeviceReduction* reduction() override { return reduction_.get(); }
  void params_changed() override;
  void prefetch(const StepInput& input) override;
  void pin_batches(std::span<const float> memory, std::shared_ptr<const void> owner) override {
    inputs_->pin_words(memory, std::move(owner));
  }
  std::string slower_because() const override;
  // Error (failure), besides those of the device: a second run of the step did not show the bad
  // value again.
  Result<LocalStepResult> run_local_step(const LocalStep& step,
                                         const OnBucketReady& on_bucket_ready) override;
  Status run_eval(const float* params, const StepInput& input, float* gradient) override;
  std::span<const float> values(TensorId t) const override;
  std::span<const float> gradient(ParamId param) const override;
  Status check() const override { return device_->check(); }
  void lose_device(const Error& error) override { device_->lose(error); }

 private:
  // The operators [first, end). The first piece is the forward pass. Each other piece ends with the
  // last operator of a bucket.
  struct Piece {
    std::size_t first = 0, end = 0;
  };
  // The results of a forward pass.
  struct Forward {
    float *next_stats = nullptr, *host_next_stats = nullptr, *host_loss = nullptr;
    Event done;
  };

  // A program, and what is made of it.
  struct Loaded {
    Program program;
    // [operator]; nullptr: the canonical kernel runs
    std::vector<std::unique_ptr<DeviceVendorKernel>> vendor_ops;
    MemoryPlan plan;
    std::unique_ptr<FiniteChecks> checks;
    std::unique_ptr<StepRecordings> recordings;
    std::vector<Piece> pieces;
    std::unique_ptr<TensorAddresses> tensors;
    const Graph& graph() const { return program.graph; }
  };

  DeviceExecutor(std::vector<Program> programs, std::unique_ptr<Device> device,
                 std::unique_ptr<DeviceVendorLibrary> vendor);
  void bind_vendor(Loaded& to);
  Result<std::unique_ptr<DeviceVendorKernel>> vendor_kernel(const Graph& graph, const Op& op);
  Status load(Loaded& to, const std::vector<Bucket>& buckets);
  Status try_vendor_kernels();
  // The program that is being queued, or whose results are taken.
  const Loaded& now() const { return programs_[program_]; }
  const Graph& graph_now() const { return now().graph(); }
  DenseCall vendor_call(std::size_t index, const RunBuffers& buffers);
  Status run_vendor(std::size_t index, const DenseCall& call);
  Status allocate();
  Status make_streams();
  Status upload_constants(const Graph& graph, std::vector<const float*>& addresses);
  Result<float*> device_floats(std::int64_t count, const char* what);
  Result<float*> host_floats(std::int64_t count, const char* what);

  void cut_pieces(Loaded& of, const std::vector<Bucket>& buckets);
  void enter(const float* params, const StepInput& input);
  void use(std::size_t variant);
  void bind(std::size_t variant);
  RunBuffers buffers() const;
  void launch(std::size_t index, RunMode mode, const RunBuffers& buffers);
  void queue_op(std::size_t index, RunMode mode, const RunBuffers& buffers);
  void queue_operators(const Piece& piece, const RunBuffers& buffers);
  void queue_piece(std::size_t piece, const RunBuffers& buffers);
  void queue_results();
  void queue_forward();
  void queue_backward();
  void queue_next_forward();
  bool forward_is_queued(const StepInput& input);
  void drop_next_forward();
  Result<LocalStepResult> take_results(const LocalStep& step, const OnBucketReady& on_bucket_ready);
  Result<LocalStepResult> stop_at(const Fault& fault);
  Result<Fault> find_first_fault();

  // These members are constant after create().
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceVendorLibrary> vendor_;
  std::vector<std::string> vendor_refusals_;
  std::vector<Loaded> programs_;
  std::int64_t workspace_floats_ = 0;
  Stream compute_;
  Event step_done_;
  std::unique_ptr<DeviceReduction> reduction_;
  std::unique_ptr<DeviceGradients> gradients_;
  std::unique_ptr<DeviceUpdater> updater_;
  std::unique_ptr<DeviceInputs> inputs_;
  FiniteChecks::Scope scope_ = FiniteChecks::Scope::kAll;  // for every local step
  float *arena_ = nullptr, *workspace_ = nullptr;
  std::array<Forward, 2> forwards_;  // [variant]

  DeviceParams params_;
  // The variant that is being queued, or whose results are taken, and its program.
  std::size_t variant_ = 0, program_ = 0;
  // The edition of params_ that a queued forward pass uses.
  std::optional<std::uint64_t> next_forward_of_;
  OpObserver* observer_ = nullptr;
  mutable std::map<TensorId, AlignedBuffer> values_;  // copies in host memory
  mutable std::vector<float> gradient_copy_;
};

}  // namespace es::gpu::cuda
