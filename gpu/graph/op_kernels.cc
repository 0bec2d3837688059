#include "gpu/graph/op_kernels.h"

#include <array>
#include <cstring>

#include "gpu/canonical/phases.h"
#include "gpu/graph/op_calls.h"
#include "gpu/graph/op_run.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// Runs all operators that op_dense.cc, op_pool.cc and op_loss.cc do not run.
class RowRun {
 public:
  RowRun(const KernelTable& kernels, const OpRun& run)
      : k_(kernels), run_(run), op_(run.op), b_(run.buffers) {}

  void run() {
    switch (op_.kind) {
      case OpKind::kView:
        return;
      case OpKind::kChain:
        return chain();
      case OpKind::kMove:
      case OpKind::kUpsample2:
        return move();
      case OpKind::kBatchNorm:
        if (run_.mode == RunMode::kEvaluate) return batch_norm_evaluate();
        return bn_train_fwd(k_, batch_norm_call(run_), run_);
      case OpKind::kBatchNormGrad:
        return bn_bwd(k_, batch_norm_grad_call(run_), run_);
      case OpKind::kLayerNorm:
        return layer_norm();
      case OpKind::kLayerNormGrad:
        return layer_norm_bwd(k_, rows(), channels(), run_.in(0), run_.in(1), run_.in(2),
                              run_.in(3), run_.param(op_.weight), run_.out(0),
                              run_.grad(op_.weight), run_.grad(op_.bias), b_.workspace, run_);
      case OpKind::kSoftmax:
      case OpKind::kSoftmaxGrad:
        return softmax();
      case OpKind::kEmbedding:
        return embedding();
      case OpKind::kEmbeddingGrad:
        return embedding_bwd(k_, rows(), run_.in_shape(1).c, table_rows(), run_.ids(0), run_.in(1),
                             run_.grad(op_.weight), b_.workspace, run_);
      case OpKind::kBiasGrad:
        return colsum(k_, rows(), channels(), run_.in(0), run_.grad(op_.bias), b_.workspace, run_);
      case OpKind::kColumnSum: {
        const std::int64_t columns = run_.out_shape(0).count();
        return colsum(k_, run_.in_shape(0).n, columns, run_.in(0), run_.out(0), b_.workspace, run_);
      }
      default:
        ES_CHECK_MSG(false, op_.name + ": no kernel for " + op_name(op_.kind));
    }
  }

 private:
  std::int64_t rows() const { return run_.in_shape(0).rows(); }
  std::int64_t channels() const { return run_.in_shape(0).c; }
  std::int64_t table_rows() const {
    return run_.graph.table[op_.weight].count / run_.in_shape(1).c;
  }

  void chain() {
    ChainStages stages;
    const std::int64_t count = chain_stages(run_, stages);
    const float* const x = run_.in(0);
    float* const y = run_.out(0);
    const std::int64_t elements = run_.in_shape(0).count();
    if (count == 0) {
      if (x != y) std::memcpy(y, x, static_cast<std::size_t>(elements) * sizeof(float));
      return;
    }
    run_.ranges({elements, kGrainFloats, run_.threads()},
                [&](std::int64_t begin, std::int64_t end) {
                  k_.chain(begin, end, x, stages.data(), count, b_.key, y);
                });
  }

  void move() {
    std::array<float*, kMoveTensorsMax> sources, targets;
    ES_CHECK(op_.in.size() <= kMoveTensorsMax && op_.out.size() <= kMoveTensorsMax);
    std::int64_t words = 0;
    for (std::size_t i = 0; i < op_.in.size(); ++i) sources[i] = run_.in(i);
    for (std::size_t i = 0; i < op_.out.size(); ++i) {
      targets[i] = run_.out(i);
      const std::int64_t count = run_.out_shape(i).count();
      words += count;
      if (written_words(op_.move, static_cast<std::int32_t>(i)) < count)
        std::memset(targets[i], 0, static_cast<std::size_t>(count) * sizeof(float));
    }
    const Cut cut(words, kGrainFloats, run_.threads());
    run_.parts(cut.parts, [&](int part) {
      run_move(op_.move, {sources.data(), op_.in.size()}, {targets.data(), op_.out.size()}, part,
               cut.parts);
    });
  }

  void batch_norm_evaluate() {
    bn_eval(k_, rows(), channels(), run_.in(0), run_.param(op_.weight), run_.param(op_.bias),
            kBatchNormEps, b_.stats + op_.stats.mean, b_.stats + op_.stats.variance, op_.activation,
            run_.out(0), b_.workspace, run_);
  }

  void layer_norm() {
    const std::int64_t c = channels();
    run_.share(rows(), c, [&](std::int64_t begin, std::int64_t end) {
      k_.layer_norm_fwd(end - begin, c, run_.in(0) + begin * c, run_.param(op_.weight),
                        run_.param(op_.bias), op_.eps, run_.out(0) + begin * c, run_.out(1) + begin,
                        run_.out(2) + begin);
    });
  }

  void softmax() {
    const std::int64_t c = channels();
    run_.share(rows(), c, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * c;
      if (op_.kind == OpKind::kSoftmax) {
        k_.softmax_fwd(end - begin, c, run_.in(0) + at, run_.out(0) + at);
      } else {
        k_.softmax_bwd(end - begin, c, run_.in(0) + at, run_.in(1) + at, run_.out(0) + at);
      }
    });
  }

  void embedding() {
    const std::int64_t c = run_.out_shape(0).c;
    run_.share(rows(), c, [&](std::int64_t begin, std::int64_t end) {
      k_.embedding_fwd(end - begin, c, run_.param(op_.weight), run_.ids(0) + begin,
                       run_.out(0) + begin * c);
    });
  }

  const KernelTable& k_;
  const OpRun& run_;
  const Op& op_;
  const RunBuffers& b_;
};

}  // namespace

std::size_t op_workspace_floats(const KernelTable& k, const Graph& graph, const Op& op,
                                int threads) {
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
      return k.global_avg_pool_workspace_floats(in.h * in.w, in.c);
    case OpKind::kEmbeddingGrad:
      return k.embedding_bwd_workspace_floats(
          in.rows(), graph.table[op.weight].count / graph.shape(op.in[1]).c);
    case OpKind::kYolo:
      return k.yolo_loss_workspace_floats(op.yolo);
    default:
      return dense_workspace_floats(k, graph, op, threads);
  }
}

void run_op(const KernelTable& kernels, const Graph& graph, const Op& op, RunMode mode,
            const RunBuffers& buffers) {
  const OpRun run(graph, op, buffers, mode);
  if (run_dense(kernels, run) || run_pool(kernels, run) || run_loss(kernels, run)) return;
  RowRun(kernels, run).run();
}

std::vector<TensorId> in_place_inputs(const Op& op) {
  switch (op.kind) {
    case OpKind::kChain:
      return op.in;
    case OpKind::kSoftmax:
      return {op.in[0]};
    case OpKind::kBatchNormGrad:
    case OpKind::kLayerNormGrad:
    case OpKind::kSoftmaxGrad:
      return {op.in[1]};
    default:
      return {};
  }
}

}  // namespace es::gpu
