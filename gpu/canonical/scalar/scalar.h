#pragma once
// The scalar kernels: the canonical order written as plain loops. They are the definition against
// which the vector kernels are tested, byte for byte. gpu/canonical/kernels.h has the contract of
// each function.
//
// The innermost loop runs over independent results wherever it can, so that a processor can overlap
// the chains. The order within each result is the one that the definition prescribes.
#include "gpu/canonical/kernels.h"

namespace es::gpu::scalar {

std::size_t gemm_workspace_floats(const GemmShape&);
void gemm(const GemmShape&, const float* a, const float* b, const float* bias, float* c, float* ws);
void gemm_batched(const GemmShape&, std::int64_t count, std::int64_t a_step, std::int64_t b_step,
                  std::int64_t c_step, const float* a, const float* b, float* c, float* ws);
// The product of a shape with an arithmetic other than fp32.
std::size_t exact_workspace_floats(const GemmShape&);
void exact_gemm(const GemmShape&, const float* a, const float* b, const float* bias, float* c,
                float* ws);

void softmax_fwd(std::int64_t rows, std::int64_t c, const float* x, float* y);
void softmax_bwd(std::int64_t rows, std::int64_t c, const float* y, const float* dy, float* dx);

std::size_t attention_workspace_floats(const AttentionShape&);
void attention_fwd(const AttentionShape&, const float* q, const float* k, const float* v,
                   const AttentionExtras&, const DropoutKey&, float* y, float* stats, float* ws);
void attention_bwd(const AttentionShape&, const float* q, const float* k, const float* v,
                   const AttentionExtras&, const float* stats, const float* dy, const DropoutKey&,
                   float* dq, float* dk, float* dv, float* dbias, float* ws);

std::size_t conv_fwd_workspace_floats(const ConvShape&);
void conv_fwd(const ConvShape&, std::int64_t oc_begin, std::int64_t oc_end, const float* x,
              const float* w, const float* bias, float* y, float* ws);
std::size_t conv_dgrad_workspace_floats(const ConvShape&);
void conv_dgrad(const ConvShape&, std::int64_t c_begin, std::int64_t c_end, const float* dy,
                const float* w, float* dx, float* ws);
std::size_t conv_wgrad_workspace_floats(const ConvShape&);
void conv_wgrad(const ConvShape&, std::int64_t oc_begin, std::int64_t oc_end, const float* x,
                const float* dy, float* dw, float* ws);

// Depthwise convolution has an order of its own; conv_* call these functions if
// is_depthwise(shape). `packed` is scratch memory of the size of the weights.
void depthwise_fwd(const ConvShape&, const float* x, const float* w, const float* bias, float* y,
                   float* packed);
void depthwise_dgrad(const ConvShape&, const float* dy, const float* w, float* dx, float* packed);
std::size_t depthwise_wgrad_workspace_floats(const ConvShape&);
void depthwise_wgrad(const ConvShape&, std::int64_t oc_begin, std::int64_t oc_end, const float* x,
                     const float* dy, float* dw, float* ws);

std::size_t colsum_workspace_floats(std::int64_t rows, std::int64_t cols);
void colsum_runs(std::int64_t rows, std::int64_t cols, const MatrixPart&, const float* x,
                 float* ws);
void colsum_finish(std::int64_t rows, std::int64_t cols, std::int64_t col_begin,
                   std::int64_t col_end, float* ws, float* out);

std::size_t bn_workspace_floats(std::int64_t rows, std::int64_t c);
void bn_statistics(const BnForward&, const MatrixPart&);
void bn_merge(const BnForward&, std::int64_t col_begin, std::int64_t col_end);
void bn_apply(std::int64_t rows, std::int64_t c, const MatrixPart&, const float* x,
              const float* mean, const float* a, const float* beta, Activation act, float* y);
void bn_eval_scale(std::int64_t c, const float* gamma, const float* running_var, float eps,
                   float* a);
void bn_bwd_sums(const BnBackward&, const MatrixPart&);
void bn_bwd_merge(const BnBackward&, std::int64_t col_begin, std::int64_t col_end);
void bn_bwd_input(const BnBackward&, const MatrixPart&);

void relu_fwd(std::int64_t n, const float* x, float* y);
void relu_bwd(std::int64_t n, const float* y, const float* dy, float* dx);
void add(std::int64_t n, const float* a, const float* b, float* y);
void add_relu(std::int64_t n, const float* a, const float* b, float* y);
void scale(std::int64_t n, const float* x, float factor, float* y);

void upsample2_bwd(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, const float* dy,
                   float* dx);

void chain(std::int64_t begin, std::int64_t end, const float* x, const ChainStage* stages,
           std::int64_t count, const DropoutKey& key, float* y);
void widen(std::int64_t n, const Bf16* x, float* y);
void narrow(std::int64_t n, const float* x, Bf16* y);
void uniform(std::int64_t begin, std::int64_t end, std::uint32_t op, const DropoutKey& key,
             float* y);

void program(const ElementCode& code, TileCode machine_code, const ElementSpace& space,
             const float* const* in, float* const* out, std::int64_t begin, std::int64_t end);

void sum_rows(std::int64_t rows, std::int64_t n, const float* x, float* y);
void fold_rows(Fold fold, std::int64_t rows, std::int64_t n, const float* x, float* y);
void fold_columns(Fold fold, std::int64_t rows, std::int64_t cols, std::int64_t col_begin,
                  std::int64_t col_end, const float* x, float* y);
void best_indices(Fold fold, std::int64_t rows, std::int64_t n, const float* x, std::int32_t* y);
void running_sums(std::int64_t count, std::int64_t n, std::int64_t inner, bool reverse,
                  const float* x, float* y);

void layer_norm_fwd(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                    const float* beta, float eps, float* y, float* mean, float* istd);
std::size_t layer_norm_bwd_workspace_floats(std::int64_t rows, std::int64_t c);
void layer_norm_bwd(std::int64_t rows, std::int64_t c, std::int64_t run_begin, std::int64_t run_end,
                    const float* x, const float* dy, const float* mean, const float* istd,
                    const float* gamma, float* dx, float* ws);

void recurrent_fwd(const RecurrentForward&);
void recurrent_bwd(const RecurrentBackward&);

void embedding_fwd(std::int64_t count, std::int64_t c, const float* table, const std::int32_t* ids,
                   float* y);
std::size_t embedding_bwd_workspace_floats(std::int64_t count, std::int64_t rows);
void embedding_sort(std::int64_t count, std::int64_t rows, const std::int32_t* ids, float* ws);
void embedding_bwd(std::int64_t c, std::int64_t rows, std::int64_t row_begin, std::int64_t row_end,
                   std::int64_t col_begin, std::int64_t col_end, const float* dy, const float* ws,
                   const float* before, float* dtable);

bool any_non_finite(std::int64_t n, const float* x);
float sum_of_squares(std::int64_t n, const float* x);
void adam(std::int64_t n, const float* grad_sum, float grad_scale, const AdamStep&, float* p,
          float* m, float* v);
void sgd(std::int64_t n, const float* grad_sum, float grad_scale, float lr, float momentum,
         float weight_decay, bool nesterov, float* p, float* v);

void max_pool_fwd(const PoolShape&, const float* x, float* y, std::uint8_t* argmax);
void max_pool_bwd(const PoolShape&, const float* dy, const std::uint8_t* argmax, float* dx);
void avg_pool_fwd(const PoolShape&, const float* x, float* y);
void avg_pool_bwd(const PoolShape&, const float* dy, float* dx);
std::size_t global_avg_pool_workspace_floats(std::int64_t hw, std::int64_t c);
void global_avg_pool_fwd(std::int64_t n, std::int64_t hw, std::int64_t c, const float* x, float* y,
                         float* ws);
void global_avg_pool_bwd(std::int64_t n, std::int64_t hw, std::int64_t c, const float* dy,
                         float* dx);
void adaptive_avg_pool_fwd(const AdaptivePoolShape&, const float* x, float* y);
void adaptive_avg_pool_bwd(const AdaptivePoolShape&, const float* dy, float* dx);

void softmax_xent_fwd(std::int64_t rows, std::int64_t classes, const float* logits,
                      const std::int32_t* labels, const LossTerms& terms, float* probs,
                      float* row_loss);
void softmax_xent_mean(std::int64_t rows, const std::int32_t* labels, const float* row_loss,
                       float* mean_loss);
void softmax_xent_bwd(std::int64_t rows, std::int64_t classes, const float* probs,
                      const std::int32_t* labels, const LabelledRows& counted,
                      const LossTerms& terms, float* dlogits);
void bce_fwd(std::int64_t n, const float* x, const float* target, float* element_loss,
             float* mean_loss);
void bce_bwd(std::int64_t n, const float* x, const float* target, float* dx);
void mse_fwd(std::int64_t n, const float* x, const float* target, float* element_loss,
             float* mean_loss);
void mse_bwd(std::int64_t n, const float* x, const float* target, float* dx);

std::size_t yolo_loss_workspace_floats(const YoloShape&);
void yolo_loss(const YoloShape&, const float* const outputs[3], const float* boxes,
               float* const gradients[3], float* image_loss, float* mean_loss, float* ws);

}  // namespace es::gpu::scalar
