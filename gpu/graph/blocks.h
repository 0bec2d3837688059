#pragma once
// Chooses the regions of recompute.h for a model that has none.
#include "gpu/graph/graph.h"

namespace es::gpu {

// Cuts the operators of a model into blocks, each of which becomes a region, such that the arena of
// a step is as short as it can find: it tries several numbers of blocks, and cuts where few floats
// are live. The last block has no region, because its gradients come first. Existing regions are
// replaced. A model for which no cut saves memory keeps no regions. Pure function; it compiles the
// model once for each number of blocks.
Graph cut_into_blocks(const Graph& graph);

}  // namespace es::gpu
