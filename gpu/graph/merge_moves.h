#pragma once
// Slices of one tensor as one operator.
#include "gpu/graph/graph.h"

namespace es::gpu {

// Moves that read nothing but one tensor, in places that do not overlap, become one operator with
// several outputs, where the first of them stood. Their gradient is then one move that writes
// disjoint parts, without sums of padded tensors. Pure; part of a model's definition, because a sum
// with +0 can differ from a copy in the sign of a zero.
Graph merge_slices(Graph graph);

}  // namespace es::gpu
