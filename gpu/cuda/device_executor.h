#pragma once
// DeviceExecutor: runs a program on a CUDA device, queued on streams.
//
//   copy-in    mini-batch, statistics, parameters when they changed
//   compute    operators; after each bucket's last one a look for values that are not finite
//   copy-out   gradients bucket by bucket, while the backward pass goes on
//
// The host queues a whole local step, then takes its results in their order: loss and statistics,
// bucket 0, 1, ... A GPU has no sticky floating-point flags, so a bad value is noticed in what a
// step gives (loss, statistics, gradients) and then looked for: the step runs again, operator by
// operator, with all outputs read, until the first operator with such an output is found. A value
// that is not finite and has no effect on the results, which a CPU would report, is not noticed.
//
// Memory: everything is allocated by create(). Device memory holds the arena, the workspace, the
// constants, two mini-batches, parameters and one gradient; pinned host memory a gradient and two
// mini-batches. None of it depends on the number of ESTs.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu/aligned_buffer.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/vendor.h"
#include "gpu/graph/op_kernels.h"
#include "gpu/graph/step_runner.h"
#include "gpu/graph/tensor_addresses.h"

namespace es::gpu::cuda {

class DeviceExecutor final : public StepRunner {
 public:
  // `vendor`: runs the convolutions and products that it has; nullptr: none. Error (failure):
  // memory that is missing; the device is lost.
  static Result<std::unique_ptr<DeviceExecutor>> create(
      Program program, std::unique_ptr<Device> device, const std::vector<Bucket>& buckets,
      std::unique_ptr<DeviceVendorLibrary> vendor);

  const Program& program() const override { return program_; }
  const MemoryPlan& plan() const override { return plan_; }
  std::int64_t workspace_floats() const override { return workspace_floats_; }
  std::string vendor_algorithm(std::size_t index) const override;
  std::string vendor_library() const override;
  void set_observer(OpObserver* observer) override { observer_ = observer; }

  void params_changed() override { params_stale_ = true; }
  // Error (failure), beside the device's: a bad value that a second run of the step does not show.
  Result<LocalStepResult> run_local_step(const LocalStep& step,
                                         const OnBucketReady& on_bucket_ready) override;
  Status run_eval(const float* params, const float* stats, const Batch& batch) override;
  std::span<const float> values(TensorId t) const override;
  Status check() const override { return device_->check(); }

 private:
  // A mini-batch on its way: one is copied while the device works on the other.
  struct Input {
    float *host = nullptr, *device = nullptr;
    float *host_stats = nullptr, *device_stats = nullptr;
    Event ready;
  };
  struct BucketCopy {
    Bucket bucket;
    std::size_t ready_op = 0;
    Event computed, copied;
  };

  DeviceExecutor(Program program, std::unique_ptr<Device> device,
                 std::unique_ptr<DeviceVendorLibrary> vendor);
  void bind_vendor();
  Status allocate();
  Status allocate_inputs();
  Status make_streams(const std::vector<Bucket>& buckets);
  Status upload_constants(std::vector<const float*>& addresses);
  Result<float*> device_floats(std::int64_t count, const char* what);
  Result<float*> host_floats(std::int64_t count, const char* what);

  void queue_inputs(const float* params, const float* stats, const Batch& batch);
  RunBuffers buffers(const DropoutKey& key) const;
  void launch(std::size_t index, RunMode mode, const RunBuffers& buffers);
  void queue_op(std::size_t index, RunMode mode, const RunBuffers& buffers);
  void queue_forward(const RunBuffers& buffers);
  void queue_backward(const RunBuffers& buffers);
  void queue_bucket(std::size_t bucket);
  Result<LocalStepResult> find_fault(const DropoutKey& key, float loss);
  Result<Fault> fault_of(const Op& op);
  Result<bool> any_non_finite(const float* values, std::int64_t count);

  // Constant after create().
  Program program_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceVendorLibrary> vendor_;
  std::vector<std::unique_ptr<DeviceVendorKernel>> vendor_ops_;  // by operator; nullptr = canonical
  MemoryPlan plan_;
  std::int64_t workspace_floats_ = 0;
  std::int64_t batch_floats_ = 0;
  Stream copy_in_, compute_, copy_out_;
  Event forward_done_, step_done_;
  std::vector<BucketCopy> buckets_;
  float *arena_ = nullptr, *workspace_ = nullptr, *params_ = nullptr, *grads_ = nullptr;
  float *next_stats_ = nullptr, *host_next_stats_ = nullptr;
  float* host_grads_ = nullptr;
  float* host_loss_ = nullptr;
  // [0]: loss and statistics; [1 + b]: bucket b.
  std::int32_t *flags_ = nullptr, *host_flags_ = nullptr;

  Input inputs_[2];
  std::size_t input_ = 0;  // the one in use
  std::unique_ptr<TensorAddresses> tensors_;
  bool params_stale_ = true;
  OpObserver* observer_ = nullptr;
  mutable std::map<TensorId, AlignedBuffer> values_;  // on the host
};

}  // namespace es::gpu::cuda
