#pragma once
// Runs a product for operators that consist of products: the threads of a CPU share its rows or
// columns, and a device computes all of it.
#include "gpu/canonical/order.h"
#include "gpu/graph/dense_op.h"
#include "gpu/graph/ops/scratch.h"

namespace es::gpu {

// Divides the rows or the columns of a product, whichever are more. Many rows are divided evenly,
// because tiles share any number of rows. The columns of a part fill vector registers.
// A part gets whole rows or columns, and so whole sums. The division depends on the number of
// threads, but each element is the same chain over k in every division.
struct GemmCut {
  GemmCut(const GemmShape& shape, int threads)
      : by_rows(shape.m >= shape.n),
        cut(by_rows ? shape.m : shape.n, by_rows ? (shape.m >= 64 ? 4 : 32) : 16, threads),
        shape(shape) {}
  GemmShape part(std::int64_t i) const {
    GemmShape g = shape;
    (by_rows ? g.m : g.n) = cut.end(i) - cut.begin(i);
    return g;
  }

  bool by_rows;
  Cut cut;
  GemmShape shape;
};

inline Scratch scratch_of_cut(const KernelTable& k, const GemmCut& cut, int threads) {
  Scratch scratch(threads);
  for (std::int64_t i = 0; i < cut.cut.parts; ++i)
    scratch.cover(k.gemm_workspace_floats(cut.part(i)));
  return scratch;
}

// How a product reads a factor that is fp32 in memory, and a tensor.
inline Factor fp32_factor(const Graph& graph) {
  return graph.bf16 ? Factor::kRounded : Factor::kF32;
}
inline Factor factor_of(const OpShapes& op, TensorId t) {
  return op.graph.tensors[static_cast<std::size_t>(t)].bf16 ? Factor::kBf16 : fp32_factor(op.graph);
}

// Computes a product; `workspace` has gemm_floats() floats.
inline void run_gemm(const OnCpu& on, const OpRun& run, const GemmShape& shape,
                     const DenseCall& call, float* workspace) {
  const GemmCut cut(shape, run.threads());
  const Scratch scratch =
      scratch_for(run.threads(), [&] { return scratch_of_cut(on.kernels, cut, run.threads()); });
  run.parts(cut.cut.parts, [&](int i) {
    const std::int64_t at = cut.cut.begin(i);
    const GemmShape part = cut.part(i);
    float* const ws = scratch.of_part(workspace, i);
    if (cut.by_rows) {
      on.kernels.gemm(part, number_at(part.a_stored, call.a, at * part.a_row), call.b, call.bias,
                      call.out + at * part.c_row, ws);
    } else {
      // The bias belongs to the columns, so a part by columns begins in its middle.
      const float* bias = call.bias == nullptr ? nullptr : call.bias + at;
      on.kernels.gemm(part, call.a, number_at(part.b_stored, call.b, at * part.b_col), bias,
                      call.out + at * part.c_col, ws);
    }
  });
}
inline void run_gemm(const OnDevice& on, const OpRun&, const GemmShape& shape,
                     const DenseCall& call, float* workspace) {
  on(on.kernels.gemm, shape, std::int64_t{1}, std::int64_t{0}, std::int64_t{0}, std::int64_t{0},
     call.a, call.b, call.bias, call.out, workspace);
}

inline std::size_t gemm_floats(const KernelTable& k, const GemmShape& shape, int threads) {
  return scratch_of_cut(k, GemmCut(shape, threads), threads).all();
}
inline std::size_t gemm_floats(const cuda::DeviceKernels& k, const GemmShape& shape, int) {
  return k.gemm_workspace_floats(shape, 1);
}

// --- The three products of a linear layer y = x * W^T with x [n][in] and W [out][in]. The
// gradients are dx = dy * W and dW = dy^T * x. A transposed operand is the same memory with its row
// and column strides exchanged.
struct LinearShape {
  std::int64_t n, in, out;
  Arithmetic arithmetic = Arithmetic::kFp32;

  GemmShape forward() const {
    return {.m = n,
            .n = out,
            .k = in,
            .a_row = in,
            .a_col = 1,
            .b_row = 1,
            .b_col = in,
            .c_row = out,
            .c_col = 1,
            .arithmetic = arithmetic};
  }
  GemmShape data_gradient() const {
    return {.m = n,
            .n = in,
            .k = out,
            .a_row = out,
            .a_col = 1,
            .b_row = in,
            .b_col = 1,
            .c_row = in,
            .c_col = 1,
            .arithmetic = arithmetic};
  }
  GemmShape weight_gradient() const {
    return {.m = out,
            .n = in,
            .k = n,
            .a_row = 1,
            .a_col = out,
            .b_row = in,
            .b_col = 1,
            .c_row = in,
            .c_col = 1,
            .arithmetic = arithmetic};
  }
};

// --- The two products that read the weight. With bf16 (precision.h) a CPU rounds the weight where
// it is read. A device rounds it a block of rows at a time, so its rounded copy is small whatever
// the weight is. The columns of the forward product are divided, and the sums over rows in the data
// gradient between chunks of DOT, so the blocks decide no bit.
enum class LayerPass { kForward, kDataGradient };

constexpr std::int64_t kWeightBlockFloats = 1 << 20;
constexpr ChainStage kBf16Rounding = {.kind = ChainKind::kRoundBf16};

inline std::int64_t weight_block_rows(const LinearShape& s) {
  const std::int64_t chunks = std::max<std::int64_t>(1, kWeightBlockFloats / s.in / kDotChunk);
  return std::min(s.out, chunks * kDotChunk);
}

// The memory of a block, aligned as a workspace.
inline std::int64_t weight_block_floats(const LinearShape& s) {
  return (weight_block_rows(s) * s.in + 15) / 16 * 16;
}

inline GemmShape product_of_rows(const LinearShape& s, LayerPass pass, std::int64_t begin,
                                 std::int64_t rows) {
  const LinearShape part{s.n, s.in, rows};
  GemmShape shape = pass == LayerPass::kForward ? part.forward() : part.data_gradient();
  (pass == LayerPass::kForward ? shape.c_row : shape.a_row) = s.out;
  shape.add = pass == LayerPass::kDataGradient && begin > 0;
  return shape;
}

// Writes x rounded to bf16; y may be x.
inline void round_floats(const OnDevice& on, std::int64_t count, const float* x, float* y) {
  on(on.kernels.chain, count, x, &kBf16Rounding, std::int64_t{1}, Bf16Arrays(), on.key, y);
}

// Returns the product with x, or the gradient of the result, stored as `left`.
inline GemmShape layer_product(const Graph& graph, const LinearShape& s, LayerPass pass,
                               Factor left) {
  GemmShape shape = product_of_rows(s, pass, 0, s.out);
  shape.a_stored = left;
  shape.b_stored = fp32_factor(graph);
  return shape;
}

// Computes the product; `workspace` has layer_floats() floats. On a device call.a is fp32, and
// rounded.
inline void run_layer(const OnCpu& on, const OpRun& run, const LinearShape& s, LayerPass pass,
                      Factor left, const DenseCall& call, float* workspace) {
  run_gemm(on, run, layer_product(run.graph, s, pass, left), call, workspace);
}
inline void run_layer(const OnDevice& on, const OpRun& run, const LinearShape& s, LayerPass pass,
                      Factor, const DenseCall& call, float* workspace) {
  const std::int64_t step = run.graph.bf16 ? weight_block_rows(s) : s.out;
  float* const rest = run.graph.bf16 ? workspace + weight_block_floats(s) : workspace;
  for (std::int64_t begin = 0; begin < s.out; begin += step) {
    const std::int64_t rows = std::min(step, s.out - begin);
    DenseCall part = call;
    if (run.graph.bf16) {
      round_floats(on, rows * s.in, call.b + begin * s.in, workspace);
      part.b = workspace;
    }
    if (pass == LayerPass::kForward) {
      part.out += begin;
      if (part.bias != nullptr) part.bias += begin;
    } else {
      part.a += begin;
    }
    run_gemm(on, run, product_of_rows(s, pass, begin, rows), part, rest);
  }
}

inline std::size_t layer_floats(const KernelTable& k, const Graph& graph, const LinearShape& s,
                                LayerPass pass, Factor left, int threads) {
  return gemm_floats(k, layer_product(graph, s, pass, left), threads);
}
inline std::size_t layer_floats(const cuda::DeviceKernels& k, const Graph& graph,
                                const LinearShape& s, LayerPass pass, Factor, int threads) {
  if (!graph.bf16) return gemm_floats(k, product_of_rows(s, pass, 0, s.out), threads);
  const std::int64_t step = weight_block_rows(s);
  std::size_t floats = 0;
  // The last rows may be fewer, and their product may need another workspace.
  for (const std::int64_t rows : {step, s.out % step})
    for (const std::int64_t begin : {std::int64_t{0}, step})
      if (rows != 0)
        floats = std::max(floats, gemm_floats(k, product_of_rows(s, pass, begin, rows), threads));
  return static_cast<std::size_t>(weight_block_floats(s)) + floats;
}

}  // namespace es::gpu
