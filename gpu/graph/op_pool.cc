// Runs pooling on several threads; the work is divided by images.
#include "gpu/graph/op_run.h"

namespace es::gpu {
namespace {

// Returns the number of floats of one image.
std::int64_t image(const TensorShape& s) {
  return s.h * s.w * s.c;
}

template <class Shape>
Shape images(const Shape& shape, std::int64_t begin, std::int64_t end) {
  Shape part = shape;
  part.n = end - begin;
  return part;
}

class PoolRun {
 public:
  PoolRun(const KernelTable& kernels, const OpRun& run)
      : k_(kernels),
        run_(run),
        x_(image(run.in_shape(0))),
        y_(image(run.out_shape(0))),
        cut_(cut_rows(run.in_shape(0).n, std::max(x_, y_), run.threads())) {}

  void max() {
    std::uint8_t* const argmax = run_.bytes(run_.op.out[1]);
    run_.ranges(cut_, [&](std::int64_t begin, std::int64_t end) {
      k_.max_pool_fwd(images(run_.op.pool, begin, end), in(begin), out(begin), argmax + begin * y_);
    });
  }
  void max_grad() {
    const std::uint8_t* const argmax = run_.bytes(run_.op.in[1]);
    run_.ranges(cut_, [&](std::int64_t begin, std::int64_t end) {
      k_.max_pool_bwd(images(run_.op.pool, begin, end), in(begin), argmax + begin * x_, out(begin));
    });
  }
  template <class Shape, class Kernel>
  void average(const Shape& shape, Kernel kernel) {
    run_.ranges(cut_, [&](std::int64_t begin, std::int64_t end) {
      kernel(images(shape, begin, end), in(begin), out(begin));
    });
  }
  void global() {
    const TensorShape& s = run_.in_shape(0);
    k_.global_avg_pool_fwd(s.n, s.h * s.w, s.c, run_.in(0), run_.out(0), run_.buffers.workspace);
  }
  void global_grad() {
    const TensorShape& s = run_.out_shape(0);
    run_.ranges(cut_, [&](std::int64_t begin, std::int64_t end) {
      k_.global_avg_pool_bwd(end - begin, s.h * s.w, s.c, in(begin), out(begin));
    });
  }
  void upsample_grad() {
    const TensorShape& s = run_.out_shape(0);
    run_.ranges(cut_, [&](std::int64_t begin, std::int64_t end) {
      k_.upsample2_bwd(end - begin, s.h, s.w, s.c, in(begin), out(begin));
    });
  }

 private:
  const float* in(std::int64_t n) const { return run_.in(0) + n * x_; }
  float* out(std::int64_t n) const { return run_.out(0) + n * y_; }

  const KernelTable& k_;
  const OpRun& run_;
  std::int64_t x_, y_;  // floats of one image of the first input, and of the first output
  Cut cut_;
};

}  // namespace

bool run_pool(const KernelTable& k, const OpRun& run) {
  const Op& op = run.op;
  switch (op.kind) {
    case OpKind::kMaxPool:
      return PoolRun(k, run).max(), true;
    case OpKind::kMaxPoolGrad:
      return PoolRun(k, run).max_grad(), true;
    case OpKind::kAvgPool:
      return PoolRun(k, run).average(op.pool, k.avg_pool_fwd), true;
    case OpKind::kAvgPoolGrad:
      return PoolRun(k, run).average(op.pool, k.avg_pool_bwd), true;
    case OpKind::kAdaptiveAvgPool:
      return PoolRun(k, run).average(op.adaptive, k.adaptive_avg_pool_fwd), true;
    case OpKind::kAdaptiveAvgPoolGrad:
      return PoolRun(k, run).average(op.adaptive, k.adaptive_avg_pool_bwd), true;
    case OpKind::kGlobalAvgPool:
      return PoolRun(k, run).global(), true;
    case OpKind::kGlobalAvgPoolGrad:
      return PoolRun(k, run).global_grad(), true;
    case OpKind::kUpsample2Grad:
      return PoolRun(k, run).upsample_grad(), true;
    default:
      return false;
  }
}

}  // namespace es::gpu
