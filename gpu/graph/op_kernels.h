#pragma once
// Maps operators to the kernels of the table that execute them. It is the only place that does so
// for the CPU.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/base/parallel.h"
#include "gpu/graph/graph.h"

namespace es::gpu {

// In evaluation mode batch norm uses the running statistics, and there is no dropout.
enum class RunMode { kTrain, kEvaluate };

// The addresses for one run of a program. All memory belongs to the caller.
struct RunBuffers {
  float* const* tensors = nullptr;  // [tensor], with inputs and constants
  const float* params = nullptr;    // flat layout
  float* grads = nullptr;           // flat layout; backward operators only
  const float* stats = nullptr;     // the running statistics that are read
  float* next_stats = nullptr;      // those that training writes; never the same memory as `stats`
  DropoutKey key;                   // the key of this step's random numbers
  float* workspace = nullptr;       // op_workspace_floats() floats for the same number of threads
  bool clear_padding = true;        // write the padding of gradients; false: it is +0 already
  Parallel* parallel = nullptr;     // nullptr: only the calling thread
};

// Returns the floats of scratch memory that the operator needs with this number of threads, in
// every mode.
std::size_t op_workspace_floats(const KernelTable& kernels, const Graph& graph, const Op& op,
                                int threads);

// Executes the operator. The gradient of a parameter is written together with its padding (+0). The
// bits do not depend on the number of threads, because work is divided only where no sum is
// divided.
void run_op(const KernelTable& kernels, const Graph& graph, const Op& op, RunMode mode,
            const RunBuffers& buffers);

// Returns the inputs whose memory the first output of the operator may take over, the best one
// first. The kernel reads and writes these element for element. The memory plan checks that nothing
// reads them later.
std::vector<TensorId> in_place_inputs(const Op& op);

// Returns the names of the kernels, of the table or composed in phases.h, that run an operator and
// its gradients, for example "conv_fwd, conv_wgrad"; "none" for operators without arithmetic.
std::string kernel_names(const Op& forward_op);

// Returns what the operator does beyond its kind, for example "add, relu" for a chain or "relu" for
// a fused batch norm; often empty.
std::string op_detail(const Op& op);

}  // namespace es::gpu
