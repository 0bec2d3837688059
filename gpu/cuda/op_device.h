#pragma once
// Which device kernels execute an operator: what gpu/graph/op_kernels.h is for CPUs.
#include <cstddef>

#include "gpu/cuda/device.h"
#include "gpu/graph/op_kernels.h"

namespace es::gpu::cuda {

// Scratch that the operator needs, whichever the mode.
std::size_t op_workspace_floats(const DeviceKernels& kernels, const Graph& graph, const Op& op);

// Queues the operator. All pointers of `buffers` are to device memory; padding of gradients is not
// written (RunBuffers::clear_padding must be false). `key`: in device memory, in place of the
// buffers'.
void run_op(Device& device, Stream stream, const Graph& graph, const Op& op, RunMode mode,
            const RunBuffers& buffers, const DropoutKey* key);

}  // namespace es::gpu::cuda
