#pragma once
// The canonical kernels of the CUDA device: a table of functions, each of which queues a whole
// operator on a stream. The order of IEEE-754 operations is that of gpu/canonical/kernels.h, whose
// conventions hold (dtype, layout, aliasing, workspace) with these differences:
//   memory   every pointer is to device memory and aligned to at least 4 bytes
//   sizes    a tensor has at most kDeviceTensorMax elements; a chain has at most 16 stages
//   errors   an error of a launch stays with the device: Device::check()
// The table exists twice: kernels for GPUs (in builds with the CUDA toolkit), and the same sources
// on the host, for tests and for machines without a GPU (gpu/cuda/launch.h).
#include <cstddef>
#include <cstdint>

#include "gpu/base/stream.h"
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/move.h"

namespace es::gpu::cuda {

// Kernels number elements with 32 bits. The threads of the last block, which pass the last element,
// have such numbers, too.
constexpr std::int64_t kDeviceTensorMax = (std::int64_t{1} << 32) - 1024;

// A run of numbers, and the word that is set to 1 if one of them is infinite or NaN.
struct FiniteCheck {
  const float* x = nullptr;
  std::int64_t count = 0;
  std::int32_t* found = nullptr;
  bool bf16 = false;  // x points to bf16 numbers
};
constexpr std::int64_t kFiniteChecksMax = 16;

// The words that an update sets to 1 if a summed gradient, or a parameter or moment that it has
// written, is infinite or NaN; nullptr: nothing is said about them.
struct UpdateFlags {
  std::int32_t *sums = nullptr, *results = nullptr;
};

// The arrays of an element-wise operator that consist of bf16 numbers, although their addresses are
// those of floats. Programs: bit k stands for input or output k. Chains: the inputs are x and then
// the operands of the stages, of which that of kAddRow is always fp32.
struct Bf16Arrays {
  std::uint32_t in = 0, out = 0;
  bool any() const { return (in | out) != 0; }
  ES_HD bool reads(std::int64_t k) const { return (in >> k & 1U) != 0; }
  ES_HD bool writes(std::int64_t k) const { return (out >> k & 1U) != 0; }
};

// How a device computes exact products (G1X); all routes have the same bits.
enum class ExactRoute : std::uint8_t {
  kResults,  // a thread for each result, on every GPU
  kTiles,    // tensor cores, from capability 7.5 on
  kGroups,   // tensor cores of capability 9.0
};

struct DeviceKernels {
  // --- Dense operators (gemm.cu, conv.cu, depthwise.cu, attention.cu).
  std::size_t (*gemm_workspace_floats)(const GemmShape&, std::int64_t count);
  // `count` independent products. Operand X of product i begins at x + i * x_step. `bias` is
  // bias[n] or nullptr.
  void (*gemm)(Stream, const GemmShape&, std::int64_t count, std::int64_t a_step,
               std::int64_t b_step, std::int64_t c_step, const float* a, const float* b,
               const float* bias, float* c, float* ws);
  // The same for a shape with an arithmetic other than fp32 and count > 0, by one route: for tests
  // and measurements. `gemm` chooses the route. REQUIRES: the device of the calling thread has it.
  bool (*has_exact_route)(ExactRoute);
  void (*exact_gemm)(Stream, ExactRoute, const GemmShape&, std::int64_t count, std::int64_t a_step,
                     std::int64_t b_step, std::int64_t c_step, const float* a, const float* b,
                     const float* bias, float* c, float* ws);
  std::size_t (*conv_fwd_workspace_floats)(const ConvShape&);
  void (*conv_fwd)(Stream, const ConvShape&, const float* x, const float* w, const float* bias,
                   float* y, float* ws);
  std::size_t (*conv_dgrad_workspace_floats)(const ConvShape&);
  void (*conv_dgrad)(Stream, const ConvShape&, const float* dy, const float* w, float* dx,
                     float* ws);
  std::size_t (*conv_wgrad_workspace_floats)(const ConvShape&);
  void (*conv_wgrad)(Stream, const ConvShape&, const float* x, const float* dy, float* dw,
                     float* ws);
  // Computes all heads (AttentionShape::head_begin and head_count are not used). The DropoutKey is
  // in device memory, so that a recorded step can be launched with another key.
  std::size_t (*attention_workspace_floats)(const AttentionShape&);
  void (*attention_fwd)(Stream, const AttentionShape&, const float* q, const float* k,
                        const float* v, const AttentionExtras&, const DropoutKey*, float* y,
                        float* stats, float* ws);
  void (*attention_bwd)(Stream, const AttentionShape&, const float* q, const float* k,
                        const float* v, const AttentionExtras&, const float* stats, const float* dy,
                        const DropoutKey*, float* dq, float* dk, float* dv, float* dbias,
                        float* ws);

  // --- Sums over rows and normalisation (norm.cu, layer_norm.cu, softmax.cu).
  std::size_t (*colsum_workspace_floats)(std::int64_t rows, std::int64_t cols);
  void (*colsum)(Stream, std::int64_t rows, std::int64_t cols, const float* x, float* out,
                 float* ws);
  std::size_t (*bn_workspace_floats)(std::int64_t rows, std::int64_t c);
  void (*bn_train_fwd)(Stream, const BnForward&);
  void (*bn_eval)(Stream, std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                  const float* beta, float eps, const float* running_mean, const float* running_var,
                  Activation act, float* y, float* ws);
  void (*bn_bwd)(Stream, const BnBackward&);
  void (*layer_norm_fwd)(Stream, std::int64_t rows, std::int64_t c, const float* x,
                         const float* gamma, const float* beta, float eps, float* y, float* mean,
                         float* istd);
  std::size_t (*layer_norm_bwd_workspace_floats)(std::int64_t rows, std::int64_t c);
  void (*layer_norm_bwd)(Stream, std::int64_t rows, std::int64_t c, const float* x, const float* dy,
                         const float* mean, const float* istd, const float* gamma, float* dx,
                         float* dgamma, float* dbeta, float* ws);
  void (*softmax_fwd)(Stream, std::int64_t rows, std::int64_t c, const float* x, float* y);
  void (*softmax_bwd)(Stream, std::int64_t rows, std::int64_t c, const float* y, const float* dy,
                      float* dx);

  // --- Element-wise operators (elementwise.cu). The stages of a chain are in host memory.
  void (*chain)(Stream, std::int64_t n, const float* x, const ChainStage* stages,
                std::int64_t count, const Bf16Arrays&, const DropoutKey*, float* y);
  void (*uniform)(Stream, std::int64_t n, std::uint32_t op, const DropoutKey*, float* y);
  void (*add)(Stream, std::int64_t n, const float* a, const float* b, float* y);
  void (*scale)(Stream, std::int64_t n, const float* x, float factor, float* y);
  void (*fill_zero)(Stream, std::int64_t words, float* y);
  // copy.source and copy.target are not used: the two pointers are the tensors.
  void (*block_copy)(Stream, const BlockCopy& copy, const float* source, float* target);

  // --- Programs (program.cu). The code, the space and the lists of addresses are in host memory.
  void (*program)(Stream, const ElementCode& code, const ElementSpace& space, const Bf16Arrays&,
                  const float* const* in, float* const* out, std::int64_t n);

  // --- Reductions (fold.cu). The columns of `matrices` matrices [rows][cols] are summed or folded.
  void (*sum_rows)(Stream, std::int64_t rows, std::int64_t n, const float* x, float* y);
  void (*fold_rows)(Stream, Fold fold, std::int64_t rows, std::int64_t n, const float* x, float* y);
  void (*fold_columns)(Stream, Fold fold, std::int64_t matrices, std::int64_t rows,
                       std::int64_t cols, const float* x, float* y);
  std::size_t (*sum_matrices_workspace_floats)(std::int64_t matrices, std::int64_t rows,
                                               std::int64_t cols);
  void (*sum_matrices)(Stream, std::int64_t matrices, std::int64_t rows, std::int64_t cols,
                       const float* x, float* y, float* ws);
  void (*best_indices)(Stream, Fold fold, std::int64_t rows, std::int64_t n, const float* x,
                       std::int32_t* y);
  void (*running_sums)(Stream, std::int64_t count, std::int64_t n, std::int64_t inner, bool reverse,
                       const float* x, float* y);

  // --- Recurrent layers (recurrent.cu).
  void (*recurrent_fwd)(Stream, const RecurrentForward&);
  void (*recurrent_bwd)(Stream, const RecurrentBackward&);

  // --- Pooling and sampling (pool.cu).
  void (*max_pool_fwd)(Stream, const PoolShape&, const float* x, float* y, std::uint8_t* argmax);
  void (*max_pool_bwd)(Stream, const PoolShape&, const float* dy, const std::uint8_t* argmax,
                       float* dx);
  void (*avg_pool_fwd)(Stream, const PoolShape&, const float* x, float* y);
  void (*avg_pool_bwd)(Stream, const PoolShape&, const float* dy, float* dx);
  std::size_t (*global_avg_pool_workspace_floats)(std::int64_t n, std::int64_t hw, std::int64_t c);
  void (*global_avg_pool_fwd)(Stream, std::int64_t n, std::int64_t hw, std::int64_t c,
                              const float* x, float* y, float* ws);
  void (*global_avg_pool_bwd)(Stream, std::int64_t n, std::int64_t hw, std::int64_t c,
                              const float* dy, float* dx);
  void (*adaptive_avg_pool_fwd)(Stream, const AdaptivePoolShape&, const float* x, float* y);
  void (*adaptive_avg_pool_bwd)(Stream, const AdaptivePoolShape&, const float* dy, float* dx);
  void (*upsample2_bwd)(Stream, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c,
                        const float* dy, float* dx);

  // --- Embedding and losses (embedding.cu, loss.cu, yolo.cu). ids are in [0, rows).
  void (*embedding_fwd)(Stream, std::int64_t count, std::int64_t c, const float* table,
                        const std::int32_t* ids, float* y);
  std::size_t (*embedding_bwd_workspace_floats)(std::int64_t count, std::int64_t rows);
  void (*embedding_bwd)(Stream, std::int64_t count, std::int64_t c, std::int64_t rows,
                        const std::int32_t* ids, const float* dy, const float* before,
                        float* dtable, float* ws);
  void (*softmax_xent_fwd)(Stream, std::int64_t rows, std::int64_t classes, const float* logits,
                           const std::int32_t* labels, const LossTerms&, float* probs,
                           float* row_loss);
  void (*softmax_xent_mean)(Stream, std::int64_t rows, const std::int32_t* labels,
                            const float* row_loss, float* mean_loss);
  void (*softmax_xent_bwd)(Stream, std::int64_t rows, std::int64_t classes, const float* probs,
                           const std::int32_t* labels, const LabelledRows& counted,
                           const LossTerms&, float* dlogits);
  std::size_t (*mean_loss_workspace_floats)(std::int64_t n);  // for bce_fwd and mse_fwd
  void (*bce_fwd)(Stream, std::int64_t n, const float* x, const float* target, float* element_loss,
                  float* mean_loss, float* ws);
  void (*bce_bwd)(Stream, std::int64_t n, const float* x, const float* target, float* dx);
  void (*mse_fwd)(Stream, std::int64_t n, const float* x, const float* target, float* element_loss,
                  float* mean_loss, float* ws);
  void (*mse_bwd)(Stream, std::int64_t n, const float* x, const float* target, float* dx);
  std::size_t (*yolo_loss_workspace_floats)(const YoloShape&);
  void (*yolo_loss)(Stream, const YoloShape&, const float* const outputs[3], const float* boxes,
                    float* const gradients[3], float* image_loss, float* mean_loss, float* ws);

  // --- Updates and checks (update.cu). find_non_finite sets the words of runs with such a value
  // and leaves the other words unchanged. At most kFiniteChecksMax checks, in host memory.
  void (*find_non_finite)(Stream, const FiniteCheck* checks, std::int64_t count);
  std::size_t (*sum_of_squares_workspace_floats)(std::int64_t n);
  void (*sum_of_squares)(Stream, std::int64_t n, const float* x, float* sum, float* ws);
  void (*adam)(Stream, std::int64_t n, const float* grad_sum, float grad_scale, const AdamStep&,
               float* p, float* m, float* v, const UpdateFlags&);
  void (*sgd)(Stream, std::int64_t n, const float* grad_sum, float grad_scale, float lr,
              float momentum, float weight_decay, bool nesterov, float* p, float* v,
              const UpdateFlags&);

  // --- Digests (digest.cu). chunk_digests computes digest_of() for each of `chunks` runs of
  // kDigestChunkBytes (replica.h): the low word, then the high word. `secret` contains the
  // words of digest_secret(). `x`, `secret` and `digests` are aligned to 16 bytes.
  void (*chunk_digests)(Stream, std::int64_t chunks, const float* x, const std::uint64_t* secret,
                        std::uint64_t* digests);
};

}  // namespace es::gpu::cuda
