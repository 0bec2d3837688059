#pragma once
// Which kernels of the table execute an operator: the only place where the two meet.
#include <cstdint>
#include <string>

#include "gpu/graph/graph.h"

namespace es::gpu {

enum class RunMode { kTrain, kEvaluate };

// Addresses for one run of a program. All memory belongs to the caller.
struct RunBuffers {
  float* const* tensors = nullptr;  // by tensor
  const float* params = nullptr;    // flat layout
  float* grads = nullptr;           // flat layout; backward operators only
  const float* stats = nullptr;     // running statistics that are read
  float* next_stats = nullptr;      // and, in training, written; never the same memory
  const std::int32_t* labels = nullptr;
  float* workspace = nullptr;  // at least op_workspace_floats()
};

// Scratch that the operator needs, whichever the mode.
std::size_t op_workspace_floats(const KernelTable& kernels, const Graph& graph, const Op& op);

// Size of the operator's packed weights; 0 for operators that read the weights as they are.
std::size_t op_packed_floats(const KernelTable& kernels, const Op& op);
void pack_op_weights(const KernelTable& kernels, const Op& op, const float* weight, float* packed);

// Executes the operator. `packed` belongs to this operator and to the weights in buffers.params.
// A gradient of a parameter is written with its padding (+0).
void run_op(const KernelTable& kernels, const Graph& graph, const Op& op, RunMode mode,
            const RunBuffers& buffers, const float* packed);

// Names of the table's entries that run an operator and its gradients: "conv_fwd, conv_wgrad".
std::string kernel_names(const Op& forward_op);

}  // namespace es::gpu
