#pragma once
// Which kernels of the table execute an operator: the only place where the two meet.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/graph/graph.h"
#include "gpu/parallel.h"

namespace es::gpu {

// Evaluation: batch norm with running statistics, no dropout.
enum class RunMode { kTrain, kEvaluate };

// Addresses for one run of a program. All memory belongs to the caller.
struct RunBuffers {
  float* const* tensors = nullptr;  // by tensor, inputs and constants too
  const float* params = nullptr;    // flat layout
  float* grads = nullptr;           // flat layout; backward operators only
  const float* stats = nullptr;     // running statistics that are read
  float* next_stats = nullptr;      // and, in training, written; never the same memory
  DropoutKey key;                   // of this step's random numbers
  float* workspace = nullptr;       // op_workspace_floats() of the same number of threads
  bool clear_padding = true;        // of gradients; false: it is +0 already
  Parallel* parallel = nullptr;     // nullptr: only the calling thread
};

// Scratch that the operator needs with that many threads, whichever the mode.
std::size_t op_workspace_floats(const KernelTable& kernels, const Graph& graph, const Op& op,
                                int threads);

// Executes the operator. A gradient of a parameter is written with its padding (+0). The bits do
// not depend on the number of threads: work is cut only where no sum is cut.
void run_op(const KernelTable& kernels, const Graph& graph, const Op& op, RunMode mode,
            const RunBuffers& buffers);

// Inputs whose memory the operator's first output may take over, best first: the kernel reads and
// writes these element for element. The memory plan checks that nothing else reads them later.
std::vector<TensorId> in_place_inputs(const Op& op);

// Names of the kernels, of the table or put together in phases.h, that run an operator and its
// gradients: "conv_fwd, conv_wgrad"; "none" for operators without arithmetic.
std::string kernel_names(const Op& forward_op);

// What the operator does, beyond its kind: "add, relu" for a chain, "relu" for a fused batch norm;
// often empty.
std::string op_detail(const Op& op);

}  // namespace es::gpu
