#pragma once
// Maps operators to the device kernels that execute them, as gpu/graph/op_kernels.h does for CPUs.
#include <cstddef>

#include "gpu/cuda/device.h"
#include "gpu/graph/op_kernels.h"

namespace es::gpu::cuda {

// Returns the floats of scratch memory that the operator needs in every mode.
std::size_t op_workspace_floats(const DeviceKernels& kernels, const Graph& graph, const Op& op);

// Queues the operator. All pointers of `buffers` are to device memory. The padding of gradients is
// not written (RunBuffers::clear_padding must be false). `key` is in device memory and replaces the
// key in `buffers`.
void run_op(Device& device, Stream stream, const Graph& graph, const Op& op, RunMode mode,
            const RunBuffers& buffers, const DropoutKey* key);

}  // namespace es::gpu::cuda
