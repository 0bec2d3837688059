#pragma once
// Reverse-mode differentiation: turns a model's graph into the operators of one whole local step.
#include <cstddef>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::gpu {

// The operators of a local step. graph.ops[0, first_backward) are the model's operators. The others
// compute the gradient of the mean loss with respect to every parameter, the last parameters first.
struct Program {
  Graph graph;
  std::size_t first_backward = 0;
};

// Pure function. Operators are differentiated in reverse order. Each emits the gradients of its
// parameters (bias, then weight) and then the gradients of its inputs, the first input first. A
// tensor with several readers gets the sum of the gradients that its readers emit. They are added
// in the order of emission, the last reader first: ((g_last + g_next) + ...). An addition passes
// its gradient to both operands without a copy. Operators that do not influence the loss have no
// gradient. REQUIRES: every chain has one stage (the fusion in fuse.h comes later).
Program differentiate(Graph graph);

}  // namespace es::gpu
