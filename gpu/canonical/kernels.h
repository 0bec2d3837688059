#pragma once
// The canonical kernels of a CPU kernel class: one table of functions for each class (scalar, AVX2,
// AVX-512). Every function executes the same IEEE-754 operations in the same order in each class,
// so all classes return the same bits for equal arguments. docs/reference/operators.md defines the
// order; G0 to G5 are the names of its rules.
//
// Conventions for every function:
//   dtype    fp32 in memory unless a type says bf16, int32 labels and indices
//   layout   activations NHWC, convolution weights OHWI ([oc][kh][kw][c/groups]), linear weights
//            [out][in]; all dense and row-major
//   memory   the caller owns all memory; outputs never alias inputs unless a comment says so;
//            pointers need an alignment of 4 bytes only (64 is faster); nothing is allocated, and
//            scratch memory is the argument `ws`
//   ws       at least as many floats as the matching *_workspace_floats() returns, aligned to 64
//            bytes, with arbitrary contents
//   threads  re-entrant, without global state. Kernels that take a range or a MatrixPart are phases
//            of an operator: phases.h says in which order they run and what may run concurrently
//   errors   none: shapes are validated when the graph is built
#include <cstddef>
#include <cstdint>

#include "gpu/canonical/arithmetic.h"
#include "gpu/canonical/bf16.h"
#include "gpu/canonical/factor.h"
#include "gpu/canonical/on_device.h"
#include "gpu/canonical/program.h"
#include "proto/base/device.h"

namespace es::gpu {

struct ConvShape {
  std::int64_t n = 1, h = 1, w = 1, c = 1;       // input
  std::int64_t oc = 1, kh = 1, kw = 1;           // c and oc are multiples of groups
  std::int64_t stride = 1, pad = 0, groups = 1;  // groups == c == oc > 1 is a depthwise convolution
  ES_HD std::int64_t oh() const { return (h + 2 * pad - kh) / stride + 1; }
  ES_HD std::int64_t ow() const { return (w + 2 * pad - kw) / stride + 1; }
  bool operator==(const ConvShape&) const = default;
};

// The passes of a convolution.
enum class ConvPass { kForward, kDataGradient, kWeightGradient };

// A window pooling over [n,h,w,c]. Padding cells never take part, and every window has at least one
// real cell. A window of a max pool has at most kMaxPoolCells cells.
constexpr std::int64_t kMaxPoolCells = 256;
struct PoolShape {
  std::int64_t n = 1, h = 1, w = 1, c = 1;
  std::int64_t kh = 1, kw = 1, stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;  // pad_h < kh and pad_w < kw
  std::int64_t end_h = 0, end_w = 0;  // more padding below and on the right
  ES_HD std::int64_t oh() const { return (h + 2 * pad_h + end_h - kh) / stride_h + 1; }
  ES_HD std::int64_t ow() const { return (w + 2 * pad_w + end_w - kw) / stride_w + 1; }
};

// Windows of adaptive average pooling. Output (i, j) covers the rows [floor(i*h/oh),
// ceil((i+1)*h/oh)) and the columns likewise. Windows may overlap (for example if oh > h).
struct AdaptivePoolShape {
  std::int64_t n = 1, h = 1, w = 1, c = 1, oh = 1, ow = 1;
};

// The activation that follows a batch norm in the same pass. Leaky: x > 0 ? x : x * kLeakySlope.
enum class Activation : std::uint8_t { kNone, kRelu, kLeakyRelu };
constexpr float kLeakySlope = 0.1F;

// A part of the work on a matrix: runs of 64 rows (G3; the last run may be shorter) and columns,
// both as half-open ranges [begin, end).
struct MatrixPart {
  std::int64_t run_begin, run_end, col_begin, col_end;
};

// Batch norm of one EST's mini-batch in training mode, for x[rows][c] with rows = n*h*w.
struct BnForward {
  std::int64_t rows = 1, c = 1;
  const float *x = nullptr, *gamma = nullptr, *beta = nullptr;
  float eps = 1e-5F, momentum = 0.1F;
  const float *running_mean = nullptr, *running_var = nullptr;  // [c], before this mini-batch
  Activation act = Activation::kNone;
  float* y = nullptr;
  float *mean = nullptr, *istd = nullptr;  // [c], for the backward pass
  float *next_mean = nullptr,
        *next_var = nullptr;  // [c], the running statistics after this mini-batch; may be in place
  float* ws = nullptr;        // the first c floats receive gamma * istd
};
// The backward pass of batch norm. The mask of the activation is recomputed from x, so y is not
// needed.
struct BnBackward {
  std::int64_t rows = 1, c = 1;
  const float *x = nullptr, *dy = nullptr, *mean = nullptr, *istd = nullptr;
  const float *gamma = nullptr, *beta = nullptr;
  Activation act = Activation::kNone;
  float *dx = nullptr, *dgamma = nullptr, *dbeta = nullptr;  // dx may alias dy
  float* ws = nullptr;
};

// Selects the random numbers that an operator draws: key = seed, counter = ((e>>7)*32 + (e&31),
// operator, step, rank) for decision e, word (e>>5)&3.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t rank = 0;
};
// The rank of an evaluation, which no EST has. Its `step` is the number of the mini-batch.
constexpr std::uint32_t kEvaluationRank = 0xffffffff;

// Dropout with probability p. threshold = round((1-p) * 2^32), in [1, 2^32 - 1]. Decision e keeps
// its value if and only if its word is below the threshold. Kept values are multiplied by `factor`,
// which is 1/(1-p) rounded to fp32 once.
struct Dropout {
  std::uint32_t threshold = 0;  // 0: no dropout
  std::uint32_t op = 0;         // number of the random operator in its model
  float factor = 1.0F;
};

// One operation of an element-wise chain. v is the running value of element i.
enum class ChainKind : std::uint8_t {
  kScale,      // v * factor
  kAdd,        // v + operand[i]
  kMul,        // v * operand[i]
  kAddRow,     // v + operand[i mod columns]
  kRelu,       // v > 0 ? v : +0
  kLeakyRelu,  // v > 0 ? v : v * factor
  kGelu,       // GELU(v), exact form with ERF
  kTanh,       // TANH(v)
  kSigmoid,    // SIGMOID(v)
  // Decision (i / columns): keep ? v * dropout.factor : +0. columns = 1: one decision for each
  // element; columns = elements of one sample: stochastic depth.
  kDropout,
  kReluGrad,       // operand[i] > 0 ? v : +0           operand: y (or x)
  kLeakyReluGrad,  // operand[i] > 0 ? v : v * factor   operand: y (or x)
  kGeluGrad,       // v * gelu'(operand[i])             operand: x
  kTanhGrad,       // v * fma(-y, y, 1)                 operand: y
  kSigmoidGrad,    // v * (y * (1 - y))                 operand: y
  kRoundBf16,      // v rounded to bf16 (bf16.h)
};
struct ChainStage {
  ChainKind kind = ChainKind::kScale;
  const float* operand = nullptr;
  float factor = 1.0F;
  std::int64_t columns = 1;
  Dropout dropout;
};

// A reduction other than a sum. A NaN is the maximum and the minimum; a result of -0 becomes +0.
enum class Fold : std::uint8_t { kProduct, kMaximum, kMinimum };

// Scaled dot-product attention over `batch` independent sequences with `tokens` queries and
// `key_tokens` keys each. `heads` are those of keys and values; each serves `shared` heads of
// queries, which follow each other. There are two layouts:
// - q, k, v and y have rows of heads * head_dim floats, and head h begins at column h * head_dim.
//   Token t of sequence b begins at (b * its tokens + t) * stride.
// - by_head: q and y are [batch][heads][shared][tokens][head_dim], k and v
//   [batch][heads][key_tokens][head_dim], and both strides are head_dim. Required if shared > 1.
struct AttentionShape {
  std::int64_t batch = 1, tokens = 1, heads = 1, head_dim = 1;
  std::int64_t key_tokens = 0;  // 0: as many as queries
  std::int64_t shared = 1;
  bool by_head = false;
  std::int64_t qkv_stride = 1;  // of q, k, v and their gradients, in floats
  std::int64_t y_stride = 1;    // of y and dy, in floats
  float scale = 1.0F;
  std::int64_t masks = 0;       // sequence b uses the mask b mod masks; 0: no mask
  std::int64_t mask_heads = 1;  // of a mask: one for each head of queries, or 1 for all of them
  std::int64_t mask_rows = 1;   // of a head of a mask: `tokens`, or 1 for all queries
  bool causal = false;          // keys after the query take no part
  bool bias_gradient = false;   // the backward pass computes dbias. REQUIRES: shared = 1
  // Of the probabilities. The number of a decision is the index into
  // [batch][heads][shared][tokens][key_tokens].
  Dropout dropout;
  // Only the heads [head_begin, head_begin + head_count) are computed, so that threads can share
  // the work. All pointers still refer to head 0. head_count = 0: all heads.
  std::int64_t head_begin = 0, head_count = 0;
};
// Optional operands of an attention; nullptr: absent.
struct AttentionExtras {
  // [heads][shared][tokens][key_tokens], added to the scaled scores
  const float* bias = nullptr;
  // [masks][mask_heads][mask_rows][key_tokens], added after the bias
  const float* mask = nullptr;
  const std::int32_t* length = nullptr;  // [batch]: the scores of keys >= length are -inf
  const std::int32_t* first = nullptr;   // [batch][tokens] of queries: so are those of keys < first
};

// One time step of a recurrent layer with `units` hidden units, for `rows` sequences. A row has its
// gates side by side: four of an LSTM (input, forget, cell, output), three of a GRU (reset, update,
// new). `product` is the product of the hidden state before and the recurrent weight, plus a bias.
enum class RecurrentCell : std::uint8_t { kLstm, kGru };
struct RecurrentForward {
  RecurrentCell cell = RecurrentCell::kLstm;
  std::int64_t rows = 1, units = 1;
  const float *x = nullptr, *product = nullptr;  // [rows][gates * units]
  const float* before = nullptr;  // [rows][units]: the cell state (LSTM) or the hidden state (GRU)
  float* gates = nullptr;         // after their activations, for the backward pass; may alias x
  float* kept = nullptr;          // LSTM: the cell state after; GRU: `product` of the new gate
  float* y = nullptr;             // the hidden state after
  float* last = nullptr;          // LSTM: receives the cell state once more; nullptr: it does not
};
// The backward pass. `product` is here the product of the gradient of `product` in the step after
// and the recurrent weight. `carry` is the part of a state's gradient that takes no product: of the
// cell state (LSTM) or of the hidden state (GRU). It is replaced by that of the step before.
struct RecurrentBackward {
  RecurrentCell cell = RecurrentCell::kLstm;
  std::int64_t rows = 1, units = 1;
  const float *gates = nullptr, *before = nullptr, *kept = nullptr;  // of the forward pass
  const float *dy = nullptr, *product = nullptr;
  float* carry = nullptr;
  float* dx = nullptr;        // may alias gates
  float* dproduct = nullptr;  // GRU only: the gradient of `product`, which for an LSTM is dx
};

// The YOLO loss for one image size (Redmon & Farhadi 2018, three scales). Scale s has a grid
// [h[s]][w[s]] and the three anchors anchor_w/h[s][3], in pixels of an image_h x image_w image.
struct YoloShape {
  std::int64_t batch = 1, classes = 1, boxes = 1;  // boxes: M for each image; class -1: no box
  std::int64_t image_h = 1, image_w = 1;
  std::int64_t h[3] = {1, 1, 1}, w[3] = {1, 1, 1};
  float anchor_w[3][3] = {}, anchor_h[3][3] = {};
};

// The labels of all rows of a mini-batch.
struct LabelledRows {
  std::int64_t rows = 0;
  const std::int32_t* labels = nullptr;
};

// What a cross entropy has besides its first term; 0: none of it.
struct LossTerms {
  float smoothing = 0.0F;  // the share of all classes together in the target
  float z = 0.0F;          // the factor of the square of lse = LOG(s) + max
  bool operator==(const LossTerms&) const = default;
};

struct AdamStep {
  float lr_over_bc1 = 0.0F;  // lr / (1 - beta1^t), computed in fp64, rounded once
  float rsqrt_bc2 = 0.0F;    // 1 / sqrt(1 - beta2^t), computed in fp64, rounded once
  float beta1 = 0.9F, beta2 = 0.999F;
  float one_minus_beta1 = 0.1F, one_minus_beta2 = 0.001F;  // computed in fp64, rounded once
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;  // Adam: g = fma(weight_decay, p, g)
  float decay = 1.0F;         // AdamW: p = p * decay first, decay = 1 - lr * weight_decay; Adam: 1
};

// C[m][n] = sum_k A(m,k) * B(k,n). Element (i,j) of a matrix X is X[i*x_row + j*x_col]; the strides
// count numbers, however these are stored.
struct GemmShape {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t a_row = 1, a_col = 1, b_row = 1, b_col = 1, c_row = 1, c_col = 1;
  // C contains the sum of earlier chunks of K, to which the chunks of this product are added.
  bool add = false;
  // The kernels of a device read fp32 only.
  Factor a_stored = Factor::kF32, b_stored = Factor::kF32;
  Arithmetic arithmetic = Arithmetic::kFp32;
};

struct KernelTable {
  CpuClass cpu_class;

  // --- GEMM: DOT(K) in chunks of 512 (G1), or an exact product (G1X) if the shape says so; bias[n]
  // is added afterwards if bias != nullptr.
  std::size_t (*gemm_workspace_floats)(const GemmShape&);
  void (*gemm)(const GemmShape&, const float* a, const float* b, const float* bias, float* c,
               float* ws);

  // `count` independent products. Operand X of product i begins x_step numbers behind that of the
  // product before.
  void (*gemm_batched)(const GemmShape&, std::int64_t count, std::int64_t a_step,
                       std::int64_t b_step, std::int64_t c_step, const float* a, const float* b,
                       float* c, float* ws);  // ws as for gemm

  // --- Convolution. `w` is the plain weight tensor [oc][kh][kw][c/groups]. The kernels rearrange
  // slices of it in `ws`, so nothing is kept between calls. A part of the images (another n) is a
  // shape of its own and may need more workspace than all images.
  //
  // conv_fwd writes the output channels [oc_begin, oc_end) of y, and conv_dgrad the input channels
  // [c_begin, c_end) of dx; the pointers are those of channel 0. Threads can share the work in this
  // way, and the results do not depend on the ranges. The workspace is that of a shape with as many
  // channels. REQUIRES: a range is whole unless groups is 1.
  std::size_t (*conv_fwd_workspace_floats)(const ConvShape&);
  void (*conv_fwd)(const ConvShape&, std::int64_t oc_begin, std::int64_t oc_end, const float* x,
                   const float* w, const float* bias, float* y,
                   float* ws);  // bias[oc] or nullptr, added afterwards

  std::size_t (*conv_dgrad_workspace_floats)(const ConvShape&);
  void (*conv_dgrad)(const ConvShape&, std::int64_t c_begin, std::int64_t c_end, const float* dy,
                     const float* w, float* dx, float* ws);

  // Writes the rows [oc_begin, oc_end) of dw; dw points to row 0. Threads can share the work in
  // this way, and the results do not depend on the ranges.
  std::size_t (*conv_wgrad_workspace_floats)(const ConvShape&);
  void (*conv_wgrad)(const ConvShape&, std::int64_t oc_begin, std::int64_t oc_end, const float* x,
                     const float* dy, float* dw, float* ws);

  // --- COLSUM(R, C) (G3): out[c] = the sum over the rows of x[r][c]. It is the bias gradient.
  // colsum_runs leaves the sum of each run in ws[runs][cols]. colsum_finish sums these for some
  // columns into `out`; it overwrites ws.
  std::size_t (*colsum_workspace_floats)(std::int64_t rows, std::int64_t cols);
  void (*colsum_runs)(std::int64_t rows, std::int64_t cols, const MatrixPart&, const float* x,
                      float* ws);
  void (*colsum_finish)(std::int64_t rows, std::int64_t cols, std::int64_t col_begin,
                        std::int64_t col_end, float* ws, float* out);

  // --- Batch norm in training: y = fma(x-mean, gamma*istd, beta), then the activation. Running
  // statistics: r' = fma(momentum, new, (1-momentum)*r). The new variance is unbiased: var * (rows
  // * recip(rows-1)); it is biased if rows == 1.
  std::size_t (*bn_workspace_floats)(std::int64_t rows, std::int64_t c);  // for both directions
  void (*bn_statistics)(const BnForward&, const MatrixPart&);             // of each run
  // Computes mean, istd, next_mean, next_var and gamma*istd from the runs.
  void (*bn_merge)(const BnForward&, std::int64_t col_begin, std::int64_t col_end);
  // Computes y, beginning with the last rows of the part, which bn_statistics has left in the
  // caches.
  void (*bn_apply)(std::int64_t rows, std::int64_t c, const MatrixPart&, const float* x,
                   const float* mean, const float* a, const float* beta, Activation act, float* y);
  // For evaluation: a = gamma / sqrt(running_var + eps) as gamma * (1 / sqrt(...)). bn_apply
  // follows with the running mean.
  void (*bn_eval_scale)(std::int64_t c, const float* gamma, const float* running_var, float eps,
                        float* a);
  void (*bn_bwd_sums)(const BnBackward&, const MatrixPart&);  // of each run
  void (*bn_bwd_merge)(const BnBackward&, std::int64_t col_begin, std::int64_t col_end);
  void (*bn_bwd_input)(const BnBackward&, const MatrixPart&);  // dx, last rows first

  // --- Element-wise operators on n floats. An output may alias an input element for element.
  void (*relu_fwd)(std::int64_t n, const float* x, float* y);                    // x > 0 ? x : +0
  void (*relu_bwd)(std::int64_t n, const float* y, const float* dy, float* dx);  // y > 0 ? dy : +0
  void (*add)(std::int64_t n, const float* a, const float* b, float* y);         // a + b
  void (*add_relu)(std::int64_t n, const float* a, const float* b, float* y);
  void (*scale)(std::int64_t n, const float* x, float factor, float* y);  // x * factor

  // --- Pooling. max: the first maximum in (kh, kw) order. argmax[i] = kh*kw_size + kw of the
  // winner (uint8; see kMaxPoolCells). The backward pass adds the windows that the cell won in
  // ascending (oh, ow).
  void (*max_pool_fwd)(const PoolShape&, const float* x, float* y, std::uint8_t* argmax);
  void (*max_pool_bwd)(const PoolShape&, const float* dy, const std::uint8_t* argmax, float* dx);
  // Average: a chain of additions in (kh, kw) order times recip(number of real cells). The backward
  // pass adds dy*recip(number) of the windows that cover a cell in ascending (oh, ow).
  void (*avg_pool_fwd)(const PoolShape&, const float* x, float* y);
  void (*avg_pool_bwd)(const PoolShape&, const float* dy, float* dx);
  // Global average: COLSUM over the h*w rows of each image, times recip(h*w); backward: dx = dy *
  // recip(h*w).
  std::size_t (*global_avg_pool_workspace_floats)(std::int64_t hw, std::int64_t c);
  void (*global_avg_pool_fwd)(std::int64_t n, std::int64_t hw, std::int64_t c, const float* x,
                              float* y, float* ws);
  void (*global_avg_pool_bwd)(std::int64_t n, std::int64_t hw, std::int64_t c, const float* dy,
                              float* dx);

  void (*adaptive_avg_pool_fwd)(const AdaptivePoolShape&, const float* x, float* y);
  // A chain of additions of dy * recip(cells of the window) in ascending (oh, ow).
  void (*adaptive_avg_pool_bwd)(const AdaptivePoolShape&, const float* dy, float* dx);
  // Backward pass of nearest-neighbour upsampling by 2: dx[h][w] = a chain of additions from +0 of
  // the four dy in (row, column) order. h and w are the sides of the input. (The forward pass only
  // moves data.)
  void (*upsample2_bwd)(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c,
                        const float* dy, float* dx);

  // --- Element-wise chains over the elements [begin, end) of dense arrays: y[i] = the stages
  // applied to x[i] in order. y may alias x and any operand, element for element.
  void (*chain)(std::int64_t begin, std::int64_t end, const float* x, const ChainStage* stages,
                std::int64_t count, const DropoutKey& key, float* y);

  // --- bf16 (bf16.h): y[i] = x[i] as fp32, and x[i] rounded to bf16.
  void (*widen)(std::int64_t n, const Bf16* x, float* y);
  void (*narrow)(std::int64_t n, const float* x, Bf16* y);

  // --- Uniform random numbers: y[i] = (word >> 8) * 2^-24 for the elements [begin, end), with the
  // word of decision i of the random operator `op` (DropoutKey).
  void (*uniform)(std::int64_t begin, std::int64_t end, std::uint32_t op, const DropoutKey& key,
                  float* y);

  // --- Element-wise programs: the elements [begin, end) of the outputs, in the row-major order of
  // the space. The code uses registers below kProgramRegisters and has at least one instruction.
  // Output 0 may alias an input, element for element, if the input is dense. `machine_code` is that
  // of the code for this class, or nullptr.
  void (*program)(const ElementCode& code, TileCode machine_code, const ElementSpace& space,
                  const float* const* in, float* const* out, std::int64_t begin, std::int64_t end);

  // --- Reductions. sum_rows: y[r] = SUM64 of row r of x[rows][n] (G2). fold_rows: the same with 64
  // lanes, but no second level, for products, maxima and minima. fold_columns: y[c] = the chain
  // down column c of x[rows][cols]; sums down columns are colsum_*. best_indices: the index of the
  // largest or smallest element of each row, for kMaximum and kMinimum.
  void (*sum_rows)(std::int64_t rows, std::int64_t n, const float* x, float* y);
  void (*fold_rows)(Fold fold, std::int64_t rows, std::int64_t n, const float* x, float* y);
  void (*fold_columns)(Fold fold, std::int64_t rows, std::int64_t cols, std::int64_t col_begin,
                       std::int64_t col_end, const float* x, float* y);
  void (*best_indices)(Fold fold, std::int64_t rows, std::int64_t n, const float* x,
                       std::int32_t* y);
  // Running sums over the middle axis of x[count][n][inner], each one chain of additions that
  // begins with its first element, or with its last one.
  void (*running_sums)(std::int64_t count, std::int64_t n, std::int64_t inner, bool reverse,
                       const float* x, float* y);

  // --- Layer norm over the last axis of x[rows][c]: y = fma((x-mean)*istd, gamma, beta).
  void (*layer_norm_fwd)(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                         const float* beta, float eps, float* y, float* mean, float* istd);
  // Backward pass for the runs [run_begin, run_end): dx of their rows (dx may alias dy), and their
  // sums. colsum_finish then computes dgamma from ws, and dbeta from ws + half the workspace.
  std::size_t (*layer_norm_bwd_workspace_floats)(std::int64_t rows, std::int64_t c);
  void (*layer_norm_bwd)(std::int64_t rows, std::int64_t c, std::int64_t run_begin,
                         std::int64_t run_end, const float* x, const float* dy, const float* mean,
                         const float* istd, const float* gamma, float* dx, float* ws);

  // --- Softmax over the last axis; y may alias x. Backward: dx = y * (dy - SUM64(dy*y)); dx may
  // alias dy. A row whose elements are all -inf gives +0.
  void (*softmax_fwd)(std::int64_t rows, std::int64_t c, const float* x, float* y);
  void (*softmax_bwd)(std::int64_t rows, std::int64_t c, const float* y, const float* dy,
                      float* dx);

  // --- Recurrent layers: the operations of a time step, without its product.
  void (*recurrent_fwd)(const RecurrentForward&);
  void (*recurrent_bwd)(const RecurrentBackward&);

  // --- Attention: has the same bits as the composition gemm (q k^T), *scale, +bias, +mask, -inf
  // beyond the length, softmax, dropout, gemm (p v). No matrix [tokens][key_tokens] is stored: the
  // backward pass computes the probabilities again from `stats` [batch][heads][shared][tokens][2],
  // which has softmax_shift() and softmax_scale() of each row (attention_math.h), and draws dropout
  // again. Backward: dbias[heads][tokens][key_tokens] = COLSUM over the sequences of the gradient
  // of the scores; nullptr without bias_gradient. The products are dv = p'^T dy, dp = dy v^T, dq =
  // ds k, dk = ds^T q; ds is multiplied by `scale` before the last two. The sums over the queries
  // (dk and dv) are one DOT over k = (head of the `shared` ones, query).
  std::size_t (*attention_workspace_floats)(const AttentionShape&);  // for both directions
  void (*attention_fwd)(const AttentionShape&, const float* q, const float* k, const float* v,
                        const AttentionExtras&, const DropoutKey&, float* y, float* stats,
                        float* ws);
  void (*attention_bwd)(const AttentionShape&, const float* q, const float* k, const float* v,
                        const AttentionExtras&, const float* stats, const float* dy,
                        const DropoutKey&, float* dq, float* dk, float* dv, float* dbias,
                        float* ws);

  // --- Embedding: y[i][c] = table[ids[i]][c] with ids in [0, rows). The backward pass writes
  // dtable[rows][c]: for each row a chain of additions in ascending position, in chunks of 512; +0
  // if no id names the row. If `before` is not nullptr, dtable is before + that; the two may be the
  // same memory. embedding_sort lists the positions of each row in ws. embedding_bwd writes a
  // rectangle of dtable.
  void (*embedding_fwd)(std::int64_t count, std::int64_t c, const float* table,
                        const std::int32_t* ids, float* y);
  std::size_t (*embedding_bwd_workspace_floats)(std::int64_t count, std::int64_t rows);
  void (*embedding_sort)(std::int64_t count, std::int64_t rows, const std::int32_t* ids, float* ws);
  void (*embedding_bwd)(std::int64_t c, std::int64_t rows, std::int64_t row_begin,
                        std::int64_t row_end, std::int64_t col_begin, std::int64_t col_end,
                        const float* dy, const float* ws, const float* before, float* dtable);

  // --- Softmax cross entropy over logits[rows][classes]. Labels are in [0, classes), or negative:
  // the row takes no part (row_loss +0, dx +0). With R rows that take part (at least 1):
  // row_loss[r] = LOG(s) - (x_t - max); *mean_loss = SUM64(row_loss) * recip(R) (G2).
  // probs[rows][classes] are kept for the backward pass: dx = (p - onehot) * recip(R). The passes
  // may get some rows of a mini-batch; `counted` is R, of all its rows. probs may have the address
  // of logits, and dlogits that of probs. Terms: row_loss = fma(smoothing, x_t - SUM64(x) *
  // recip(classes), row_loss), then fma(z * lse, lse, row_loss), and p = e * ((1/s) * fma(2z, lse,
  // 1)); dx = ((p - smoothing * recip(classes)) - onehot * (1 - smoothing)) * recip(R).
  void (*softmax_xent_fwd)(std::int64_t rows, std::int64_t classes, const float* logits,
                           const std::int32_t* labels, const LossTerms&, float* probs,
                           float* row_loss);
  void (*softmax_xent_mean)(std::int64_t rows, const std::int32_t* labels, const float* row_loss,
                            float* mean_loss);
  void (*softmax_xent_bwd)(std::int64_t rows, std::int64_t classes, const float* probs,
                           const std::int32_t* labels, const LabelledRows& counted,
                           const LossTerms&, float* dlogits);

  // --- Losses over n elements: *mean_loss = SUM64(element losses) * recip(n); element_loss is [n].
  // bce (with logits): fma(-x, t, max(x, +0)) + LOG(1 + EXP(-|x|)); backward: (SIGMOID(x) - t) *
  // recip(n). mse: d = x - t; d*d; backward: d * (2 * recip(n)).
  void (*bce_fwd)(std::int64_t n, const float* x, const float* target, float* element_loss,
                  float* mean_loss);
  void (*bce_bwd)(std::int64_t n, const float* x, const float* target, float* dx);
  void (*mse_fwd)(std::int64_t n, const float* x, const float* target, float* element_loss,
                  float* mean_loss);
  void (*mse_bwd)(std::int64_t n, const float* x, const float* target, float* dx);
  // YOLO: outputs[s] is [batch][h][w][3*(5+classes)] without activation; for each anchor (x, y, w,
  // h, objectness, classes). boxes is [batch][M][5]. Writes the loss of each image, their mean, and
  // the gradient of the mean.
  std::size_t (*yolo_loss_workspace_floats)(const YoloShape&);
  void (*yolo_loss)(const YoloShape&, const float* const outputs[3], const float* boxes,
                    float* const gradients[3], float* image_loss, float* mean_loss, float* ws);

  // --- Returns whether any of n floats is infinite or NaN.
  bool (*any_non_finite)(std::int64_t n, const float* x);

  // --- SUM64(x*x) with products as fma (G2): one tensor's part of the gradient norm.
  float (*sum_of_squares)(std::int64_t n, const float* x);

  // --- Adam and AdamW: g = grad_sum*grad_scale, then fma(weight_decay, p, g) if it is not 0; m =
  // fma(beta1, m, (1-beta1)*g); v = fma(beta2, v, (1-beta2)*(g*g)); p = fma(-lr_over_bc1, m /
  // fma(sqrt(v), rsqrt_bc2, epsilon), p*decay), where decay is 1 for Adam.
  void (*adam)(std::int64_t n, const float* grad_sum, float grad_scale, const AdamStep&, float* p,
               float* m, float* v);

  // --- SGD with momentum and weight decay over n parameters (docs/reference/operators.md): g =
  // fma(weight_decay, p, grad_sum*grad_scale), where grad_scale = recip(max_p) gives the mean over
  // ESTs; v = fma(momentum, v, g); p = fma(-lr, v, p). Nesterov: p = fma(-lr, fma(momentum, v, g),
  // p). p and v are updated in place. v == nullptr: no momentum, p = fma(-lr, g, p).
  void (*sgd)(std::int64_t n, const float* grad_sum, float grad_scale, float lr, float momentum,
              float weight_decay, bool nesterov, float* p, float* v);
};

// Returns the table of a class. REQUIRES: cpu_supports(cpu_class).
const KernelTable& kernel_table(CpuClass cpu_class);

}  // namespace es::gpu
