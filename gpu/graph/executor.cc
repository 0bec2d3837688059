#include "gpu/graph/executor.h"

#include <algorithm>
#include <cmath>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kPackAlignmentFloats = 16;

std::int64_t max_workspace(const Program& program, const KernelTable& kernels) {
  std::size_t floats = 0;
  for (const Op& op : program.graph.ops)
    floats = std::max(floats, op_workspace_floats(kernels, program.graph, op));
  return static_cast<std::int64_t>(floats);
}

bool all_finite(const float* values, std::int64_t count) {
  return std::all_of(values, values + count, [](float v) { return std::isfinite(v); });
}

}  // namespace

Executor::Executor(Program program, const KernelTable& kernels, const std::vector<Bucket>& buckets)
    : program_(std::move(program)),
      kernels_(kernels),
      plan_(plan_memory(program_)),
      arena_(plan_.arena_floats),
      workspace_(max_workspace(program_, kernels)),
      tensors_(program_.graph.tensors.size(), nullptr) {
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    if (plan_.offset[t] == MemoryPlan::kInput) {
      input_tensors_.push_back(static_cast<TensorId>(t));
    } else {
      tensors_[t] = arena_.data() + plan_.offset[t];
    }
  }
  plan_packing();
  plan_buckets(buckets);
}

void Executor::plan_packing() {
  std::int64_t total = 0;
  for (const Op& op : program_.graph.ops) {
    const auto floats = static_cast<std::int64_t>(op_packed_floats(kernels_, op));
    packed_offset_.push_back(floats == 0 ? -1 : total);
    total += (floats + kPackAlignmentFloats - 1) / kPackAlignmentFloats * kPackAlignmentFloats;
  }
  packed_ = AlignedBuffer(total);
  packed_valid_.assign(packed_offset_.size(), false);
}

void Executor::plan_buckets(const std::vector<Bucket>& buckets) {
  const Graph& graph = program_.graph;
  bucket_ready_op_.assign(buckets.size(), program_.first_backward);
  for (std::size_t i = program_.first_backward; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const bool writes_weight = op.kind == OpKind::kConvWgrad || op.kind == OpKind::kLinearWgrad ||
                               op.kind == OpKind::kBatchNormGrad;
    const bool writes_bias = op.kind == OpKind::kBiasGrad || op.kind == OpKind::kBatchNormGrad;
    if (writes_weight) bucket_ready_op_[bucket_of(buckets, graph.table[op.weight])] = i;
    if (writes_bias) bucket_ready_op_[bucket_of(buckets, graph.table[op.bias])] = i;
  }
  for (std::size_t b = 1; b < bucket_ready_op_.size(); ++b)  // reported in order
    bucket_ready_op_[b] = std::max(bucket_ready_op_[b], bucket_ready_op_[b - 1]);
}

void Executor::invalidate_weights() {
  packed_valid_.assign(packed_valid_.size(), false);
}

void Executor::set_input(const float* images) {
  // The plan never lets an operator write to the input's memory.
  for (const TensorId t : input_tensors_) tensors_[t] = const_cast<float*>(images);
}

void Executor::run_one(std::size_t index, RunMode mode, const RunBuffers& buffers) {
  const Op& op = program_.graph.ops[index];
  float* packed = nullptr;
  if (packed_offset_[index] >= 0) {
    packed = packed_.data() + packed_offset_[index];
    if (!packed_valid_[index]) {
      pack_op_weights(kernels_, op, buffers.params + graph().table[op.weight].offset, packed);
      packed_valid_[index] = true;
    }
  }
  run_op(kernels_, graph(), op, mode, buffers, packed);
}

RunBuffers Executor::buffers_of(const LocalStep& step) {
  ES_CHECK(step.stats != step.next_stats || graph().table.stat_floats() == 0);
  return {.tensors = tensors_.data(),
          .params = step.params,
          .grads = step.grads,
          .stats = step.stats,
          .next_stats = step.next_stats,
          .labels = step.batch.labels,
          .workspace = workspace_.data()};
}

LocalStepResult Executor::run_local_step(const LocalStep& step,
                                         const OnBucketReady& on_bucket_ready) {
  set_input(step.batch.images);
  const RunBuffers buffers = buffers_of(step);
  for (std::size_t i = 0; i < program_.first_backward; ++i) run_one(i, RunMode::kTrain, buffers);
  const float loss = *tensors_[graph().mean_loss];
  if (!std::isfinite(loss) || !all_finite(step.next_stats, graph().table.stat_floats()))
    return {loss, false};
  std::uint32_t bucket = 0;
  for (std::size_t i = program_.first_backward; i < graph().ops.size(); ++i) {
    run_one(i, RunMode::kTrain, buffers);
    while (bucket < bucket_ready_op_.size() && bucket_ready_op_[bucket] == i)
      on_bucket_ready(bucket++);
  }
  ES_CHECK(bucket == bucket_ready_op_.size());
  return {loss, true};
}

Executor::EvalOutput Executor::run_eval(const float* params, const float* stats,
                                        const Batch& batch) {
  set_input(batch.images);
  const RunBuffers buffers{.tensors = tensors_.data(),
                           .params = params,
                           .stats = stats,
                           .labels = batch.labels,
                           .workspace = workspace_.data()};
  for (std::size_t i = 0; i < program_.first_backward; ++i) run_one(i, RunMode::kEvaluate, buffers);
  return {tensors_[graph().logits], tensors_[graph().row_loss]};
}

bool Executor::outputs_finite(const Op& op) const {
  for (const TensorId t : op.out) {
    if (graph().tensors[t].type != ElementType::kF32) continue;
    if (!all_finite(tensors_[t], graph().shape(t).count())) return false;
  }
  return true;
}

std::string Executor::first_non_finite_op(const LocalStep& step) {
  set_input(step.batch.images);
  const RunBuffers buffers = buffers_of(step);
  for (std::size_t i = 0; i < program_.first_backward; ++i) {
    run_one(i, RunMode::kTrain, buffers);
    const Op& op = graph().ops[i];
    if (!outputs_finite(op)) return op.name + " (" + op_name(op.kind) + ")";
  }
  return {};
}

}  // namespace es::gpu
