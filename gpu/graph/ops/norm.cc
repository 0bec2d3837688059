// Batch norm, layer norm, softmax, and sums over rows.
#include "gpu/canonical/phases.h"
#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {
namespace {

// The kernels take a tensor as rows of c elements.
std::int64_t rows(const OpShapes& op) {
  return op.in_shape().rows();
}
std::int64_t row(const OpShapes& op) {
  return op.in_shape().row();
}

// --- Shape rules. `mean` and `istd` have one value for each channel (batch norm) or for each row
// (layer norm).

OutputTensors batch_norm_outputs(const Graph& graph, Op& op) {
  const TensorShape& x = graph.shape(op.in[0]);
  // PyTorch refuses the same shapes in training ("Expected more than 1 value per channel").
  if (x.rows() == 1)
    return usage_error("its input " + shape_text(x) +
                       " has one value per channel, whose variance is 0: allowed are at least 2, "
                       "by a larger batch_size or larger images");
  const Tensor channels{{1, 1, 1, x.row()}};
  return std::vector<Tensor>{{x}, channels, channels};
}

OutputTensors layer_norm_outputs(const Graph& graph, Op& op) {
  const TensorShape& x = graph.shape(op.in[0]);
  // With eps = 0 a row of equal elements, whose variance is 0, would be divided by 0.
  if (!(op.eps > 0.0F)) return usage_error("eps must be above 0");
  const Tensor by_row{with_extent(x, x.rank() - 1, 1)};
  return std::vector<Tensor>{{x}, by_row, by_row};
}

OutputTensors softmax_outputs(const Graph& graph, Op& op) {
  return std::vector<Tensor>{{graph.shape(op.in[0])}};
}

// --- Gradients. The kernel computes the gradients of the parameters together with dx, so dx is
// computed even if the input needs no gradient.
template <OpKind kKind>
void normalised_gradient(Gradients& g, const Op& op) {
  g.emit_norm_grad(op, kKind, {op.in[0], g.of(op.out[0]), op.out[1], op.out[2]});
}

// The gradient takes the memory of dy if nothing reads it later. The kernels allow dx to alias dy.
std::vector<TensorId> in_place_of_dy(const Op& op) {
  return {op.in[1]};
}

// --- Batch norm.

std::string activation_name(const Op& op) {
  if (op.activation == Activation::kRelu) return "relu";
  return op.activation == Activation::kLeakyRelu ? "leaky_relu" : "";
}

BnForward batch_norm_call(const OpRun& run) {
  const Op& op = run.op;
  const RunBuffers& b = run.buffers;
  // A batch norm that a step calls twice updates its statistics twice, as in PyTorch: the second
  // call begins with what the first one has written for the next version. An evaluation writes
  // nothing, so every call reads the same statistics.
  const bool updated = op.stats.updated && run.mode == RunMode::kTrain;
  const float* const running = updated ? b.next_stats : b.stats;
  return {.rows = rows(run),
          .c = row(run),
          .x = run.in(0),
          .gamma = run.weight(),
          .beta = run.bias(),
          .eps = op.eps,
          .momentum = op.momentum,
          .running_mean = running + op.stats.mean,
          .running_var = running + op.stats.variance,
          .act = op.activation,
          .y = run.out(0),
          .mean = run.out(1),
          .istd = run.out(2),
          .next_mean = b.next_stats + op.stats.mean,
          .next_var = b.next_stats + op.stats.variance,
          .ws = b.workspace};
}

BnBackward batch_norm_grad_call(const OpRun& run) {
  return {.rows = rows(run),
          .c = row(run),
          .x = run.in(0),
          .dy = run.in(1),
          .mean = run.in(2),
          .istd = run.in(3),
          .gamma = run.weight(),
          .beta = run.bias(),
          .act = run.op.activation,
          .dx = run.out(0),
          .dgamma = run.weight_grad(),
          .dbeta = run.bias_grad(),
          .ws = run.buffers.workspace};
}

void run_batch_norm(const OnCpu& on, const OpRun& run) {
  const BnForward bn = batch_norm_call(run);
  if (run.mode == RunMode::kTrain) return bn_train_fwd(on.kernels, bn, run);
  bn_eval(on.kernels, bn.rows, bn.c, bn.x, bn.gamma, bn.beta, bn.eps, bn.running_mean,
          bn.running_var, bn.act, bn.y, bn.ws, run);
}

void queue_batch_norm(const OnDevice& on, const OpRun& run) {
  const BnForward bn = batch_norm_call(run);
  if (run.mode == RunMode::kTrain) return on(on.kernels.bn_train_fwd, bn);
  on(on.kernels.bn_eval, bn.rows, bn.c, bn.x, bn.gamma, bn.beta, bn.eps, bn.running_mean,
     bn.running_var, bn.act, bn.y, bn.ws);
}

// --- Layer norm.

template <class On>
void layer_norm(const On& on, const OpRun& run) {
  const std::int64_t c = row(run);
  run.share(rows(run), c, [&](std::int64_t begin, std::int64_t end) {
    on(on.kernels.layer_norm_fwd, end - begin, c, run.in(0) + begin * c, run.weight(), run.bias(),
       run.op.eps, run.out(0) + begin * c, run.out(1) + begin, run.out(2) + begin);
  });
}

// Calls with(arguments...) with the arguments of the whole operator.
template <class Call>
void with_layer_norm_gradient(const OpRun& run, Call&& with) {
  // The arguments are evaluated here for both kinds of machines; the phases of the CPU get `run` in
  // addition, which divides the work.
  with(rows(run), row(run), run.in(0), run.in(1), run.in(2), run.in(3), run.weight(), run.out(0),
       run.weight_grad(), run.bias_grad(), run.buffers.workspace);
}

void run_layer_norm_gradient(const OnCpu& on, const OpRun& run) {
  with_layer_norm_gradient(
      run, [&](auto... arguments) { layer_norm_bwd(on.kernels, arguments..., run); });
}

void queue_layer_norm_gradient(const OnDevice& on, const OpRun& run) {
  with_layer_norm_gradient(run,
                           [&](auto... arguments) { on(on.kernels.layer_norm_bwd, arguments...); });
}

// --- Softmax.

template <class On>
void softmax(const On& on, const OpRun& run) {
  const std::int64_t c = row(run);
  run.share(rows(run), c, [&](std::int64_t begin, std::int64_t end) {
    on(on.kernels.softmax_fwd, end - begin, c, run.in(0) + begin * c, run.out(0) + begin * c);
  });
}

template <class On>
void softmax_gradient(const On& on, const OpRun& run) {
  const std::int64_t c = row(run);
  run.share(rows(run), c, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * c;
    on(on.kernels.softmax_bwd, end - begin, c, run.in(0) + at, run.in(1) + at, run.out(0) + at);
  });
}

// --- Sums over rows.

void sum_rows(const OnCpu& on, const OpRun& run, std::int64_t count, std::int64_t columns,
              float* out) {
  colsum(on.kernels, count, columns, run.in(0), out, run.buffers.workspace, run);
}
void sum_rows(const OnDevice& on, const OpRun& run, std::int64_t count, std::int64_t columns,
              float* out) {
  on(on.kernels.colsum, count, columns, run.in(0), out, run.buffers.workspace);
}

constexpr auto kBatchNormWorkspace = [](const auto& k, const OpShapes& op) {
  return k.bn_workspace_floats(rows(op), row(op));
};

constexpr Operator kNormOperators[] = {
    {.kind = OpKind::kBatchNorm,
     .name = "batch_norm",
     .kernels = "bn_train_fwd, bn_bwd, bn_eval",
     .detail = activation_name,
     .inputs = Inputs::kDense,
     .outputs = batch_norm_outputs,
     .stored = Stored::kFirstBf16,
     .gradient = normalised_gradient<OpKind::kBatchNormGrad>,
     .writes_stats = true,
     .workspace = kBatchNormWorkspace,
     .run = {run_batch_norm, queue_batch_norm}},
    {.kind = OpKind::kBatchNormGrad,
     .name = "batch_norm gradient",
     .writes_weight_grad = true,
     .writes_bias_grad = true,
     .in_place = in_place_of_dy,
     .workspace = kBatchNormWorkspace,
     .run = {[](const OnCpu& on, const OpRun& run) {
               bn_bwd(on.kernels, batch_norm_grad_call(run), run);
             },
             [](const OnDevice& on, const OpRun& run) {
               on(on.kernels.bn_bwd, batch_norm_grad_call(run));
             }}},

    {.kind = OpKind::kLayerNorm,
     .name = "layer_norm",
     .kernels = "layer_norm_fwd, layer_norm_bwd",
     .inputs = Inputs::kDense,
     .outputs = layer_norm_outputs,
     .stored = Stored::kFirstBf16,
     .gradient = normalised_gradient<OpKind::kLayerNormGrad>,
     .run = [](const auto& on, const OpRun& run) { layer_norm(on, run); }},
    {.kind = OpKind::kLayerNormGrad,
     .name = "layer_norm gradient",
     .writes_weight_grad = true,
     .writes_bias_grad = true,
     .in_place = in_place_of_dy,
     .workspace =
         [](const auto& k, const OpShapes& op) {
           return k.layer_norm_bwd_workspace_floats(rows(op), row(op));
         },
     .run = {run_layer_norm_gradient, queue_layer_norm_gradient}},

    {.kind = OpKind::kSoftmax,
     .name = "softmax",
     .kernels = "softmax_fwd, softmax_bwd",
     .inputs = Inputs::kDense,
     .outputs = softmax_outputs,
     .gradient =
         [](Gradients& g, const Op& op) {
           g.emit_data_grad(op, OpKind::kSoftmaxGrad, {op.out[0], g.of(op.out[0])}, op.in[0]);
         },
     .in_place = [](const Op& op) { return std::vector<TensorId>{op.in[0]}; },
     .run = [](const auto& on, const OpRun& run) { softmax(on, run); }},
    {.kind = OpKind::kSoftmaxGrad,
     .name = "softmax gradient",
     .in_place = in_place_of_dy,
     .run = [](const auto& on, const OpRun& run) { softmax_gradient(on, run); }},

    {.kind = OpKind::kBiasGrad,
     .name = "bias gradient",
     .writes_bias_grad = true,
     .workspace = [](const auto& k,
                     const OpShapes& op) { return k.colsum_workspace_floats(rows(op), row(op)); },
     .run = [](const auto& on,
               const OpRun& run) { sum_rows(on, run, rows(run), row(run), run.bias_grad()); }},
    {.kind = OpKind::kColumnSum,
     .name = "column sum",
     .workspace =
         [](const auto& k, const OpShapes& op) {
           const TensorShape& x = op.in_shape();
           return k.colsum_workspace_floats(x.front(), x.count(1, x.rank()));
         },
     .run =
         [](const auto& on, const OpRun& run) {
           sum_rows(on, run, run.in_shape().front(), run.out_shape().count(), run.out(0));
         }},
};

}  // namespace

std::span<const Operator> norm_operators() {
  return kNormOperators;
}

}  // namespace es::gpu
