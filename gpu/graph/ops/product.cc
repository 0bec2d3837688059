// Linear layers and batched matrix products. The work is divided by rows or columns of a product,
// or by products; no sum is divided. Every thread has its own scratch memory.
#include "gpu/graph/arithmetic.h"
#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/ops/product_run.h"

namespace es::gpu {
namespace {

// --- Shape rules.

OutputTensors linear_outputs(const Graph& graph, Op& op) {
  const TensorShape& x = graph.shape(op.in[0]);
  if (op.features < 1) return usage_error("out must be at least 1");
  return std::vector<Tensor>{{with_extent(x, x.rank() - 1, op.features)}};
}

// a [...,m,k] times b [...,k,p], or times b [...,p,k].
OutputTensors matmul_outputs(const Graph& graph, Op& op) {
  const TensorShape &a = graph.shape(op.in[0]), &b = graph.shape(op.in[1]);
  const bool transposed = op.transpose_b;
  const int rank = a.rank(), rows = rank - 2, columns = rank - 1;
  bool fits = rank >= 2 && b.rank() == rank;
  for (int axis = 0; fits && axis < rows; ++axis) fits = a[axis] == b[axis];
  if (!fits || a[columns] != b[transposed ? columns : rows])
    return usage_error("shapes " + shape_text(a) + " and " + shape_text(b) +
                       " must be [n,h,m,k] and " + (transposed ? "[n,h,p,k]" : "[n,h,k,p]"));
  const std::int64_t m = a[rows], k = a[columns], p = b[transposed ? rows : columns];
  // The strides describe either layout of b, so a transposed b is read where it lies and no
  // operator moves it.
  op.matmul.gemm = {.m = m,
                    .n = p,
                    .k = k,
                    .a_row = k,
                    .a_col = 1,
                    .b_row = transposed ? 1 : p,
                    .b_col = transposed ? k : 1,
                    .c_row = p,
                    .c_col = 1};
  op.matmul.count = a.count(0, rows);
  op.matmul.a_step = m * k;
  op.matmul.b_step = k * p;
  op.matmul.y_step = m * p;
  return std::vector<Tensor>{{with_extent(a, columns, p)}};
}

// --- The three products of a linear layer.

LinearShape forward_shape(const OpShapes& op) {
  return {op.in_shape().rows(), op.in_shape().row(), op.out_shape().row(),
          arithmetic_of(op.graph, op.op)};
}

LinearShape data_gradient_shape(const OpShapes& op) {
  return {op.in_shape().rows(), op.out_shape().row(), op.in_shape().row(),
          arithmetic_of(op.graph, op.op)};
}

MatmulShape linear_forward(const OpShapes& op) {
  return {.gemm = forward_shape(op).forward()};
}

MatmulShape linear_data_gradient(const OpShapes& op) {
  return {.gemm = data_gradient_shape(op).data_gradient()};
}

// The shape with the storage of its factors.
MatmulShape with_factors(const OpShapes& op, MatmulShape shape, std::size_t a, std::size_t b) {
  shape.gemm.a_stored = factor_of(op, op.op.in[a]);
  shape.gemm.b_stored = factor_of(op, op.op.in[b]);
  return shape;
}

MatmulShape linear_weight_gradient(const OpShapes& op) {
  const LinearShape s{op.in_shape().rows(), op.in_shape().row(), op.in_shape(1).row(),
                      arithmetic_of(op.graph, op.op)};
  return with_factors(op, {.gemm = s.weight_gradient()}, 1, 0);
}

MatmulShape matmul_shape(const OpShapes& op) {
  MatmulShape shape = op.op.matmul;
  shape.gemm.arithmetic = arithmetic_of(op.graph, op.op);
  return with_factors(op, shape, 0, 1);
}

// --- Gradients.

void linear_gradient(Gradients& g, const Op& op) {
  const TensorId x = op.in[0], dy = g.of(op.out[0]);
  g.emit_bias_grad(op, OpKind::kBiasGrad, {dy});
  g.emit_weight_grad(op, OpKind::kLinearWgrad, {x, dy});
  g.emit_data_grad(op, OpKind::kLinearDgrad, {dy}, x, Reads::kWeight);
}

// y = a b gives da = dy b^T and db = a^T dy, separately for each product of the batch.
void matmul_gradient(Gradients& g, const Op& op) {
  const TensorId a = op.in[0], b = op.in[1], dy = g.of(op.out[0]);
  const MatmulShape& s = op.matmul;
  const GemmShape& f = s.gemm;
  Op da = op, db = op;
  da.matmul = {.gemm = {.m = f.m,
                        .n = f.k,
                        .k = f.n,
                        .a_row = f.c_row,
                        .a_col = f.c_col,
                        .b_row = f.b_col,
                        .b_col = f.b_row,
                        .c_row = f.a_row,
                        .c_col = f.a_col},
               .count = s.count,
               .a_step = s.y_step,
               .b_step = s.b_step,
               .y_step = s.a_step};
  db.matmul = {.gemm = {.m = f.k,
                        .n = f.n,
                        .k = f.m,
                        .a_row = f.a_col,
                        .a_col = f.a_row,
                        .b_row = f.c_row,
                        .b_col = f.c_col,
                        .c_row = f.b_row,
                        .c_col = f.b_col},
               .count = s.count,
               .a_step = s.a_step,
               .b_step = s.y_step,
               .y_step = s.b_step};
  // The shapes above describe the gradients by exchanging strides: b^T is b with its row and column
  // strides exchanged, and so is a^T. Both gradients are ordinary products and write their results
  // in the layout of the operand.
  g.emit_data_grad(da, OpKind::kMatmul, {dy, b}, a);
  g.emit_data_grad(db, OpKind::kMatmul, {a, dy}, b);
}

// --- Operands.

DenseCall product_call(const OpRun& run) {
  return {run.in(0), run.weight(), run.bias(), run.out(0)};
}
DenseCall product_dgrad_call(const OpRun& run) {
  return {run.in(0), run.weight(), nullptr, run.out(0)};
}
DenseCall product_wgrad_call(const OpRun& run) {  // dW = dy^T x
  return {run.in(1), run.in(0), nullptr, run.weight_grad()};
}
DenseCall matmul_call(const OpRun& run) {
  return {run.in(0), run.in(1), nullptr, run.out(0)};
}

// --- Execution on a CPU.

Scratch scratch_of_matmul(const KernelTable& k, const MatmulShape& shape, int threads) {
  if (shape.count == 1) return scratch_of_cut(k, GemmCut(shape.gemm, threads), threads);
  Scratch scratch(threads);
  scratch.cover(k.gemm_workspace_floats(shape.gemm));
  return scratch;
}

// Executes one product.
void run_product(const OnCpu& on, const OpRun& run) {
  const Dense& dense = op_def(run.op.kind).dense;
  run_gemm(on, run, dense.product(run).gemm, dense.call(run), run.buffers.workspace);
}

void run_matmul(const OnCpu& on, const OpRun& run) {
  const DenseCall call = matmul_call(run);
  const MatmulShape s = matmul_shape(run);
  // Threads share whole products, or the rows or columns of a single one.
  if (s.count == 1) return run_gemm(on, run, s.gemm, call, run.buffers.workspace);
  const Cut cut(s.count, 1, run.threads());
  const Scratch scratch =
      scratch_for(run.threads(), [&] { return scratch_of_matmul(on.kernels, s, run.threads()); });
  run.parts(cut.parts, [&](int i) {
    const std::int64_t at = cut.begin(i);
    on.kernels.gemm_batched(s.gemm, cut.end(i) - at, s.a_step, s.b_step, s.y_step,
                            number_at(s.gemm.a_stored, call.a, at * s.a_step),
                            number_at(s.gemm.b_stored, call.b, at * s.b_step),
                            call.out + at * s.y_step, scratch.of_part(run.buffers.workspace, i));
  });
}

// --- Execution on a device.

void queue_products(const OnDevice& on, const OpRun& run) {
  DenseCall call = dense_call(run.graph, run.op, run.buffers);
  float* const workspace = convert_factors(on, run, run.buffers.workspace, call);
  const MatmulShape s = product_of(run.graph, run.op);
  on(on.kernels.gemm, s.gemm, s.count, s.a_step, s.b_step, s.y_step, call.a, call.b, call.bias,
     call.out, workspace);
}

std::size_t device_workspace(const cuda::DeviceKernels& k, const OpShapes& op) {
  const MatmulShape s = product_of(op.graph, op.op);
  return static_cast<std::size_t>(converted_floats(op)) + k.gemm_workspace_floats(s.gemm, s.count);
}

// --- The products with the weight of a linear layer.

template <LayerPass kPass>
LinearShape layer_shape(const OpShapes& op) {
  return kPass == LayerPass::kForward ? forward_shape(op) : data_gradient_shape(op);
}

template <LayerPass kPass>
constexpr auto kRunLayer = [](const auto& on, const OpRun& run) {
  DenseCall call = dense_call(run.graph, run.op, run.buffers);
  float* const workspace = convert_factors(on, run, run.buffers.workspace, call);
  run_layer(on, run, layer_shape<kPass>(run), kPass, factor_of(run, run.op.in[0]), call, workspace);
};

template <LayerPass kPass>
constexpr Workspace kLayerWorkspace = {[](const KernelTable& k, const OpShapes& op, int threads) {
                                         return layer_floats(k, op.graph, layer_shape<kPass>(op),
                                                             kPass, factor_of(op, op.op.in[0]),
                                                             threads);
                                       },
                                       [](const cuda::DeviceKernels& k, const OpShapes& op) {
                                         return static_cast<std::size_t>(converted_floats(op)) +
                                                layer_floats(k, op.graph, layer_shape<kPass>(op),
                                                             kPass, factor_of(op, op.op.in[0]), 1);
                                       }};

constexpr Workspace kProductWorkspace = {[](const KernelTable& k, const OpShapes& op, int threads) {
                                           const MatmulShape shape =
                                               op_def(op.op.kind).dense.product(op);
                                           return gemm_floats(k, shape.gemm, threads);
                                         },
                                         device_workspace};

constexpr Operator kProductOperators[] = {
    {.kind = OpKind::kLinear,
     .name = "linear",
     .kernels = "gemm",
     .inputs = Inputs::kNumbers,
     .outputs = linear_outputs,
     .stored = Stored::kFirstBf16,
     .factors = [](const Op&) { return std::vector<std::size_t>{0}; },
     .converts_factors = true,
     .rounds_weight = true,
     .gradient = linear_gradient,
     .workspace = kLayerWorkspace<LayerPass::kForward>,
     .run = kRunLayer<LayerPass::kForward>,
     .dense = {.product = linear_forward, .call = product_call, .takes_bias = true}},
    {.kind = OpKind::kLinearDgrad,
     .name = "linear data gradient",
     .factors = [](const Op&) { return std::vector<std::size_t>{0}; },
     .converts_factors = true,
     .rounds_weight = true,
     .workspace = kLayerWorkspace<LayerPass::kDataGradient>,
     .run = kRunLayer<LayerPass::kDataGradient>,
     .dense = {.product = linear_data_gradient, .call = product_dgrad_call}},
    {.kind = OpKind::kLinearWgrad,
     .name = "linear weight gradient",
     .factors =
         [](const Op&) {
           return std::vector<std::size_t>{0, 1};
         },
     .converts_factors = true,
     .writes_weight_grad = true,
     .workspace = kProductWorkspace,
     .run = {run_product, queue_products},
     .dense = {.product = linear_weight_gradient, .call = product_wgrad_call}},
    {.kind = OpKind::kMatmul,
     .name = "matmul",
     .kernels = "gemm_batched",
     .inputs = Inputs::kDense,
     .outputs = matmul_outputs,
     .stored = Stored::kFirstBf16,
     .factors =
         [](const Op&) {
           return std::vector<std::size_t>{0, 1};
         },
     .converts_factors = true,
     .gradient = matmul_gradient,
     .workspace = {[](const KernelTable& k, const OpShapes& op, int threads) {
                     return scratch_of_matmul(k, matmul_shape(op), threads).all();
                   },
                   device_workspace},
     .run = {run_matmul, queue_products},
     .dense = {.product = matmul_shape, .call = matmul_call}},
};

}  // namespace

std::span<const Operator> product_operators() {
  return kProductOperators;
}

}  // namespace es::gpu
