#pragma once
// Merges several slices of one tensor into one operator.
#include "gpu/graph/graph.h"

namespace es::gpu {

// Moves that read only one tensor, at places that do not overlap, become one operator with several
// outputs at the place of the first move. Their gradient is then one move that writes disjoint
// parts, instead of a sum of padded tensors. Pure function. The merge belongs to the definition of
// a model, because a sum with +0 and a copy can differ in the sign of a zero.
Graph merge_slices(Graph graph);

}  // namespace es::gpu
