#pragma once
// The kernel table of the class for which this file is compiled.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/vec/attention.h"
#include "gpu/canonical/vec/chain.h"
#include "gpu/canonical/vec/conv_wgrad.h"
#include "gpu/canonical/vec/dropout.h"
#include "gpu/canonical/vec/elementwise.h"
#include "gpu/canonical/vec/embedding.h"
#include "gpu/canonical/vec/fold.h"
#include "gpu/canonical/vec/gemm.h"
#include "gpu/canonical/vec/layer_norm.h"
#include "gpu/canonical/vec/loss.h"
#include "gpu/canonical/vec/norm.h"
#include "gpu/canonical/vec/optimizer.h"
#include "gpu/canonical/vec/pool.h"
#include "gpu/canonical/vec/program.h"
#include "gpu/canonical/vec/recurrent.h"
#include "gpu/canonical/vec/resample.h"
#include "gpu/canonical/vec/softmax.h"
#include "gpu/canonical/vec/yolo.h"

namespace es::gpu {
namespace {

constexpr KernelTable vector_kernels(CpuClass cpu_class) {
  return {
      .cpu_class = cpu_class,
      .gemm_workspace_floats = gemm_workspace_floats,
      .gemm = gemm,
      .gemm_batched = gemm_batched,
      .conv_fwd_workspace_floats = conv_fwd_workspace_floats,
      .conv_fwd = conv_fwd,
      .conv_dgrad_workspace_floats = conv_dgrad_workspace_floats,
      .conv_dgrad = conv_dgrad,
      .conv_wgrad_workspace_floats = conv_wgrad_workspace_floats,
      .conv_wgrad = conv_wgrad,
      .colsum_workspace_floats = colsum_workspace_floats,
      .colsum_runs = colsum_runs,
      .colsum_finish = colsum_finish,
      .bn_workspace_floats = bn_workspace_floats,
      .bn_statistics = bn_statistics,
      .bn_merge = bn_merge,
      .bn_apply = bn_apply,
      .bn_eval_scale = bn_eval_scale,
      .bn_bwd_sums = bn_bwd_sums,
      .bn_bwd_merge = bn_bwd_merge,
      .bn_bwd_input = bn_bwd_input,
      .relu_fwd = relu_fwd,
      .relu_bwd = relu_bwd,
      .add = add_floats,
      .add_relu = add_relu,
      .scale = scale,
      .max_pool_fwd = max_pool_fwd,
      .max_pool_bwd = max_pool_bwd,
      .avg_pool_fwd = avg_pool_fwd,
      .avg_pool_bwd = avg_pool_bwd,
      .global_avg_pool_workspace_floats = global_avg_pool_workspace_floats,
      .global_avg_pool_fwd = global_avg_pool_fwd,
      .global_avg_pool_bwd = global_avg_pool_bwd,
      .adaptive_avg_pool_fwd = adaptive_avg_pool_fwd,
      .adaptive_avg_pool_bwd = adaptive_avg_pool_bwd,
      .upsample2_bwd = upsample2_bwd,
      .chain = chain,
      .widen = widen,
      .narrow = narrow,
      .uniform = uniform,
      .program = program,
      .sum_rows = sum_rows_64,
      .fold_rows = fold_rows,
      .fold_columns = fold_columns,
      .best_indices = best_indices,
      .running_sums = running_sums,
      .layer_norm_fwd = layer_norm_fwd,
      .layer_norm_bwd_workspace_floats = layer_norm_bwd_workspace_floats,
      .layer_norm_bwd = layer_norm_bwd,
      .softmax_fwd = softmax_fwd,
      .softmax_bwd = softmax_bwd,
      .recurrent_fwd = recurrent_fwd,
      .recurrent_bwd = recurrent_bwd,
      .attention_workspace_floats = attention_workspace_floats,
      .attention_fwd = attention_fwd,
      .attention_bwd = attention_bwd,
      .embedding_fwd = embedding_fwd,
      .embedding_bwd_workspace_floats = embedding_bwd_workspace_floats,
      .embedding_sort = embedding_sort,
      .embedding_bwd = embedding_bwd,
      .softmax_xent_fwd = softmax_xent_fwd,
      .softmax_xent_mean = softmax_xent_mean,
      .softmax_xent_bwd = softmax_xent_bwd,
      .bce_fwd = bce_fwd,
      .bce_bwd = bce_bwd,
      .mse_fwd = mse_fwd,
      .mse_bwd = mse_bwd,
      .yolo_loss_workspace_floats = yolo_loss_workspace_floats,
      .yolo_loss = yolo_loss,
      .any_non_finite = any_non_finite,
      .sum_of_squares = sum_of_squares,
      .adam = adam,
      .sgd = sgd,
  };
}

}  // namespace
}  // namespace es::gpu
