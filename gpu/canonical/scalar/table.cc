#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/tables.h"

namespace es::gpu {

const KernelTable kScalarKernels = {
    .cpu_class = CpuClass::kScalar,
    .gemm_workspace_floats = scalar::gemm_workspace_floats,
    .gemm = scalar::gemm,
    .conv_fwd_packed_floats = scalar::conv_fwd_packed_floats,
    .conv_fwd_pack = scalar::conv_fwd_pack,
    .conv_fwd_workspace_floats = scalar::conv_fwd_workspace_floats,
    .conv_fwd = scalar::conv_fwd,
    .conv_dgrad_packed_floats = scalar::conv_dgrad_packed_floats,
    .conv_dgrad_pack = scalar::conv_dgrad_pack,
    .conv_dgrad_workspace_floats = scalar::conv_dgrad_workspace_floats,
    .conv_dgrad = scalar::conv_dgrad,
    .conv_wgrad_workspace_floats = scalar::conv_wgrad_workspace_floats,
    .conv_wgrad = scalar::conv_wgrad,
    .colsum_workspace_floats = scalar::colsum_workspace_floats,
    .colsum = scalar::colsum,
    .bn_workspace_floats = scalar::bn_workspace_floats,
    .bn_train_fwd = scalar::bn_train_fwd,
    .bn_bwd = scalar::bn_bwd,
    .bn_eval = scalar::bn_eval,
    .relu_fwd = scalar::relu_fwd,
    .relu_bwd = scalar::relu_bwd,
    .add = scalar::add,
    .add_relu = scalar::add_relu,
    .scale = scalar::scale,
    .max_pool_fwd = scalar::max_pool_fwd,
    .max_pool_bwd = scalar::max_pool_bwd,
    .avg_pool_fwd = scalar::avg_pool_fwd,
    .avg_pool_bwd = scalar::avg_pool_bwd,
    .global_avg_pool_workspace_floats = scalar::global_avg_pool_workspace_floats,
    .global_avg_pool_fwd = scalar::global_avg_pool_fwd,
    .global_avg_pool_bwd = scalar::global_avg_pool_bwd,
    .softmax_xent_fwd = scalar::softmax_xent_fwd,
    .softmax_xent_bwd = scalar::softmax_xent_bwd,
    .sgd = scalar::sgd,
};

}  // namespace es::gpu
