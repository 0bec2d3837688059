#include "gpu/graph/step_runner.h"

#include <algorithm>

#include "gpu/graph/ops/operator.h"

namespace es::gpu {

std::vector<std::size_t> bucket_ready_ops(const Program& program,
                                          const std::vector<Bucket>& buckets) {
  const Graph& graph = program.graph;
  std::vector<std::size_t> ready(buckets.size(), program.first_backward);
  for (std::size_t i = program.first_backward; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const Operator& entry = op_def(op.kind);
    if (entry.writes_weight_grad && op.weight != kNoParam)
      // The operators ascend, so the last one that writes a gradient of the bucket remains.
      ready[bucket_of(buckets, graph.table[op.weight])] = i;
    if (entry.writes_bias_grad && op.bias != kNoParam)
      ready[bucket_of(buckets, graph.table[op.bias])] = i;
  }
  for (std::size_t b = 1; b < ready.size(); ++b)  // buckets are reported in order
    ready[b] = std::max(ready[b], ready[b - 1]);
  return ready;
}

}  // namespace es::gpu
