#pragma once
// The work of operators, for profiles and for decisions that do not decide bits.
#include "gpu/graph/graph.h"

namespace es::gpu {

// The multiplications and additions of the dense products in an operator; 0 for other operators.
double op_flops(const Graph& graph, const Op& op);

// The bytes of the tensors and of the parameter that an operator reads or writes.
double op_bytes(const Graph& graph, const Op& op);

// The same for all operators of a graph.
double step_flops(const Graph& graph);

}  // namespace es::gpu
