#pragma once
// The canonical kernels of a CPU kernel class: one table of functions per class (scalar, AVX2,
// AVX-512). Every function computes the same order of IEEE-754 operations in each class, so all
// classes return the same bits for the same arguments. README.md in this folder defines the order.
//
// Conventions for every function here:
//   dtype    fp32 in memory, int32 labels and indices
//   layout   activations NHWC, convolution weights OHWI ([oc][kh][kw][c/groups]), linear weights
//            [out][in]; all dense and row-major
//   memory   caller owns everything; outputs never alias inputs unless said; pointers need only
//            4-byte alignment (64 is faster); nothing is allocated, scratch comes as `ws`
//   ws       at least the matching *_workspace_floats() floats, 64-byte aligned; content arbitrary
//   threads  re-entrant; no global state
//   errors   none: shapes are validated when the graph is built
#include <cstddef>
#include <cstdint>

#include "proto/base/device.h"

namespace es::gpu {

struct ConvShape {
  std::int64_t n = 1, h = 1, w = 1, c = 1;       // input
  std::int64_t oc = 1, kh = 1, kw = 1;           // c and oc are multiples of groups
  std::int64_t stride = 1, pad = 0, groups = 1;  // groups == c == oc > 1 is a depthwise convolution
  std::int64_t oh() const { return (h + 2 * pad - kh) / stride + 1; }
  std::int64_t ow() const { return (w + 2 * pad - kw) / stride + 1; }
  bool operator==(const ConvShape&) const = default;
};

// A window pooling over [n,h,w,c]; padding cells never take part, every window has >= 1 real cell.
struct PoolShape {
  std::int64_t n = 1, h = 1, w = 1, c = 1;
  std::int64_t kh = 1, kw = 1, stride = 1, pad = 0;  // pad < kh and pad < kw
  std::int64_t oh() const { return (h + 2 * pad - kh) / stride + 1; }
  std::int64_t ow() const { return (w + 2 * pad - kw) / stride + 1; }
};

// C[m][n] = sum_k A(m,k) * B(k,n); element (i,j) of a matrix X is X[i*row_stride + j*col_stride].
struct GemmShape {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t a_row = 1, a_col = 1, b_row = 1, b_col = 1, c_row = 1, c_col = 1;
};

struct KernelTable {
  CpuClass cpu_class;

  // --- GEMM: DOT(K), chunks of 512 (G1); bias[n] added after when bias != nullptr.
  std::size_t (*gemm_workspace_floats)(const GemmShape&);
  void (*gemm)(const GemmShape&, const float* a, const float* b, const float* bias, float* c,
               float* ws);

  // --- Convolution. Weights are packed once per update and used for every local step.
  std::size_t (*conv_fwd_packed_floats)(const ConvShape&);
  void (*conv_fwd_pack)(const ConvShape&, const float* w, float* packed);
  std::size_t (*conv_fwd_workspace_floats)(const ConvShape&);
  void (*conv_fwd)(const ConvShape&, const float* x, const float* packed, const float* bias,
                   float* y, float* ws);  // bias[oc] or nullptr, added after

  std::size_t (*conv_dgrad_packed_floats)(const ConvShape&);
  void (*conv_dgrad_pack)(const ConvShape&, const float* w, float* packed);
  std::size_t (*conv_dgrad_workspace_floats)(const ConvShape&);
  void (*conv_dgrad)(const ConvShape&, const float* dy, const float* packed, float* dx, float* ws);

  std::size_t (*conv_wgrad_workspace_floats)(const ConvShape&);
  void (*conv_wgrad)(const ConvShape&, const float* x, const float* dy, float* dw, float* ws);

  // --- COLSUM(R, C) (G3): out[c] = sum over rows of x[r][c]. The bias gradient.
  std::size_t (*colsum_workspace_floats)(std::int64_t rows, std::int64_t cols);
  void (*colsum)(std::int64_t rows, std::int64_t cols, const float* x, float* out, float* ws);

  // --- Batch norm over x[rows][c] (rows = n*h*w), training mode, of one EST's mini-batch.
  // fwd: y = fma(x-mean, gamma*istd, beta), then ReLU when relu; writes mean[c], istd[c] for the
  //   backward pass, and next_mean/next_var[c] = running statistics after this mini-batch:
  //   r' = fma(momentum, new, (1-momentum)*r), new variance unbiased: var * (rows * recip(rows-1))
  //   (biased when rows == 1). running_* and next_* must not alias (contexts are never in place).
  // bwd: with relu the mask is recomputed from x, y is not needed. dx may alias dy.
  std::size_t (*bn_workspace_floats)(std::int64_t rows, std::int64_t c);
  void (*bn_train_fwd)(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                       const float* beta, float eps, float momentum, const float* running_mean,
                       const float* running_var, bool relu, float* y, float* mean, float* istd,
                       float* next_mean, float* next_var, float* ws);
  void (*bn_bwd)(std::int64_t rows, std::int64_t c, const float* x, const float* dy,
                 const float* mean, const float* istd, const float* gamma, const float* beta,
                 bool relu, float* dx, float* dgamma, float* dbeta, float* ws);
  // Evaluation mode: istd = 1/sqrt(running_var + eps), y as above.
  void (*bn_eval)(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                  const float* beta, float eps, const float* running_mean, const float* running_var,
                  bool relu, float* y, float* ws);

  // --- Element-wise over n floats. Outputs may alias inputs element for element.
  void (*relu_fwd)(std::int64_t n, const float* x, float* y);                    // x > 0 ? x : +0
  void (*relu_bwd)(std::int64_t n, const float* y, const float* dy, float* dx);  // y > 0 ? dy : +0
  void (*add)(std::int64_t n, const float* a, const float* b, float* y);         // a + b
  void (*add_relu)(std::int64_t n, const float* a, const float* b, float* y);
  void (*scale)(std::int64_t n, const float* x, float factor, float* y);  // x * factor

  // --- Pooling.
  // max: first maximum in (kh, kw) order; argmax[i] = kh*kw_size + kw of the winner (uint8, so
  //   kh*kw <= 256); backward gathers contributing windows in ascending (oh, ow).
  void (*max_pool_fwd)(const PoolShape&, const float* x, float* y, std::uint8_t* argmax);
  void (*max_pool_bwd)(const PoolShape&, const float* dy, const std::uint8_t* argmax, float* dx);
  // average: chain of adds in (kh, kw) order times recip(count of real cells); backward sums
  //   dy*recip(count) of the windows that cover a cell in ascending (oh, ow).
  void (*avg_pool_fwd)(const PoolShape&, const float* x, float* y);
  void (*avg_pool_bwd)(const PoolShape&, const float* dy, float* dx);
  // global average: COLSUM over the h*w rows of each image, times recip(h*w);
  //   backward dx = dy * recip(h*w).
  std::size_t (*global_avg_pool_workspace_floats)(std::int64_t hw, std::int64_t c);
  void (*global_avg_pool_fwd)(std::int64_t n, std::int64_t hw, std::int64_t c, const float* x,
                              float* y, float* ws);
  void (*global_avg_pool_bwd)(std::int64_t n, std::int64_t hw, std::int64_t c, const float* dy,
                              float* dx);

  // --- Softmax cross entropy over logits[rows][classes]; labels in [0, classes).
  // row_loss[r] = LOG(s) - (x_t - max); *mean_loss = SUM64(row_loss) * recip(rows) (G2).
  // probs[rows][classes] is kept for the backward pass: dx = (p - onehot) * recip(rows).
  void (*softmax_xent_fwd)(std::int64_t rows, std::int64_t classes, const float* logits,
                           const std::int32_t* labels, float* probs, float* row_loss,
                           float* mean_loss);
  void (*softmax_xent_bwd)(std::int64_t rows, std::int64_t classes, const float* probs,
                           const std::int32_t* labels, float* dlogits);

  // --- SGD with momentum and weight decay over n parameters (CANONICAL: g = fma(wd,p,g);
  //   v = fma(mu,v,g); p = fma(-lr,v,p)), where g = grad_sum * grad_scale first (the mean over
  //   ESTs: grad_scale = recip(max_p)). Updates p and v in place.
  void (*sgd)(std::int64_t n, const float* grad_sum, float grad_scale, float lr, float momentum,
              float weight_decay, float* p, float* v);
};

// The table of a class. REQUIRES: cpu_supports(cpu_class).
const KernelTable& kernel_table(CpuClass cpu_class);

}  // namespace es::gpu
