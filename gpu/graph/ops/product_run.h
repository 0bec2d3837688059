#pragma once
// Runs a product for operators that consist of products: the threads of a CPU share its rows or
// columns, and a device computes all of it.
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/ops/scratch.h"

namespace es::gpu {

// Divides the rows or the columns of a product, whichever are more. The sizes of the parts are
// multiples of a register tile.
// A part gets whole rows or columns, and so whole sums. The division depends on the number of
// threads, but each element is the same chain over k in every division.
struct GemmCut {
  GemmCut(const GemmShape& shape, int threads)
      : by_rows(shape.m >= shape.n),
        cut(by_rows ? shape.m : shape.n, by_rows ? 32 : 64, threads),
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
      on.kernels.gemm(part, call.a + at * part.a_row, call.b, call.bias, call.out + at * part.c_row,
                      ws);
    } else {
      // The bias belongs to the columns, so a part by columns begins in its middle.
      const float* bias = call.bias == nullptr ? nullptr : call.bias + at;
      on.kernels.gemm(part, call.a, call.b + at * part.b_col, bias, call.out + at * part.c_col, ws);
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

  GemmShape forward() const {
    return {.m = n,
            .n = out,
            .k = in,
            .a_row = in,
            .a_col = 1,
            .b_row = 1,
            .b_col = in,
            .c_row = out,
            .c_col = 1};
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
            .c_col = 1};
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
            .c_col = 1};
  }
};

}  // namespace es::gpu
