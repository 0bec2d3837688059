// Losses and their gradients. They are small and run on one thread.
#include "gpu/graph/op_run.h"

namespace es::gpu {

bool run_loss(const KernelTable& k, const OpRun& run) {
  const TensorShape& s = run.in_shape(0);
  switch (run.op.kind) {
    case OpKind::kCrossEntropy:
      k.softmax_xent_fwd(s.rows(), s.c, run.in(0), run.ids(1), run.out(0), run.out(1), run.out(2));
      return true;
    case OpKind::kCrossEntropyGrad:
      k.softmax_xent_bwd(s.rows(), s.c, run.in(0), run.ids(1), run.out(0));
      return true;
    case OpKind::kBce:
      k.bce_fwd(s.count(), run.in(0), run.in(1), run.out(0), run.out(1));
      return true;
    case OpKind::kBceGrad:
      k.bce_bwd(s.count(), run.in(0), run.in(1), run.out(0));
      return true;
    case OpKind::kMse:
      k.mse_fwd(s.count(), run.in(0), run.in(1), run.out(0), run.out(1));
      return true;
    case OpKind::kMseGrad:
      k.mse_bwd(s.count(), run.in(0), run.in(1), run.out(0));
      return true;
    case OpKind::kYolo: {
      const float* const outputs[3] = {run.in(0), run.in(1), run.in(2)};
      float* const gradients[3] = {run.out(0), run.out(1), run.out(2)};
      k.yolo_loss(run.op.yolo, outputs, run.in(3), gradients, run.out(3), run.out(4),
                  run.buffers.workspace);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace es::gpu
