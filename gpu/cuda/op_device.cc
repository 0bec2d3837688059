#include "gpu/cuda/op_device.h"

#include "gpu/graph/dense_op.h"
#include "gpu/graph/op_calls.h"
#include "proto/base/check.h"

namespace es::gpu::cuda {
namespace {

class OpQueue {
 public:
  OpQueue(Device& device, Stream stream, const OpRun& run, const DropoutKey* key)
      : device_(device),
        k_(device.kernels()),
        stream_(stream),
        run_(run),
        op_(run.op),
        ws_(run.buffers.workspace),
        key_(key) {}

  // Each function returns false for kinds that it does not run.
  bool dense() const;
  bool rows() const;
  bool pool() const;
  bool loss() const;

 private:
  void product() const;
  void chain() const;
  void move() const;
  void batch_norm() const;
  void layer_norm_grad() const;
  void embedding_grad() const;

  float* in(std::size_t i) const { return run_.in(i); }
  float* out(std::size_t i) const { return run_.out(i); }
  const TensorShape& in_shape(std::size_t i = 0) const { return run_.in_shape(i); }
  const TensorShape& out_shape(std::size_t i = 0) const { return run_.out_shape(i); }

  Device& device_;
  const DeviceKernels& k_;
  const Stream stream_;
  const OpRun& run_;
  const Op& op_;
  float* const ws_;
  const DropoutKey* const key_;
};

void OpQueue::product() const {
  const DenseCall call = dense_call(run_.graph, op_, run_.buffers);
  const MatmulShape& s = op_.matmul;
  if (op_.kind == OpKind::kMatmul)
    return k_.gemm(stream_, s.gemm, s.count, s.a_step, s.b_step, s.y_step, call.a, call.b, nullptr,
                   call.out, ws_);
  k_.gemm(stream_, gemm_shape(run_.graph, op_), 1, 0, 0, 0, call.a, call.b, call.bias, call.out,
          ws_);
}

bool OpQueue::dense() const {
  if (is_gemm(op_.kind)) return product(), true;
  if (op_.kind == OpKind::kAttention) {
    const AttentionCall c = attention_call(run_);
    return k_.attention_fwd(stream_, c.shape, c.q, c.k, c.v, c.extras, key_, out(0), out(1), ws_),
           true;
  }
  if (op_.kind == OpKind::kAttentionGrad) {
    const AttentionCall c = attention_grad_call(run_);
    return k_.attention_bwd(stream_, c.shape, c.q, c.k, c.v, c.probs, c.dy, key_, c.dq, c.dk, c.dv,
                            c.dbias, ws_),
           true;
  }
  if (!is_conv(op_.kind)) return false;
  const DenseCall call = dense_call(run_.graph, op_, run_.buffers);
  if (op_.kind == OpKind::kConv2d) {
    k_.conv_fwd(stream_, op_.conv, call.a, call.b, call.bias, call.out, ws_);
  } else if (op_.kind == OpKind::kConvDgrad) {
    k_.conv_dgrad(stream_, op_.conv, call.a, call.b, call.out, ws_);
  } else {
    k_.conv_wgrad(stream_, op_.conv, call.a, call.b, call.out, ws_);
  }
  return true;
}

void OpQueue::chain() const {
  ChainStages stages;
  const std::int64_t count = chain_stages(run_, stages);
  const std::int64_t elements = in_shape().count();
  if (count != 0) return k_.chain(stream_, elements, in(0), stages.data(), count, key_, out(0));
  if (in(0) != out(0))
    device_.copy(stream_, out(0), in(0), static_cast<std::size_t>(elements) * sizeof(float));
}

void OpQueue::move() const {
  for (std::size_t i = 0; i < op_.out.size(); ++i) {
    const std::int64_t words = out_shape(i).count();
    if (written_words(op_.move, static_cast<std::int32_t>(i)) < words)
      k_.fill_zero(stream_, words, out(i));
  }
  for (const BlockCopy& copy : op_.move)
    k_.block_copy(stream_, copy, in(static_cast<std::size_t>(copy.source)),
                  out(static_cast<std::size_t>(copy.target)));
}

void OpQueue::batch_norm() const {
  if (run_.mode == RunMode::kTrain) return k_.bn_train_fwd(stream_, batch_norm_call(run_));
  const BnForward bn = batch_norm_call(run_);
  k_.bn_eval(stream_, bn.rows, bn.c, bn.x, bn.gamma, bn.beta, bn.eps, bn.running_mean,
             bn.running_var, bn.act, bn.y, ws_);
}

void OpQueue::layer_norm_grad() const {
  k_.layer_norm_bwd(stream_, in_shape().rows(), in_shape().c, in(0), in(1), in(2), in(3),
                    run_.param(op_.weight), out(0), run_.grad(op_.weight), run_.grad(op_.bias),
                    ws_);
}

void OpQueue::embedding_grad() const {
  const std::int64_t c = in_shape(1).c;
  k_.embedding_bwd(stream_, in_shape().rows(), c, run_.graph.table[op_.weight].count / c,
                   run_.ids(0), in(1), run_.grad(op_.weight), ws_);
}

bool OpQueue::rows() const {
  const std::int64_t rows = in_shape().rows(), c = in_shape().c;
  switch (op_.kind) {
    case OpKind::kView:
      return true;
    case OpKind::kChain:
      return chain(), true;
    case OpKind::kMove:
    case OpKind::kUpsample2:
      return move(), true;
    case OpKind::kBatchNorm:
      return batch_norm(), true;
    case OpKind::kBatchNormGrad:
      return k_.bn_bwd(stream_, batch_norm_grad_call(run_)), true;
    case OpKind::kLayerNorm:
      return k_.layer_norm_fwd(stream_, rows, c, in(0), run_.param(op_.weight),
                               run_.param(op_.bias), op_.eps, out(0), out(1), out(2)),
             true;
    case OpKind::kLayerNormGrad:
      return layer_norm_grad(), true;
    case OpKind::kSoftmax:
      return k_.softmax_fwd(stream_, rows, c, in(0), out(0)), true;
    case OpKind::kSoftmaxGrad:
      return k_.softmax_bwd(stream_, rows, c, in(0), in(1), out(0)), true;
    case OpKind::kEmbedding:
      return k_.embedding_fwd(stream_, rows, out_shape().c, run_.param(op_.weight), run_.ids(0),
                              out(0)),
             true;
    case OpKind::kEmbeddingGrad:
      return embedding_grad(), true;
    case OpKind::kBiasGrad:
      return k_.colsum(stream_, rows, c, in(0), run_.grad(op_.bias), ws_), true;
    case OpKind::kColumnSum:
      return k_.colsum(stream_, in_shape().n, out_shape().count(), in(0), out(0), ws_), true;
    default:
      return false;
  }
}

bool OpQueue::pool() const {
  const TensorShape& x = in_shape();
  const TensorShape& y = out_shape();
  switch (op_.kind) {
    case OpKind::kMaxPool:
      return k_.max_pool_fwd(stream_, op_.pool, in(0), out(0), run_.bytes(op_.out[1])), true;
    case OpKind::kMaxPoolGrad:
      return k_.max_pool_bwd(stream_, op_.pool, in(0), run_.bytes(op_.in[1]), out(0)), true;
    case OpKind::kAvgPool:
      return k_.avg_pool_fwd(stream_, op_.pool, in(0), out(0)), true;
    case OpKind::kAvgPoolGrad:
      return k_.avg_pool_bwd(stream_, op_.pool, in(0), out(0)), true;
    case OpKind::kAdaptiveAvgPool:
      return k_.adaptive_avg_pool_fwd(stream_, op_.adaptive, in(0), out(0)), true;
    case OpKind::kAdaptiveAvgPoolGrad:
      return k_.adaptive_avg_pool_bwd(stream_, op_.adaptive, in(0), out(0)), true;
    case OpKind::kGlobalAvgPool:
      return k_.global_avg_pool_fwd(stream_, x.n, x.h * x.w, x.c, in(0), out(0), ws_), true;
    case OpKind::kGlobalAvgPoolGrad:
      return k_.global_avg_pool_bwd(stream_, y.n, y.h * y.w, y.c, in(0), out(0)), true;
    case OpKind::kUpsample2Grad:
      return k_.upsample2_bwd(stream_, y.n, y.h, y.w, y.c, in(0), out(0)), true;
    default:
      return false;
  }
}

bool OpQueue::loss() const {
  const TensorShape& x = in_shape();
  switch (op_.kind) {
    case OpKind::kCrossEntropy:
      return k_.softmax_xent_fwd(stream_, x.rows(), x.c, in(0), run_.ids(1), out(0), out(1),
                                 out(2)),
             true;
    case OpKind::kCrossEntropyGrad:
      return k_.softmax_xent_bwd(stream_, x.rows(), x.c, in(0), run_.ids(1), out(0)), true;
    case OpKind::kBce:
      return k_.bce_fwd(stream_, x.count(), in(0), in(1), out(0), out(1), ws_), true;
    case OpKind::kBceGrad:
      return k_.bce_bwd(stream_, x.count(), in(0), in(1), out(0)), true;
    case OpKind::kMse:
      return k_.mse_fwd(stream_, x.count(), in(0), in(1), out(0), out(1), ws_), true;
    case OpKind::kMseGrad:
      return k_.mse_bwd(stream_, x.count(), in(0), in(1), out(0)), true;
    case OpKind::kYolo: {
      const float* const outputs[3] = {in(0), in(1), in(2)};
      float* const gradients[3] = {out(0), out(1), out(2)};
      k_.yolo_loss(stream_, op_.yolo, outputs, in(3), gradients, out(3), out(4), ws_);
      return true;
    }
    default:
      return false;
  }
}

std::size_t dense_workspace_floats(const DeviceKernels& k, const Graph& graph, const Op& op) {
  switch (op.kind) {
    case OpKind::kConv2d:
      return k.conv_fwd_workspace_floats(op.conv);
    case OpKind::kConvDgrad:
      return k.conv_dgrad_workspace_floats(op.conv);
    case OpKind::kConvWgrad:
      return k.conv_wgrad_workspace_floats(op.conv);
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
      return k.attention_workspace_floats(op.attention);
    default:
      return is_gemm(op.kind) ? k.gemm_workspace_floats(gemm_shape(graph, op), gemm_count(op)) : 0;
  }
}

}  // namespace

std::size_t op_workspace_floats(const DeviceKernels& k, const Graph& graph, const Op& op) {
  const TensorShape in = op.in.empty() ? TensorShape{} : graph.shape(op.in[0]);
  switch (op.kind) {
    case OpKind::kBiasGrad:
      return k.colsum_workspace_floats(in.rows(), in.c);
    case OpKind::kColumnSum:
      return k.colsum_workspace_floats(in.n, in.h * in.w * in.c);
    case OpKind::kBatchNorm:
    case OpKind::kBatchNormGrad:
      return k.bn_workspace_floats(in.rows(), in.c);
    case OpKind::kLayerNormGrad:
      return k.layer_norm_bwd_workspace_floats(in.rows(), in.c);
    case OpKind::kGlobalAvgPool:
      return k.global_avg_pool_workspace_floats(in.n, in.h * in.w, in.c);
    case OpKind::kEmbeddingGrad:
      return k.embedding_bwd_workspace_floats(
          in.rows(), graph.table[op.weight].count / graph.shape(op.in[1]).c);
    case OpKind::kBce:
    case OpKind::kMse:
      return k.mean_loss_workspace_floats(in.count());
    case OpKind::kYolo:
      return k.yolo_loss_workspace_floats(op.yolo);
    default:
      return dense_workspace_floats(k, graph, op);
  }
}

void run_op(Device& device, Stream stream, const Graph& graph, const Op& op, RunMode mode,
            const RunBuffers& buffers, const DropoutKey* key) {
  ES_CHECK(!buffers.clear_padding);
  const OpRun run(graph, op, buffers, mode);
  const OpQueue queue(device, stream, run, key);
  if (queue.dense() || queue.rows() || queue.pool() || queue.loss()) return;
  ES_CHECK_MSG(false, op.name + ": no device kernel for " + op_name(op.kind));
}

}  // namespace es::gpu::cuda
