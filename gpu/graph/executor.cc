#include "gpu/graph/executor.h"

#include <algorithm>
#include <cmath>

#include "gpu/base/float_flags.h"
#include "gpu/graph/element_code.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/machine_code/tile_code.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// Operators run one after the other and leave nothing in the workspace, so all share the memory of
// the one that needs most.
std::int64_t max_workspace(const Program& program, const KernelTable& kernels, int threads) {
  std::size_t floats = 0;
  for (const Op& op : program.graph.ops)
    floats = std::max(floats, op_workspace_floats(kernels, {program.graph, op}, threads));
  return static_cast<std::int64_t>(floats);
}

std::vector<const float*> constant_words(const Graph& graph) {
  std::vector<const float*> words;
  for (const Constant& c : graph.constants) words.push_back(c.words.data());
  return words;
}

// Machine code is made here, so that no step has to wait for it or allocates memory.
void make_machine_code(const Graph& graph, CpuClass cpu_class) {
  for (const Op& op : graph.ops) {
    if (op.program == nullptr) continue;
    const std::optional<ElementCode> code = with_few_registers(op.program->code);
    if (code) tile_code(*code, cpu_class, graph.shape(op.out[0]).count());
  }
}

}  // namespace

Executor::Executor(Program program, const KernelTable& kernels, const std::vector<Bucket>& buckets,
                   Parallel& parallel, OnednnOps onednn)
    : program_(std::move(program)),
      kernels_(kernels),
      parallel_(parallel),
      onednn_(std::move(onednn)),
      plan_(plan_memory(program_, GradientsInForward::kYes)),
      buckets_(buckets),
      bucket_ready_op_(bucket_ready_ops(program_, buckets)),
      arena_(plan_.arena_floats, "activations and their gradients"),
      workspace_(max_workspace(program_, kernels, parallel.threads()), "the kernels' workspace"),
      tensors_(program_.graph, plan_, plan_.step, arena_.data(), constant_words(program_.graph)),
      evaluation_(program_.graph, plan_, plan_.evaluation, arena_.data(),
                  constant_words(program_.graph)) {
  results_ = op_results(graph());
  make_machine_code(graph(), kernels_.cpu_class);
  if (onednn_.count() != 0) try_onednn_kernels();
}

// Runs each kernel of oneDNN once. Without this trial, a kernel that refuses its work would end
// this worker in its first step, and then the next worker in its first step.
void Executor::try_onednn_kernels() {
  // The contents do not matter, because only the status of each kernel is looked at. Parameters and
  // samples do not exist yet when the executor is constructed.
  const auto some = [](std::int64_t floats) {
    return AlignedBuffer::uninitialised(floats, "a trial of the vendor's kernels");
  };
  const AlignedBuffer batch = some(graph().batch * graph().layout.words());
  const AlignedBuffer params = some(graph().table.total_floats());
  AlignedBuffer grads = some(graph().table.total_floats());
  tensors_.bind_inputs(batch.data());
  tensors_.bind_params(params.data());
  tensors_.bind_gradients(grads.data());
  onednn_.drop_refused(graph(), {.tensors = tensors_.data(),
                                 .params = params.data(),
                                 .grads = grads.data(),
                                 .workspace = workspace_.data(),
                                 .parallel = &parallel_});
}

Status Executor::run_one(std::size_t index, RunMode mode, const RunBuffers& buffers) {
  const Op& op = graph().ops[index];
  if (observer_ != nullptr) observer_->begin_op(op);
  // The flags are sticky, so after the operator they say whether it raised one. Without this line
  // the flag of an earlier operator would make the executor read the results of all later ones.
  clear_non_finite_flags();
  const Result<bool> by_onednn = onednn_.run(index, graph(), buffers);
  if (!by_onednn) return failure(op.name + ": " + by_onednn.error().message);
  if (!*by_onednn) run_op(kernels_, {graph(), op, buffers, mode});
  if (observer_ != nullptr) observer_->end_op(op);
  return {};
}

RunBuffers Executor::buffers_of(const LocalStep& step) {
  // A step that has to be repeated must find the statistics of the current version unchanged.
  ES_CHECK(step.stats != step.next_stats || graph().table.stat_floats() == 0);
  return {.tensors = tensors_.data(),
          .params = step.params,
          .grads = grads_,
          .stats = step.stats,
          .next_stats = step.next_stats,
          .key = step.key,
          .workspace = workspace_.data(),
          .parallel = &parallel_};
}

Fault Executor::fault_of(std::size_t index, const RunBuffers& buffers) const {
  for (const OpResult& result : results_[index])
    if (result.any_non_finite(buffers, kernels_)) return {&graph().ops[index], result.param};
  return {};
}

Result<Fault> Executor::run_forward(const LocalStep& step, Check check) {
  const RunBuffers buffers = buffers_of(step);
  for (std::size_t i = 0; i < program_.first_backward; ++i) {
    ES_RETURN_IF_ERROR(run_one(i, RunMode::kTrain, buffers));
    // Most operators raise no flag, so their results are not read a second time.
    if (check == Check::kFlagged && non_finite_flags() == 0) continue;
    const Fault fault = fault_of(i, buffers);
    if (fault.op != nullptr) return fault;
  }
  return Fault{};
}

Result<LocalStepResult> Executor::run_local_step(const LocalStep& step,
                                                 const OnBucketReady& on_bucket_ready) {
  last_run_ = &tensors_;
  tensors_.bind_inputs(step.batch.words);
  tensors_.bind_params(step.params);
  grads_ = step.gradient.host(step.gradient.path.slots.front());
  tensors_.bind_gradients(grads_);
  Result<Fault> forward = run_forward(step, Check::kFlagged);
  if (!forward) return forward.error();
  const float loss = *tensors_[graph().mean_loss];
  // Without a fault the loss is finite, unless a value that is not finite entered the step. Such a
  // value passes through operations without raising a flag, so the forward pass runs again with all
  // outputs checked.
  if (forward->op == nullptr && !std::isfinite(loss)) forward = run_forward(step, Check::kAll);
  if (!forward) return forward.error();
  Fault fault = *forward;
  if (fault.op != nullptr) return LocalStepResult{loss, fault};
  const RunBuffers buffers = buffers_of(step);
  // Buckets are reported in ascending order, each after the last operator that writes a gradient of
  // it, so that its sum over the workers can begin while earlier layers are still being
  // differentiated.
  std::uint32_t bucket = 0;
  for (std::size_t i = program_.first_backward; i < graph().ops.size(); ++i) {
    ES_RETURN_IF_ERROR(run_one(i, RunMode::kTrain, buffers));
    if (non_finite_flags() != 0) fault = fault_of(i, buffers);
    if (fault.op != nullptr) return LocalStepResult{loss, fault};
    for (; bucket < buckets_.size() && bucket_ready_op_[bucket] == i; ++bucket) {
      complete_bucket(bucket, step.gradient);
      on_bucket_ready(bucket);
    }
  }
  // clear_untouched() in differentiate.cc has given every trained parameter an operator that writes
  // its gradient, so every bucket was completed.
  ES_CHECK(bucket == buckets_.size());
  return LocalStepResult{loss, {}};
}

void Executor::complete_bucket(std::uint32_t bucket, const GradientTarget& target) {
  if (target.inspect) target.inspect(bucket, grads_ + buckets_[bucket].begin);
  merge_on_host(target, buckets_[bucket], kernels_);
}

Status Executor::run_eval(const float* params, const StepInput& input, float* gradient) {
  const std::int64_t floats = graph().table.trained_floats();
  // An evaluation rarely needs all of it, and what it does not touch occupies no memory.
  if (gradient == nullptr && in_place_of_gradient_.floats() != floats)
    in_place_of_gradient_ = AlignedBuffer::uninitialised(floats, "activations of an evaluation");
  last_run_ = &evaluation_;
  evaluation_.bind_gradients(gradient == nullptr ? in_place_of_gradient_.data() : gradient);
  evaluation_.bind_inputs(input.batch.words);
  evaluation_.bind_params(params);
  const RunBuffers buffers{.tensors = evaluation_.data(),
                           .params = params,
                           .stats = input.stats,
                           .key = input.key,
                           .workspace = workspace_.data(),
                           .parallel = &parallel_};
  for (std::size_t i = 0; i < program_.first_backward; ++i)
    ES_RETURN_IF_ERROR(run_one(i, RunMode::kEvaluate, buffers));
  return {};
}

std::span<const float> Executor::values(TensorId t) const {
  const auto count = static_cast<std::size_t>(graph().shape(t).count());
  const float* const at = (*last_run_)[t];
  if (!graph().tensors[static_cast<std::size_t>(t)].bf16) return {at, count};
  widened_.resize(count);
  kernels_.widen(std::ssize(widened_), reinterpret_cast<const Bf16*>(at), widened_.data());
  return widened_;
}

std::span<const float> Executor::gradient(ParamId param) const {
  const ParamInfo& info = graph().table[param];
  return {grads_ + info.offset, static_cast<std::size_t>(info.count)};
}

}  // namespace es::gpu
