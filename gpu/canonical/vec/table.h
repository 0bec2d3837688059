#pragma once
// The kernel table of the class that this file is compiled for.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/vec/conv.h"
#include "gpu/canonical/vec/elementwise.h"
#include "gpu/canonical/vec/gemm.h"
#include "gpu/canonical/vec/loss.h"
#include "gpu/canonical/vec/norm.h"
#include "gpu/canonical/vec/pool.h"

namespace es::gpu {
namespace {

constexpr KernelTable vector_kernels(CpuClass cpu_class) {
  return {
      .cpu_class = cpu_class,
      .gemm_workspace_floats = gemm_workspace_floats,
      .gemm = gemm,
      .conv_fwd_packed_floats = conv_fwd_packed_floats,
      .conv_fwd_pack = conv_fwd_pack,
      .conv_fwd_workspace_floats = conv_fwd_workspace_floats,
      .conv_fwd = conv_fwd,
      .conv_dgrad_packed_floats = conv_dgrad_packed_floats,
      .conv_dgrad_pack = conv_dgrad_pack,
      .conv_dgrad_workspace_floats = conv_dgrad_workspace_floats,
      .conv_dgrad = conv_dgrad,
      .conv_wgrad_workspace_floats = conv_wgrad_workspace_floats,
      .conv_wgrad = conv_wgrad,
      .colsum_workspace_floats = colsum_workspace_floats,
      .colsum = colsum,
      .bn_workspace_floats = bn_workspace_floats,
      .bn_train_fwd = bn_train_fwd,
      .bn_bwd = bn_bwd,
      .bn_eval = bn_eval,
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
      .softmax_xent_fwd = softmax_xent_fwd,
      .softmax_xent_bwd = softmax_xent_bwd,
      .sgd = sgd,
  };
}

}  // namespace
}  // namespace es::gpu
