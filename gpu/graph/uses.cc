#include "gpu/graph/uses.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "gpu/graph/ops/operator.h"

namespace es::gpu {

Uses::Uses(const Graph& graph)
    : reads(graph.tensors.size(), 0),
      writer(graph.tensors.size(), -1),
      last_read(graph.tensors.size(), -1) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const TensorId t : graph.ops[i].out) at(writer, t) = static_cast<std::int64_t>(i);
    for (const TensorId t : graph.ops[i].in) {
      ++at(reads, t);
      at(last_read, t) = static_cast<std::int64_t>(i);
    }
  }
  // A result that the caller reads must stay in memory, so no pass may treat it as read by an
  // operator alone. last_read knows operators only.
  for (const TensorId t : graph.outputs) ++at(reads, t);
  for (const TensorId t : {graph.row_loss, graph.row_weight, graph.mean_loss})
    if (t != kNoTensor) ++at(reads, t);
}

bool keeps_no_more_alive(const Graph& graph, const Uses& uses, const std::vector<bool>& merged,
                         std::size_t writer, std::size_t reader) {
  bool adjacent = true;
  // Operators that are parts of others do not run any more, so nothing lies between the two.
  for (std::size_t i = writer + 1; i < reader; ++i) adjacent = adjacent && merged[i];
  if (adjacent) return true;
  std::vector<TensorId> in = graph.ops[writer].in;
  std::sort(in.begin(), in.end());
  // An operator may read a tensor twice; its memory counts once.
  in.erase(std::unique(in.begin(), in.end()), in.end());
  std::int64_t words = 0;
  for (const TensorId t : in)
    if (Uses::at(uses.last_read, t) < static_cast<std::int64_t>(reader))
      // This input would be freed before the reader runs, and now lives until then. In return the
      // result of the writer is never stored.
      words += graph.shape(t).count();
  return words <= graph.shape(graph.ops[writer].out[0]).count();
}

std::vector<double> live_behind(const Graph& graph) {
  const std::size_t count = graph.ops.size();
  // A view writes nothing, and who reads it reads the tensor behind it.
  std::vector<TensorId> behind(graph.tensors.size());
  std::iota(behind.begin(), behind.end(), 0);
  // [tensor]: its last reader, or its writer if nothing reads it
  std::vector<std::size_t> last(graph.tensors.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    const Op& op = graph.ops[i];
    for (const TensorId t : op.in) Uses::at(last, Uses::at(behind, t)) = i;
    for (const TensorId t : op.out) Uses::at(last, t) = i;
    if (op_def(op.kind).is_view) Uses::at(behind, op.out[0]) = Uses::at(behind, op.in[0]);
  }
  std::vector<double> live(count, 0.0);
  for (std::size_t i = 0; i < count; ++i) {
    if (op_def(graph.ops[i].kind).is_view) continue;
    for (const TensorId t : graph.ops[i].out) {
      const auto floats = static_cast<double>(graph.shape(t).count());
      // Live behind every operator from the writer to the one before the last reader.
      live[i] += floats;
      live[Uses::at(last, t)] -= floats;
    }
  }
  for (std::size_t i = 1; i < count; ++i) live[i] += live[i - 1];
  return live;
}

void drop_marked(std::vector<Op>& ops, const std::vector<bool>& marked) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (!marked[i]) std::swap(ops[kept++], ops[i]);
  ops.resize(kept);
}

void drop_marked(Program& program, const std::vector<bool>& marked) {
  // Removing operators in front of the boundary moves it.
  const auto backward = marked.begin() + static_cast<std::ptrdiff_t>(program.first_backward);
  program.first_backward -= static_cast<std::size_t>(std::count(marked.begin(), backward, true));
  drop_marked(program.graph.ops, marked);
}

}  // namespace es::gpu
