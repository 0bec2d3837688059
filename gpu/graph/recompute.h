#pragma once
// Recomputation: less memory for more arithmetic, with the same bits.
#include "gpu/graph/differentiate.h"

namespace es::gpu {

// Inserts, before the first gradient of a region that reads a result of the region, copies of the
// operators that compute this result. Gradients of the region read the copies. The results
// themselves are then live only as long as other operators read them, in the forward pass for the
// most part; what comes into a region and what leaves it stays live. A copy computes the same bits:
// it has the same inputs, and the same random numbers.
//
// Losses are not copied, and neither are operators that write a state, nor batch norms whose
// running statistics another batch norm of the step updates too. Pure function. REQUIRES: no
// operators are fused but activations.
Program recompute(Program program);

}  // namespace es::gpu
