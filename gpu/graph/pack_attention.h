#pragma once
// Attention that reads queries, keys and values where one linear layer has written them.
#include "gpu/graph/graph.h"

namespace es::gpu {

// An attention whose q, k and v are the three thirds of the columns of one tensor, and that nothing
// else reads, reads this tensor in place. Then neither the thirds nor their gradients are copied.
// Pure function; no bit changes. REQUIRES: merge_slices() (merge_moves.h) was applied.
Graph pack_attention(Graph graph);

}  // namespace es::gpu
