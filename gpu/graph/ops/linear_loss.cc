// A linear layer over many classes and its cross entropy, some rows at a time (chunk_losses.h): the
// logits of all rows are never in memory together.
#include <algorithm>

#include "gpu/canonical/order.h"
#include "gpu/canonical/phases.h"
#include "gpu/graph/arithmetic.h"
#include "gpu/graph/chunk_losses.h"
#include "gpu/graph/ops/product_run.h"

namespace es::gpu {
namespace {

// The products over the rows, in the gradient of the weight, are divided at chunks of DOT.
static_assert(kLossRows % kDotChunk == 0 && kLossRows % kColumnRun == 0);

// Inputs: x, labels, and the weight and the bias if they are tensors. Outputs: dx, dW and db as far
// as they are needed, the logits if an evaluation reads them, and the losses.
constexpr std::size_t kLossOutputs = 2;

bool has_weight_grad(const Op& op) {
  return op.tensors.weight_grad >= 0;
}
bool has_linear_bias_grad(const Op& op) {
  return op.tensors.bias_grad >= 0;
}

TensorId logits_of_evaluation(const Op& op) {
  const std::size_t gradients =
      1 + (has_weight_grad(op) ? 1U : 0U) + (has_linear_bias_grad(op) ? 1U : 0U);
  return op.out.size() > gradients + kLossOutputs ? op.out[gradients] : kNoTensor;
}

// The shape of the layer for `n` rows, in the forward pass and for its gradients.
LinearShape layer_of(const OpShapes& op, std::int64_t n) {
  return {n, op.in_shape().row(), op.op.features, arithmetic_of(op.graph, op.op)};
}
LinearShape gradients_of(const OpShapes& op, std::int64_t n) {
  return {n, op.in_shape().row(), op.op.features, arithmetic_of_gradients(op.graph, op.op)};
}

std::int64_t aligned_floats(std::int64_t floats) {
  return (floats + 15) / 16 * 16;
}

// The workspace: a strip of logits, which become their gradients; the sums of the runs of COLSUM
// for the gradient of the bias; and the workspace of products and sums.
struct LossMemory {
  LossMemory(const OpShapes& op, std::int64_t rows)
      : strip(aligned_floats(std::min(rows, kLossRows) * layer_of(op, 1).out)),
        runs(has_linear_bias_grad(op.op) ? aligned_floats(run_total(rows) * layer_of(op, 1).out)
                                         : 0) {}
  static std::int64_t run_total(std::int64_t rows) { return (rows + kColumnRun - 1) / kColumnRun; }
  std::int64_t strip, runs;  // floats
};

// The gradients of logits and x are fp32 in memory.
GemmShape weight_gradient(const Graph& graph, const LinearShape& s) {
  GemmShape shape = s.weight_gradient();
  shape.a_stored = shape.b_stored = fp32_factor(graph);
  return shape;
}

// The gradients of the logits are factors of two products (precision.h). A CPU rounds them where
// they are read.
void round_factors(const OnCpu&, const Graph&, std::int64_t, float*) {}
void round_factors(const OnDevice& on, const Graph& graph, std::int64_t count, float* strip) {
  if (graph.bf16) round_floats(on, count, strip, strip);
}

template <class Kernels>
std::size_t linear_loss_floats(const Kernels& k, const OpShapes& op, int threads) {
  const std::int64_t rows = op.in_shape().rows(), classes = layer_of(op, 1).out;
  const LossMemory memory(op, rows);
  std::size_t rest = 0;
  // The last rows may be fewer, and their products may need another workspace.
  for (const std::int64_t n : {std::min(rows, kLossRows), rows % kLossRows}) {
    if (n == 0) continue;
    const auto floats = [&](const LinearShape& s, LayerPass pass) {
      return layer_floats(k, op.graph, s, pass, fp32_factor(op.graph), threads);
    };
    const LinearShape gradients = gradients_of(op, n);
    rest = std::max({rest, floats(layer_of(op, n), LayerPass::kForward),
                     floats(gradients, LayerPass::kDataGradient),
                     gemm_floats(k, weight_gradient(op.graph, gradients), threads)});
  }
  if (memory.runs != 0)
    for (const std::int64_t n : {kColumnRun, LossMemory::run_total(rows)})
      rest = std::max(rest, k.colsum_workspace_floats(n, classes));
  return static_cast<std::size_t>(memory.strip + memory.runs) + rest;
}

void sum_class_columns(const OnCpu& on, const OpRun& run, std::int64_t rows, std::int64_t columns,
                       const float* x, float* out, float* ws) {
  colsum(on.kernels, rows, columns, x, out, ws, run);
}
void sum_class_columns(const OnDevice& on, const OpRun&, std::int64_t rows, std::int64_t columns,
                       const float* x, float* out, float* ws) {
  on(on.kernels.colsum, rows, columns, x, out, ws);
}

template <class On>
class LinearLoss {
 public:
  LinearLoss(const On& on, const OpRun& run)
      : on_(on),
        run_(run),
        rows_(run.in_shape().rows()),
        memory_(run, rows_),
        strip_(run.buffers.workspace),
        runs_(strip_ + memory_.strip),
        rest_(runs_ + memory_.runs) {}

  void run() const {
    for (std::int64_t r = 0; r < rows_; r += kLossRows) {
      const std::int64_t n = std::min(kLossRows, rows_ - r);
      losses(r, n);
      if (run_.mode == RunMode::kTrain) gradients(r, n);
    }
    const std::size_t losses = run_.op.out.size() - kLossOutputs;
    on_(on_.kernels.softmax_xent_mean, rows_, run_.ids(1), run_.out(losses), run_.out(losses + 1));
    if (run_.mode == RunMode::kTrain && has_linear_bias_grad(run_.op))
      sum_class_columns(on_, run_, LossMemory::run_total(rows_), classes(), runs_, run_.bias_grad(),
                        rest_);
  }

 private:
  std::int64_t classes() const { return layer_of(run_, 1).out; }
  const float* rows_of_x(std::int64_t r) const { return run_.in(0) + r * run_.in_shape().row(); }

  // Leaves the probabilities of the rows in the strip.
  void losses(std::int64_t r, std::int64_t n) const {
    const bool keeps =
        run_.mode == RunMode::kEvaluate && logits_of_evaluation(run_.op) != kNoTensor;
    const std::size_t losses = run_.op.out.size() - kLossOutputs;
    float* const logits = keeps ? run_.out(losses - 1) + r * classes() : strip_;
    run_layer(on_, run_, layer_of(run_, n), LayerPass::kForward, fp32_factor(run_.graph),
              {rows_of_x(r), run_.weight(), run_.bias(), logits}, rest_);
    run_.share(n, classes(), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * classes();
      on_(on_.kernels.softmax_xent_fwd, end - begin, classes(), logits + at,
          run_.ids(1) + r + begin, run_.op.terms, strip_ + at, run_.out(losses) + r + begin);
    });
  }

  // The products over the rows go on with the sums of earlier chunks.
  void gradients(std::int64_t r, std::int64_t n) const {
    const LabelledRows counted{rows_, run_.ids(1)};
    run_.share(n, classes(), [&](std::int64_t begin, std::int64_t end) {
      float* const at = strip_ + begin * classes();
      on_(on_.kernels.softmax_xent_bwd, end - begin, classes(), at, run_.ids(1) + r + begin,
          counted, run_.op.terms, at);
    });
    if (has_linear_bias_grad(run_.op)) sum_runs(r, n);
    round_factors(on_, run_.graph, n * classes(), strip_);
    const LinearShape shape = gradients_of(run_, n);
    run_layer(on_, run_, shape, LayerPass::kDataGradient, fp32_factor(run_.graph),
              {strip_, run_.weight(), nullptr, run_.out(0) + r * run_.in_shape().row()}, rest_);
    if (!has_weight_grad(run_.op)) return;
    GemmShape weight = weight_gradient(run_.graph, shape);
    weight.add = r > 0;
    run_gemm(on_, run_, weight, {strip_, rows_of_x(r), nullptr, run_.weight_grad()}, rest_);
  }

  // A run of 64 rows is a COLSUM of its own; the sums of all runs follow in run().
  void sum_runs(std::int64_t r, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; i += kColumnRun)
      sum_class_columns(on_, run_, std::min(kColumnRun, n - i), classes(), strip_ + i * classes(),
                        runs_ + (r + i) / kColumnRun * classes(), rest_);
  }

  const On& on_;
  const OpRun& run_;
  std::int64_t rows_;
  LossMemory memory_;
  float *strip_, *runs_, *rest_;
};

constexpr Operator kLinearLossOperators[] = {
    {.kind = OpKind::kLinearCrossEntropy,
     .name = "linear cross entropy",
     .kernels = "gemm, softmax_xent_fwd, softmax_xent_mean, softmax_xent_bwd, colsum",
     .stored = Stored::kF32,
     .factors = [](const Op&) { return std::vector<std::size_t>{0}; },
     .rounds_weight = true,
     .is_loss = true,
     .evaluation_output = logits_of_evaluation,
     .workspace = {[](const KernelTable& k, const OpShapes& op, int threads) {
                     return linear_loss_floats(k, op, threads);
                   },
                   [](const cuda::DeviceKernels& k, const OpShapes& op) {
                     return linear_loss_floats(k, op, 1);
                   }},
     .run = [](const auto& on, const OpRun& run) { LinearLoss(on, run).run(); }},
};

}  // namespace

std::span<const Operator> linear_loss_operators() {
  return kLinearLossOperators;
}

}  // namespace es::gpu
