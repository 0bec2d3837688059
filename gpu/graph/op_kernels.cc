#include "gpu/graph/op_kernels.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

// The three products of a linear operator y = x * W^T with x [n][in], W [out][in].
GemmShape linear_forward(std::int64_t n, std::int64_t in, std::int64_t out) {
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
GemmShape linear_dgrad(std::int64_t n, std::int64_t in, std::int64_t out) {
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
GemmShape linear_wgrad(std::int64_t n, std::int64_t in, std::int64_t out) {
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

GemmShape gemm_shape(const Graph& graph, const Op& op) {
  const TensorShape& first = graph.shape(op.in[0]);
  switch (op.kind) {
    case OpKind::kLinear:
      return linear_forward(first.n, first.c, graph.shape(op.out[0]).c);
    case OpKind::kLinearDgrad:
      return linear_dgrad(first.n, graph.shape(op.out[0]).c, first.c);
    case OpKind::kLinearWgrad:
      return linear_wgrad(first.n, first.c, graph.shape(op.in[1]).c);
    default:
      ES_CHECK_MSG(false, op.name);
  }
}

// One operator being executed: short names for its addresses and shapes.
class OpRun {
 public:
  OpRun(const KernelTable& kernels, const Graph& graph, const Op& op, const RunBuffers& buffers,
        const float* packed)
      : k_(kernels), graph_(graph), op_(op), b_(buffers), packed_(packed) {}

  void run(RunMode mode) {
    switch (op_.kind) {
      case OpKind::kConv2d:
        return k_.conv_fwd(op_.conv, in(0), packed_, param(op_.bias), out(0), b_.workspace);
      case OpKind::kLinear:
        return k_.gemm(gemm_shape(graph_, op_), in(0), param(op_.weight), param(op_.bias), out(0),
                       b_.workspace);
      case OpKind::kBatchNorm:
        return mode == RunMode::kTrain ? batch_norm_train() : batch_norm_evaluate();
      case OpKind::kRelu:
        return k_.relu_fwd(in_shape(0).count(), in(0), out(0));
      case OpKind::kAdd:
        return (op_.relu ? k_.add_relu : k_.add)(in_shape(0).count(), in(0), in(1), out(0));
      case OpKind::kView:
        return;
      case OpKind::kSoftmaxXent:
        return k_.softmax_xent_fwd(in_shape(0).n, in_shape(0).c, in(0), b_.labels, out(0), out(1),
                                   out(2));
      case OpKind::kSoftmaxXentGrad:
        return k_.softmax_xent_bwd(in_shape(0).n, in_shape(0).c, in(0), b_.labels, out(0));
      case OpKind::kConvDgrad:
        return k_.conv_dgrad(op_.conv, in(0), packed_, out(0), b_.workspace);
      case OpKind::kConvWgrad:
        return k_.conv_wgrad(op_.conv, in(0), in(1), grad(op_.weight), b_.workspace);
      case OpKind::kLinearDgrad:
        return k_.gemm(gemm_shape(graph_, op_), in(0), param(op_.weight), nullptr, out(0),
                       b_.workspace);
      case OpKind::kLinearWgrad:
        return k_.gemm(gemm_shape(graph_, op_), in(1), in(0), nullptr, grad(op_.weight),
                       b_.workspace);
      case OpKind::kBiasGrad:
        return k_.colsum(in_shape(0).rows(), in_shape(0).c, in(0), grad(op_.bias), b_.workspace);
      case OpKind::kBatchNormGrad:
        return k_.bn_bwd(in_shape(0).rows(), in_shape(0).c, in(0), in(1), in(2), in(3),
                         param(op_.weight), param(op_.bias), op_.relu, out(0), grad(op_.weight),
                         grad(op_.bias), b_.workspace);
      case OpKind::kReluGrad:
        return k_.relu_bwd(in_shape(0).count(), in(0), in(1), out(0));
      default:
        return run_pool();
    }
  }

 private:
  void run_pool() {
    switch (op_.kind) {
      case OpKind::kMaxPool:
        return k_.max_pool_fwd(op_.pool, in(0), out(0), bytes(op_.out[1]));
      case OpKind::kMaxPoolGrad:
        return k_.max_pool_bwd(op_.pool, in(0), bytes(op_.in[1]), out(0));
      case OpKind::kAvgPool:
        return k_.avg_pool_fwd(op_.pool, in(0), out(0));
      case OpKind::kAvgPoolGrad:
        return k_.avg_pool_bwd(op_.pool, in(0), out(0));
      case OpKind::kGlobalAvgPool: {
        const TensorShape& s = in_shape(0);
        return k_.global_avg_pool_fwd(s.n, s.h * s.w, s.c, in(0), out(0), b_.workspace);
      }
      case OpKind::kGlobalAvgPoolGrad: {
        const TensorShape& s = graph_.shape(op_.out[0]);
        return k_.global_avg_pool_bwd(s.n, s.h * s.w, s.c, in(0), out(0));
      }
      default:
        ES_CHECK_MSG(false, op_.name);
    }
  }

  void batch_norm_train() {
    k_.bn_train_fwd(in_shape(0).rows(), in_shape(0).c, in(0), param(op_.weight), param(op_.bias),
                    kBatchNormEps, kBatchNormMomentum, b_.stats + op_.stats.mean,
                    b_.stats + op_.stats.variance, op_.relu, out(0), out(1), out(2),
                    b_.next_stats + op_.stats.mean, b_.next_stats + op_.stats.variance,
                    b_.workspace);
  }

  void batch_norm_evaluate() {
    k_.bn_eval(in_shape(0).rows(), in_shape(0).c, in(0), param(op_.weight), param(op_.bias),
               kBatchNormEps, b_.stats + op_.stats.mean, b_.stats + op_.stats.variance, op_.relu,
               out(0), b_.workspace);
  }

  float* in(std::size_t i) const { return b_.tensors[op_.in[i]]; }
  float* out(std::size_t i) const { return b_.tensors[op_.out[i]]; }
  std::uint8_t* bytes(TensorId t) const { return reinterpret_cast<std::uint8_t*>(b_.tensors[t]); }
  const TensorShape& in_shape(std::size_t i) const { return graph_.shape(op_.in[i]); }

  const float* param(ParamId id) const {
    return id == kNoParam ? nullptr : b_.params + graph_.table[id].offset;
  }
  // Where the gradient goes; its padding is set to +0 here.
  float* grad(ParamId id) const {
    const ParamInfo& info = graph_.table[id];
    std::fill(b_.grads + info.offset + info.count, b_.grads + graph_.table.padded_end(id), 0.0F);
    return b_.grads + info.offset;
  }

  const KernelTable& k_;
  const Graph& graph_;
  const Op& op_;
  const RunBuffers& b_;
  const float* packed_;
};

}  // namespace

std::size_t op_workspace_floats(const KernelTable& k, const Graph& graph, const Op& op) {
  const TensorShape& in = graph.shape(op.in[0]);
  switch (op.kind) {
    case OpKind::kConv2d:
      return k.conv_fwd_workspace_floats(op.conv);
    case OpKind::kConvDgrad:
      return k.conv_dgrad_workspace_floats(op.conv);
    case OpKind::kConvWgrad:
      return k.conv_wgrad_workspace_floats(op.conv);
    case OpKind::kLinear:
    case OpKind::kLinearDgrad:
    case OpKind::kLinearWgrad:
      return k.gemm_workspace_floats(gemm_shape(graph, op));
    case OpKind::kBiasGrad:
      return k.colsum_workspace_floats(in.rows(), in.c);
    case OpKind::kBatchNorm:
    case OpKind::kBatchNormGrad:
      return k.bn_workspace_floats(in.rows(), in.c);
    case OpKind::kGlobalAvgPool:
      return k.global_avg_pool_workspace_floats(in.h * in.w, in.c);
    default:
      return 0;
  }
}

std::size_t op_packed_floats(const KernelTable& k, const Op& op) {
  if (op.kind == OpKind::kConv2d) return k.conv_fwd_packed_floats(op.conv);
  if (op.kind == OpKind::kConvDgrad) return k.conv_dgrad_packed_floats(op.conv);
  return 0;
}

void pack_op_weights(const KernelTable& k, const Op& op, const float* weight, float* packed) {
  (op.kind == OpKind::kConv2d ? k.conv_fwd_pack : k.conv_dgrad_pack)(op.conv, weight, packed);
}

void run_op(const KernelTable& kernels, const Graph& graph, const Op& op, RunMode mode,
            const RunBuffers& buffers, const float* packed) {
  OpRun(kernels, graph, op, buffers, packed).run(mode);
}

std::string kernel_names(const Op& op) {
  switch (op.kind) {
    case OpKind::kConv2d:
      return "conv_fwd, conv_dgrad, conv_wgrad";
    case OpKind::kLinear:
      return "gemm";
    case OpKind::kBatchNorm:
      return "bn_train_fwd, bn_bwd, bn_eval";
    case OpKind::kRelu:
      return "relu_fwd, relu_bwd";
    case OpKind::kAdd:
      return op.relu ? "add_relu, relu_bwd" : "add";
    case OpKind::kMaxPool:
      return "max_pool_fwd, max_pool_bwd";
    case OpKind::kAvgPool:
      return "avg_pool_fwd, avg_pool_bwd";
    case OpKind::kGlobalAvgPool:
      return "global_avg_pool_fwd, global_avg_pool_bwd";
    case OpKind::kSoftmaxXent:
      return "softmax_xent_fwd, softmax_xent_bwd";
    default:
      return "none";
  }
}

}  // namespace es::gpu
