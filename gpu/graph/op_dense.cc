// Runs convolutions, products and attention on several threads. The work is divided by images, by
// rows or columns of a product, and by heads; no sum is divided. Every thread has its own scratch
// memory.
#include "gpu/graph/dense_op.h"
#include "gpu/graph/op_calls.h"
#include "gpu/graph/op_run.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kScratchAlignment = 16;  // floats

// Divides the rows or the columns of a product, whichever are more. The sizes of the parts are
// multiples of a register tile.
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

Cut conv_cut(const Op& op, int threads) {
  return op.kind == OpKind::kConvWgrad ? Cut(op.conv.oc, 16, threads) : Cut(op.conv.n, 1, threads);
}

ConvShape images(const ConvShape& shape, std::int64_t begin, std::int64_t end) {
  ConvShape part = shape;
  part.n = end - begin;
  return part;
}

AttentionShape heads(const AttentionShape& shape, std::int64_t begin, std::int64_t end) {
  AttentionShape part = shape;
  part.head_begin = begin;
  part.head_count = end - begin;
  return part;
}

// Returns the scratch memory of one part in floats.
std::size_t part_floats(const KernelTable& k, const Graph& graph, const Op& op, int threads) {
  std::size_t most = 0;
  if (op.kind == OpKind::kConvWgrad) {
    most = k.conv_wgrad_workspace_floats(op.conv);
  } else if (is_conv(op.kind)) {
    const Cut cut = conv_cut(op, threads);
    const auto floats =
        op.kind == OpKind::kConv2d ? k.conv_fwd_workspace_floats : k.conv_dgrad_workspace_floats;
    for (std::int64_t i = 0; i < cut.parts; ++i)
      most = std::max(most, floats(images(op.conv, cut.begin(i), cut.end(i))));
  } else if (op.kind == OpKind::kMatmul) {
    most = k.gemm_workspace_floats(op.matmul.gemm);
  } else if (is_gemm(op.kind)) {
    const GemmCut cut(gemm_shape(graph, op), threads);
    for (std::int64_t i = 0; i < cut.cut.parts; ++i)
      most = std::max(most, k.gemm_workspace_floats(cut.part(i)));
  } else if (op.kind == OpKind::kAttention || op.kind == OpKind::kAttentionGrad) {
    const Cut cut(op.attention.heads, 1, threads);
    for (std::int64_t i = 0; i < cut.parts; ++i)
      most = std::max(most,
                      k.attention_workspace_floats(heads(op.attention, cut.begin(i), cut.end(i))));
  }
  return (most + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

class DenseRun {
 public:
  DenseRun(const KernelTable& kernels, const OpRun& run)
      : k_(kernels),
        run_(run),
        op_(run.op),
        scratch_(run.threads() == 1 ? 0 : part_floats(kernels, run.graph, op_, run.threads())) {}

  void conv() {
    const DenseCall call = dense_call(run_.graph, op_, run_.buffers);
    const ConvShape& s = op_.conv;
    const std::int64_t image = s.h * s.w * s.c, map = s.oh() * s.ow() * s.oc;
    const Cut cut = conv_cut(op_, run_.threads());
    run_.parts(cut.parts, [&](int i) {
      const std::int64_t begin = cut.begin(i), end = cut.end(i);
      if (op_.kind == OpKind::kConvWgrad) {
        // Weight gradients are divided by output channels, because their sums run over all images.
        k_.conv_wgrad(s, begin, end, call.a, call.b, call.out, scratch(i));
      } else if (op_.kind == OpKind::kConv2d) {
        k_.conv_fwd(images(s, begin, end), call.a + begin * image, call.b, call.bias,
                    call.out + begin * map, scratch(i));
      } else {
        k_.conv_dgrad(images(s, begin, end), call.a + begin * map, call.b, call.out + begin * image,
                      scratch(i));
      }
    });
  }

  void linear() {
    const DenseCall call = dense_call(run_.graph, op_, run_.buffers);
    const GemmCut cut(gemm_shape(run_.graph, op_), run_.threads());
    run_.parts(cut.cut.parts, [&](int i) {
      const std::int64_t at = cut.cut.begin(i);
      const GemmShape part = cut.part(i);
      if (cut.by_rows) {
        k_.gemm(part, call.a + at * part.a_row, call.b, call.bias, call.out + at * part.c_row,
                scratch(i));
      } else {
        const float* bias = call.bias == nullptr ? nullptr : call.bias + at;
        k_.gemm(part, call.a, call.b + at * part.b_col, bias, call.out + at * part.c_col,
                scratch(i));
      }
    });
  }

  void matmul() {
    const DenseCall call = dense_call(run_.graph, op_, run_.buffers);
    const MatmulShape& s = op_.matmul;
    const Cut cut(s.count, 1, run_.threads());
    run_.parts(cut.parts, [&](int i) {
      const std::int64_t at = cut.begin(i);
      k_.gemm_batched(s.gemm, cut.end(i) - at, s.a_step, s.b_step, s.y_step, call.a + at * s.a_step,
                      call.b + at * s.b_step, call.out + at * s.y_step, scratch(i));
    });
  }

  void attention() {
    const AttentionCall c = attention_call(run_);
    over_heads(c.shape, [&](const AttentionShape& s, float* ws) {
      k_.attention_fwd(s, c.q, c.k, c.v, c.extras, run_.buffers.key, run_.out(0), run_.out(1), ws);
    });
  }

  void attention_grad() {
    const AttentionCall c = attention_grad_call(run_);
    over_heads(c.shape, [&](const AttentionShape& s, float* ws) {
      k_.attention_bwd(s, c.q, c.k, c.v, c.probs, c.dy, run_.buffers.key, c.dq, c.dk, c.dv, c.dbias,
                       ws);
    });
  }

 private:
  template <class Task>
  void over_heads(const AttentionShape& shape, Task&& task) {
    const Cut cut(shape.heads, 1, run_.threads());
    run_.parts(cut.parts, [&](int i) { task(heads(shape, cut.begin(i), cut.end(i)), scratch(i)); });
  }

  float* scratch(std::int64_t part) const {
    return run_.buffers.workspace + static_cast<std::size_t>(part) * scratch_;
  }

  const KernelTable& k_;
  const OpRun& run_;
  const Op& op_;
  std::size_t scratch_;  // floats between the scratch memories of two parts
};

}  // namespace

std::size_t dense_workspace_floats(const KernelTable& kernels, const Graph& graph, const Op& op,
                                   int threads) {
  return part_floats(kernels, graph, op, threads) * static_cast<std::size_t>(threads);
}

bool run_dense(const KernelTable& kernels, const OpRun& run) {
  DenseRun dense(kernels, run);
  if (is_conv(run.op.kind)) return dense.conv(), true;
  if (run.op.kind == OpKind::kMatmul) return dense.matmul(), true;
  if (is_gemm(run.op.kind)) return dense.linear(), true;
  if (run.op.kind == OpKind::kAttention) return dense.attention(), true;
  if (run.op.kind == OpKind::kAttentionGrad) return dense.attention_grad(), true;
  return false;
}

}  // namespace es::gpu
