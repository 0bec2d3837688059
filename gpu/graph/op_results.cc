#include "gpu/graph/op_results.h"

#include <algorithm>
#include <cmath>

#include "gpu/graph/ops/operator.h"

namespace es::gpu {

using Place = OpResult::Place;

const float* OpResult::values(const RunBuffers& buffers) const {
  if (place == Place::kGradient) return buffers.grads + offset;
  if (place == Place::kStatistic) return buffers.next_stats + offset;
  return buffers.tensors[static_cast<std::size_t>(tensor)];
}

namespace {

bool writes_infinities(const Op& op) {
  if (op.kind != OpKind::kProgram) return false;
  const ElementCode& code = op.program->code;
  return std::any_of(code.constant.begin(), code.constant.begin() + code.constants,
                     [](float c) { return std::isinf(c); });
}

}  // namespace

std::vector<OpResult> op_results(const Graph& graph, const Op& op) {
  const Operator& entry = op_def(op.kind);
  std::vector<OpResult> results;
  if (entry.is_view || entry.in_params || writes_infinities(op)) return results;
  for (const TensorId t : op.out)
    if (graph.tensors[t].type == ElementType::kF32)
      results.push_back({.tensor = t, .count = graph.shape(t).count()});
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
  return results;
}

}  // namespace es::gpu
