#pragma once
// Reverse-mode differentiation: from a model's graph to the operators of one whole local step.
#include <cstddef>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::gpu {

// The operators of a local step: graph.ops[0, first_backward) are the model's, the rest compute
// the gradient of the mean loss by every parameter, last parameters first.
struct Program {
  Graph graph;
  std::size_t first_backward = 0;
};

// Pure. Operators are differentiated in reverse order; each emits parameter gradients (bias, then
// weight), then the gradients of its inputs, the first input first. A tensor with several readers
// gets its gradient as the sum of what its readers emit, added in the order of emission (the last
// reader first): ((g_last + g_next) + ...). An add passes its gradient to both sides without a
// copy. Operators that the loss does not depend on have no gradient. REQUIRES: chains have one
// stage (fuse.h comes later).
Program differentiate(Graph graph);

}  // namespace es::gpu
