// Embeddings: rows of a parameter, selected by integers.
#include <algorithm>

#include "gpu/canonical/phases.h"
#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {
namespace {

OutputTensors embedding_outputs(const Graph& graph, Op& op) {
  const Tensor& ids = graph.tensors[static_cast<std::size_t>(op.in[0])];
  if (ids.type != ElementType::kI32 || ids.shape.row() != 1)
    return usage_error("its input " + shape_text(ids.shape) + " must be integers [n,h,w,1]");
  return std::vector<Tensor>{{with_extent(ids.shape, ids.shape.rank() - 1, op.features)}};
}

template <class On>
void embedding(const On& on, const OpRun& run) {
  const std::int64_t c = run.out_shape().row();
  run.share(run.in_shape().rows(), c, [&](std::int64_t begin, std::int64_t end) {
    on(on.kernels.embedding_fwd, end - begin, c, run.weight(), run.ids(0) + begin,
       run.out(0) + begin * c);
  });
}

// --- The gradient. Its inputs are the ids and dy, and what is known already of the gradient of a
// table that is a tensor, to which it is added.
constexpr std::size_t kBefore = 2;

std::int64_t ids(const OpShapes& op) {
  return op.in_shape().rows();
}
// The gradient covers the whole table: rows that no id names get +0.
std::int64_t table_rows(const OpShapes& op) {
  return op.weight_count() / op.in_shape(1).row();
}

const float* before(const OpRun& run) {
  return run.op.in.size() > kBefore ? run.in(kBefore) : nullptr;
}

void run_gradient(const OnCpu& on, const OpRun& run) {
  // Several ids may name one row. Its positions are listed first, and the sum of each element is
  // one thread's work.
  embedding_bwd(on.kernels, ids(run), run.in_shape(1).row(), table_rows(run), run.ids(0), run.in(1),
                before(run), run.weight_grad(), run.buffers.workspace, run);
}

void queue_gradient(const OnDevice& on, const OpRun& run) {
  on(on.kernels.embedding_bwd, ids(run), run.in_shape(1).row(), table_rows(run), run.ids(0),
     run.in(1), before(run), run.weight_grad(), run.buffers.workspace);
}

constexpr Operator kEmbeddingOperators[] = {
    {.kind = OpKind::kEmbedding,
     .name = "embedding",
     .kernels = "embedding_fwd, embedding_bwd",
     .outputs = embedding_outputs,
     .stored = Stored::kFirstBf16,
     .gradient =
         [](Gradients& g, const Op& op) {
           g.emit_weight_grad(op, OpKind::kEmbeddingGrad, {op.in[0], g.of(op.out[0])}, Adds::kYes);
         },
     .run = [](const auto& on, const OpRun& run) { embedding(on, run); }},
    {.kind = OpKind::kEmbeddingGrad,
     .name = "embedding gradient",
     .writes_weight_grad = true,
     .in_place =
         [](const Op& op) {
           return std::vector<TensorId>(
               op.in.begin() + std::min<std::ptrdiff_t>(kBefore, std::ssize(op.in)), op.in.end());
         },
     .workspace =
         [](const auto& k, const OpShapes& op) {
           return k.embedding_bwd_workspace_floats(ids(op), table_rows(op));
         },
     .run = {run_gradient, queue_gradient}},
};

}  // namespace

std::span<const Operator> embedding_operators() {
  return kEmbeddingOperators;
}

}  // namespace es::gpu
