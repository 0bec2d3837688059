#include "gpu/graph/executor.h"

#include <algorithm>
#include <cmath>

#include "gpu/float_flags.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

std::int64_t max_workspace(const Program& program, const KernelTable& kernels, int threads) {
  std::size_t floats = 0;
  for (const Op& op : program.graph.ops)
    floats = std::max(floats, op_workspace_floats(kernels, program.graph, op, threads));
  return static_cast<std::int64_t>(floats);
}

std::vector<const float*> constant_words(const Graph& graph) {
  std::vector<const float*> words;
  for (const Constant& c : graph.constants) words.push_back(c.words.data());
  return words;
}

}  // namespace

Executor::Executor(Program program, const KernelTable& kernels, const std::vector<Bucket>& buckets,
                   Parallel& parallel, VendorOps vendor)
    : program_(std::move(program)),
      kernels_(kernels),
      parallel_(parallel),
      vendor_(std::move(vendor)),
      plan_(plan_memory(program_)),
      bucket_ready_op_(bucket_ready_ops(program_, buckets)),
      arena_(plan_.arena_floats, "activations and their gradients"),
      workspace_(max_workspace(program_, kernels, parallel.threads()), "the kernels' workspace"),
      tensors_(program_.graph, plan_, arena_.data(), constant_words(program_.graph)) {}

void Executor::run_one(std::size_t index, RunMode mode, const RunBuffers& buffers) {
  const Op& op = graph().ops[index];
  if (observer_ != nullptr) observer_->begin_op(op);
  clear_non_finite_flags();
  if (!vendor_.run(index, graph(), buffers)) run_op(kernels_, graph(), op, mode, buffers);
  if (observer_ != nullptr) observer_->end_op(op);
}

RunBuffers Executor::buffers_of(const LocalStep& step) {
  ES_CHECK(step.stats != step.next_stats || graph().table.stat_floats() == 0);
  return {.tensors = tensors_.data(),
          .params = step.params,
          .grads = step.grads,
          .stats = step.stats,
          .next_stats = step.next_stats,
          .key = step.key,
          .workspace = workspace_.data(),
          .parallel = &parallel_};
}

bool Executor::all_finite(const float* values, std::int64_t count) const {
  return !kernels_.any_non_finite(count, values);
}

Fault Executor::fault_of(const Op& op, const LocalStep& step) const {
  for (const TensorId t : op.out)
    if (graph().tensors[t].type == ElementType::kF32 &&
        !all_finite(tensors_[t], graph().shape(t).count()))
      return {&op, kNoParam};
  const ParamTable& table = graph().table;
  for (const ParamId id : {writes_bias_grad(op.kind) ? op.bias : kNoParam,
                           writes_weight_grad(op.kind) ? op.weight : kNoParam})
    if (id != kNoParam && !all_finite(step.grads + table[id].offset, table[id].count))
      return {&op, id};
  if (op.kind != OpKind::kBatchNorm) return {};
  const std::int64_t channels = graph().shape(op.out[0]).c;
  for (const std::int64_t offset : {op.stats.mean, op.stats.variance})
    if (!all_finite(step.next_stats + offset, channels)) return {&op, kNoParam};
  return {};
}

Fault Executor::run_forward(const LocalStep& step, Check check) {
  const RunBuffers buffers = buffers_of(step);
  for (std::size_t i = 0; i < program_.first_backward; ++i) {
    run_one(i, RunMode::kTrain, buffers);
    if (check == Check::kFlagged && non_finite_flags() == 0) continue;
    const Fault fault = fault_of(graph().ops[i], step);
    if (fault.op != nullptr) return fault;
  }
  return {};
}

Result<LocalStepResult> Executor::run_local_step(const LocalStep& step,
                                                 const OnBucketReady& on_bucket_ready) {
  tensors_.bind_inputs(step.batch.words);
  Fault fault = run_forward(step, Check::kFlagged);
  const float loss = *tensors_[graph().mean_loss];
  // Without a fault the loss is finite, unless a value that is not entered the step.
  if (fault.op == nullptr && !std::isfinite(loss)) fault = run_forward(step, Check::kAll);
  if (fault.op != nullptr) return LocalStepResult{loss, fault};
  const RunBuffers buffers = buffers_of(step);
  std::uint32_t bucket = 0;
  for (std::size_t i = program_.first_backward; i < graph().ops.size(); ++i) {
    run_one(i, RunMode::kTrain, buffers);
    if (non_finite_flags() != 0) fault = fault_of(graph().ops[i], step);
    if (fault.op != nullptr) return LocalStepResult{loss, fault};
    while (bucket < bucket_ready_op_.size() && bucket_ready_op_[bucket] == i)
      on_bucket_ready(bucket++);
  }
  ES_CHECK(bucket == bucket_ready_op_.size());
  return LocalStepResult{loss, {}};
}

Status Executor::run_eval(const float* params, const float* stats, const Batch& batch) {
  tensors_.bind_inputs(batch.words);
  const RunBuffers buffers{.tensors = tensors_.data(),
                           .params = params,
                           .stats = stats,
                           .workspace = workspace_.data(),
                           .parallel = &parallel_};
  for (std::size_t i = 0; i < program_.first_backward; ++i) run_one(i, RunMode::kEvaluate, buffers);
  return {};
}

std::span<const float> Executor::values(TensorId t) const {
  return {tensors_[t], static_cast<std::size_t>(graph().shape(t).count())};
}

}  // namespace es::gpu
