#include "gpu/graph/op_results.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/graph/ops/operator.h"
#include "gpu/graph/precision.h"

namespace es::gpu {

using Place = OpResult::Place;

const float* OpResult::values(const RunBuffers& buffers) const {
  if (place == Place::kGradient) return buffers.grads + offset;
  if (place == Place::kStatistic) return buffers.next_stats + offset;
  return buffers.tensors[static_cast<std::size_t>(tensor)];
}

bool OpResult::any_non_finite(const RunBuffers& buffers, const KernelTable& kernels) const {
  const float* const x = values(buffers);
  if (!bf16) return kernels.any_non_finite(count, x);
  const auto* const numbers = reinterpret_cast<const Bf16*>(x);
  return std::any_of(numbers, numbers + count, [](Bf16 v) { return !std::isfinite(widened(v)); });
}

namespace {

// A half of the largest float is the bound, because a sum of two such masks can be infinite.
bool masks(float constant) {
  return std::abs(constant) > std::numeric_limits<float>::max() / 2;
}

bool has_mask(const Op& op) {
  if (op.kind != OpKind::kProgram) return false;
  const ElementCode& code = op.program->code;
  return std::any_of(code.constant.begin(), code.constant.begin() + code.constants, masks);
}

// Returns whether masked elements of the inputs are masked elements of the outputs. A softmax, for
// example, turns them into +0, so its results are looked at again.
bool passes_masks(OpKind kind) {
  return kind == OpKind::kProgram || kind == OpKind::kChain || kind == OpKind::kMove ||
         kind == OpKind::kView;
}

std::vector<bool> masked_tensors(const Graph& graph) {
  std::vector<bool> masked(graph.tensors.size(), false);
  const auto is_masked = [&](TensorId t) { return masked[static_cast<std::size_t>(t)]; };
  for (const Constant& c : graph.constants)
    if (graph.tensors[static_cast<std::size_t>(c.tensor)].type == ElementType::kF32 &&
        std::any_of(c.words.begin(), c.words.end(), masks))
      masked[static_cast<std::size_t>(c.tensor)] = true;
  for (const Op& op : graph.ops) {
    // One pass in the order of execution is enough, since an operator comes after what it reads.
    if (!passes_masks(op.kind)) continue;
    if (!has_mask(op) && std::none_of(op.in.begin(), op.in.end(), is_masked)) continue;
    for (const TensorId t : op.out) masked[static_cast<std::size_t>(t)] = true;
  }
  return masked;
}

// `left_out` says which tensors are not listed.
std::vector<OpResult> results_of(const Graph& graph, const Op& op,
                                 const std::vector<bool>& left_out) {
  const Operator& entry = op_def(op.kind);
  std::vector<OpResult> results;
  // The memory of a view is looked at where it is written, and parameters are checked by the
  // caller.
  if (entry.is_view || entry.in_params || is_conversion(graph, op)) return results;
  for (const TensorId t : op.out)
    if (graph.tensors[t].type == ElementType::kF32 && !left_out[static_cast<std::size_t>(t)])
      results.push_back(
          {.tensor = t, .count = graph.shape(t).count(), .bf16 = graph.tensors[t].bf16});
  // The bias before the weight, the order in which differentiate() emits their gradients.
  for (const ParamId id : {entry.writes_bias_grad ? op.bias : kNoParam,
                           entry.writes_weight_grad ? op.weight : kNoParam})
    if (id != kNoParam)
      results.push_back({.place = Place::kGradient,
                         .param = id,
                         .offset = graph.table[id].offset,
                         .count = graph.table[id].count});
  if (entry.writes_stats)
    for (const std::int64_t offset : {op.stats.mean, op.stats.variance})
      results.push_back(
          {.place = Place::kStatistic, .offset = offset, .count = graph.shape(op.out[0]).row()});
  // The content of an output in an evaluation is another one, but what a step writes is looked at.
  if (op.kind == OpKind::kSetState && graph.tensors[op.in[0]].type == ElementType::kF32)
    results.push_back(
        {.place = Place::kStatistic, .offset = op.state, .count = graph.shape(op.in[0]).count()});
  return results;
}

}  // namespace

std::vector<bool> evaluation_tensors(const Graph& graph) {
  std::vector<bool> found(graph.tensors.size(), false);
  for (const Op& op : graph.ops) {
    if (const TensorId t = evaluation_output(op); t != kNoTensor)
      found[static_cast<std::size_t>(t)] = true;
    if (op_def(op.kind).is_view && found[static_cast<std::size_t>(op.in[0])])
      found[static_cast<std::size_t>(op.out[0])] = true;
  }
  return found;
}

std::vector<std::vector<OpResult>> op_results(const Graph& graph) {
  std::vector<bool> left_out = masked_tensors(graph);
  const std::vector<bool> evaluated = evaluation_tensors(graph);
  for (std::size_t t = 0; t < left_out.size(); ++t) left_out[t] = left_out[t] || evaluated[t];
  std::vector<std::vector<OpResult>> results;
  for (const Op& op : graph.ops) results.push_back(results_of(graph, op, left_out));
  return results;
}

}  // namespace es::gpu
