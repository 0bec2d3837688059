#include "gpu/cuda/device_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/cuda/op_device.h"
#include "gpu/graph/dense_op.h"
#include "gpu/graph/vendor_ops.h"
#include "proto/base/check.h"

namespace es::gpu::cuda {
namespace {

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

std::int64_t max_workspace(const Program& program, const DeviceKernels& kernels) {
  std::size_t floats = 0;
  for (const Op& op : program.graph.ops)
    floats = std::max(floats, op_workspace_floats(kernels, program.graph, op));
  return static_cast<std::int64_t>(floats);
}

}  // namespace

Result<std::unique_ptr<DeviceExecutor>> DeviceExecutor::create(
    Program program, std::unique_ptr<Device> device, const std::vector<Bucket>& buckets,
    std::unique_ptr<DeviceVendorLibrary> vendor) {
  std::unique_ptr<DeviceExecutor> executor(
      new DeviceExecutor(std::move(program), std::move(device), std::move(vendor)));
  ES_RETURN_IF_ERROR(executor->device_->begin());
  ES_RETURN_IF_ERROR(executor->make_streams(buckets));
  ES_RETURN_IF_ERROR(executor->allocate());
  ES_RETURN_IF_ERROR(executor->allocate_inputs());
  std::vector<const float*> constants;
  ES_RETURN_IF_ERROR(executor->upload_constants(constants));
  executor->tensors_ = std::make_unique<TensorAddresses>(executor->graph(), executor->plan_,
                                                         executor->arena_, constants);
  return executor;
}

DeviceExecutor::DeviceExecutor(Program program, std::unique_ptr<Device> device,
                               std::unique_ptr<DeviceVendorLibrary> vendor)
    : program_(std::move(program)),
      device_(std::move(device)),
      vendor_(std::move(vendor)),
      plan_(plan_memory(program_)),
      workspace_floats_(max_workspace(program_, device_->kernels())),
      batch_floats_(graph().batch * graph().layout.words()) {
  if (vendor_) bind_vendor();
}

void DeviceExecutor::bind_vendor() {
  for (const Op& op : graph().ops) {
    std::unique_ptr<DeviceVendorKernel> kernel;
    if (is_conv(op.kind)) {
      kernel = vendor_->conv(op.conv, conv_pass(op.kind));
    } else if (is_gemm(op.kind)) {
      kernel = vendor_->gemm(op.kind == OpKind::kMatmul ? op.matmul
                                                        : MatmulShape{gemm_shape(graph(), op)});
    }
    if (kernel) {
      const std::size_t floats = (kernel->workspace_bytes() + sizeof(float) - 1) / sizeof(float);
      workspace_floats_ = std::max(workspace_floats_, static_cast<std::int64_t>(floats));
    }
    vendor_ops_.push_back(std::move(kernel));
  }
}

std::string DeviceExecutor::vendor_algorithm(std::size_t index) const {
  return index < vendor_ops_.size() && vendor_ops_[index] ? vendor_ops_[index]->algorithm() : "";
}

std::string DeviceExecutor::vendor_library() const {
  const bool used = std::any_of(vendor_ops_.begin(), vendor_ops_.end(),
                                [](const auto& kernel) { return kernel != nullptr; });
  return used ? vendor_->name() : "";
}

Result<float*> DeviceExecutor::device_floats(std::int64_t count, const char* what) {
  const auto memory = device_->allocate(bytes_of(std::max<std::int64_t>(count, 1)), what);
  if (!memory) return memory.error();
  return static_cast<float*>(*memory);
}

Result<float*> DeviceExecutor::host_floats(std::int64_t count, const char* what) {
  const auto memory = device_->allocate_host(bytes_of(std::max<std::int64_t>(count, 1)), what);
  if (!memory) return memory.error();
  return static_cast<float*>(*memory);
}

// Sets `target` to what `expr` gives, or returns its error.
#define ES_SET(target, expr)                    \
  do {                                          \
    auto es_result_ = (expr);                   \
    if (!es_result_) return es_result_.error(); \
    target = *es_result_;                       \
  } while (0)

Status DeviceExecutor::make_streams(const std::vector<Bucket>& buckets) {
  ES_SET(copy_in_, device_->make_stream());
  ES_SET(compute_, device_->make_stream());
  ES_SET(copy_out_, device_->make_stream());
  ES_SET(forward_done_, device_->make_event());
  ES_SET(step_done_, device_->make_event());
  for (Input& input : inputs_) ES_SET(input.ready, device_->make_event());
  const std::vector<std::size_t> ready = bucket_ready_ops(program_, buckets);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    BucketCopy copy{.bucket = buckets[b], .ready_op = ready[b]};
    ES_SET(copy.computed, device_->make_event());
    ES_SET(copy.copied, device_->make_event());
    buckets_.push_back(copy);
  }
  return {};
}

Status DeviceExecutor::allocate() {
  const std::int64_t params = graph().table.total_floats(), stats = graph().table.stat_floats();
  const auto flags = static_cast<std::int64_t>(1 + buckets_.size());
  ES_SET(arena_, device_floats(plan_.arena_floats, "activations and their gradients"));
  ES_SET(workspace_, device_floats(workspace_floats_, "the kernels' workspace"));
  ES_SET(params_, device_floats(params, "the parameters"));
  ES_SET(grads_, device_floats(params, "a gradient"));
  ES_SET(host_grads_, host_floats(params, "a gradient"));
  ES_SET(next_stats_, device_floats(stats, "statistics"));
  ES_SET(host_next_stats_, host_floats(stats, "statistics"));
  ES_SET(host_loss_, host_floats(1, "the loss"));
  float* words = nullptr;
  ES_SET(words, device_floats(flags, "flags"));
  flags_ = reinterpret_cast<std::int32_t*>(words);
  ES_SET(words, host_floats(flags, "flags"));
  host_flags_ = reinterpret_cast<std::int32_t*>(words);
  // No kernel writes the padding of gradients: it is +0 from now on.
  device_->kernels().fill_zero(compute_, params, grads_);
  return device_->check();
}

Status DeviceExecutor::allocate_inputs() {
  const std::int64_t stats = graph().table.stat_floats();
  for (Input& input : inputs_) {
    ES_SET(input.host, host_floats(batch_floats_, "a mini-batch"));
    ES_SET(input.device, device_floats(batch_floats_, "a mini-batch"));
    ES_SET(input.host_stats, host_floats(stats, "statistics"));
    ES_SET(input.device_stats, device_floats(stats, "statistics"));
  }
  return {};
}

Status DeviceExecutor::upload_constants(std::vector<const float*>& addresses) {
  for (const Constant& c : graph().constants) {
    const auto words = static_cast<std::int64_t>(c.words.size());
    float* memory = nullptr;
    ES_SET(memory, device_floats(words, "the model's constants"));
    device_->copy_in(compute_, memory, c.words.data(), bytes_of(words));
    addresses.push_back(memory);
  }
  return device_->synchronise(compute_);
}

void DeviceExecutor::queue_inputs(const float* params, const float* stats, const Batch& batch) {
  input_ = 1 - input_;
  const Input& input = inputs_[input_];
  const std::size_t stat_bytes = bytes_of(graph().table.stat_floats());
  std::memcpy(input.host, batch.words, bytes_of(batch_floats_));
  if (stat_bytes != 0) std::memcpy(input.host_stats, stats, stat_bytes);
  device_->copy_in(copy_in_, input.device, input.host, bytes_of(batch_floats_));
  device_->copy_in(copy_in_, input.device_stats, input.host_stats, stat_bytes);
  if (params_stale_) {
    device_->wait(copy_in_, step_done_);
    device_->copy_in(copy_in_, params_, params, bytes_of(graph().table.total_floats()));
  }
  params_stale_ = false;
  device_->record(input.ready, copy_in_);
  device_->wait(compute_, input.ready);
  tensors_->bind_inputs(input.device);
}

RunBuffers DeviceExecutor::buffers(const DropoutKey& key) const {
  return {.tensors = tensors_->data(),
          .params = params_,
          .grads = grads_,
          .stats = inputs_[input_].device_stats,
          .next_stats = next_stats_,
          .key = key,
          .workspace = workspace_,
          .clear_padding = false};
}

void DeviceExecutor::launch(std::size_t index, RunMode mode, const RunBuffers& buffers) {
  const Op& op = graph().ops[index];
  if (index >= vendor_ops_.size() || vendor_ops_[index] == nullptr)
    return run_op(*device_, compute_, graph(), op, mode, buffers);
  const DenseCall call = dense_call(graph(), op, buffers);
  vendor_ops_[index]->run(compute_, call.a, call.b, call.out, workspace_);
  if (!adds_bias(op)) return;
  const TensorShape& y = graph().shape(op.out[0]);
  const ChainStage bias{.kind = ChainKind::kAddRow, .operand = call.bias, .columns = y.c};
  device_->kernels().chain(compute_, y.count(), call.out, &bias, 1, buffers.key, call.out);
}

void DeviceExecutor::queue_op(std::size_t index, RunMode mode, const RunBuffers& buffers) {
  const Op& op = graph().ops[index];
  if (observer_ != nullptr) observer_->begin_op(op);
  launch(index, mode, buffers);
  if (observer_ == nullptr) return;
  (void)device_->synchronise(compute_);  // an error stays with the device
  observer_->end_op(op);
}

void DeviceExecutor::queue_forward(const RunBuffers& buffers) {
  const DeviceKernels& k = device_->kernels();
  const std::int64_t stats = graph().table.stat_floats();
  k.fill_zero(compute_, static_cast<std::int64_t>(1 + buckets_.size()),
              reinterpret_cast<float*>(flags_));
  for (std::size_t i = 0; i < forward_ops(); ++i) queue_op(i, RunMode::kTrain, buffers);
  const float* const loss = (*tensors_)[graph().mean_loss];
  k.find_non_finite(compute_, 1, loss, flags_);
  if (stats != 0) k.find_non_finite(compute_, stats, next_stats_, flags_);
  device_->copy_out(compute_, host_loss_, loss, sizeof(float));
  device_->copy_out(compute_, host_next_stats_, next_stats_, bytes_of(stats));
  device_->copy_out(compute_, host_flags_, flags_, sizeof(std::int32_t));
  device_->record(forward_done_, compute_);
}

void DeviceExecutor::queue_bucket(std::size_t b) {
  const BucketCopy& copy = buckets_[b];
  std::int32_t* const flag = flags_ + 1 + b;
  const float* const data = grads_ + copy.bucket.begin;
  device_->kernels().find_non_finite(compute_, copy.bucket.floats(), data, flag);
  device_->record(copy.computed, compute_);
  device_->wait(copy_out_, copy.computed);
  device_->copy_out(copy_out_, host_grads_ + copy.bucket.begin, data,
                    bytes_of(copy.bucket.floats()));
  device_->copy_out(copy_out_, host_flags_ + 1 + b, flag, sizeof(std::int32_t));
  device_->record(copy.copied, copy_out_);
}

void DeviceExecutor::queue_backward(const RunBuffers& buffers) {
  std::size_t bucket = 0;
  for (std::size_t i = forward_ops(); i < graph().ops.size(); ++i) {
    queue_op(i, RunMode::kTrain, buffers);
    while (bucket < buckets_.size() && buckets_[bucket].ready_op == i) queue_bucket(bucket++);
  }
  ES_CHECK(bucket == buckets_.size());
  device_->record(step_done_, compute_);
}

Result<LocalStepResult> DeviceExecutor::run_local_step(const LocalStep& step,
                                                       const OnBucketReady& on_bucket_ready) {
  ES_RETURN_IF_ERROR(device_->begin());
  queue_inputs(step.params, step.stats, step.batch);
  const RunBuffers run = buffers(step.key);
  queue_forward(run);
  queue_backward(run);
  ES_RETURN_IF_ERROR(device_->synchronise(forward_done_));
  const float loss = *host_loss_;
  if (host_flags_[0] != 0) return find_fault(step.key, loss);
  const std::size_t stat_bytes = bytes_of(graph().table.stat_floats());
  if (stat_bytes != 0) std::memcpy(step.next_stats, host_next_stats_, stat_bytes);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b].bucket;
    ES_RETURN_IF_ERROR(device_->synchronise(buckets_[b].copied));
    if (host_flags_[1 + b] != 0) return find_fault(step.key, loss);
    std::memcpy(step.grads + bucket.begin, host_grads_ + bucket.begin, bytes_of(bucket.floats()));
    on_bucket_ready(static_cast<std::uint32_t>(b));
  }
  return LocalStepResult{loss, {}};
}

Result<bool> DeviceExecutor::any_non_finite(const float* values, std::int64_t count) {
  const DeviceKernels& k = device_->kernels();
  k.fill_zero(compute_, 1, reinterpret_cast<float*>(flags_));
  k.find_non_finite(compute_, count, values, flags_);
  device_->copy_out(compute_, host_flags_, flags_, sizeof(std::int32_t));
  ES_RETURN_IF_ERROR(device_->synchronise(compute_));
  return host_flags_[0] != 0;
}

Result<Fault> DeviceExecutor::fault_of(const Op& op) {
  struct Output {
    const float* values;
    std::int64_t count;
    ParamId param;
  };
  std::vector<Output> outputs;
  for (const TensorId t : op.out)
    if (graph().tensors[t].type == ElementType::kF32)
      outputs.push_back({(*tensors_)[t], graph().shape(t).count(), kNoParam});
  const ParamTable& table = graph().table;
  for (const ParamId id : {writes_bias_grad(op.kind) ? op.bias : kNoParam,
                           writes_weight_grad(op.kind) ? op.weight : kNoParam})
    if (id != kNoParam) outputs.push_back({grads_ + table[id].offset, table[id].count, id});
  if (op.kind == OpKind::kBatchNorm)
    for (const std::int64_t offset : {op.stats.mean, op.stats.variance})
      outputs.push_back({next_stats_ + offset, graph().shape(op.out[0]).c, kNoParam});
  for (const Output& output : outputs) {
    const auto bad = any_non_finite(output.values, output.count);
    if (!bad) return bad.error();
    if (*bad) return Fault{&op, output.param};
  }
  return Fault{};
}

Result<LocalStepResult> DeviceExecutor::find_fault(const DropoutKey& key, float loss) {
  // What is still queued writes where this run writes.
  ES_RETURN_IF_ERROR(device_->synchronise(compute_));
  ES_RETURN_IF_ERROR(device_->synchronise(copy_out_));
  const RunBuffers run = buffers(key);
  for (std::size_t i = 0; i < graph().ops.size(); ++i) {
    launch(i, RunMode::kTrain, run);
    const auto fault = fault_of(graph().ops[i]);
    if (!fault) return fault.error();
    if (fault->op != nullptr) return LocalStepResult{loss, *fault};
  }
  return failure(device_->name() +
                 ": a local step gave a value that is not finite, and run again it did not");
}

Status DeviceExecutor::run_eval(const float* params, const float* stats, const Batch& batch) {
  ES_RETURN_IF_ERROR(device_->begin());
  queue_inputs(params, stats, batch);
  const RunBuffers run = buffers({});
  for (std::size_t i = 0; i < forward_ops(); ++i) queue_op(i, RunMode::kEvaluate, run);
  return device_->synchronise(compute_);
}

std::span<const float> DeviceExecutor::values(TensorId t) const {
  const std::int64_t count = graph().shape(t).count();
  AlignedBuffer& copy = values_[t];
  if (copy.floats() != count) copy = AlignedBuffer(count, "a result");
  device_->copy_out(compute_, copy.data(), (*tensors_)[t], bytes_of(count));
  (void)device_->synchronise(compute_);  // an error stays with the device
  return {copy.data(), static_cast<std::size_t>(count)};
}

}  // namespace es::gpu::cuda
