#pragma once
// Cross entropy over many classes without the logits of all rows. A pure function.
#include "gpu/graph/differentiate.h"

namespace es::gpu {

// Rows that are computed at a time.
constexpr std::int64_t kLossRows = 512;
// Logits of fewer floats are computed as a whole.
constexpr std::int64_t kChunkedLogits = 4 * 1024 * 1024;

// A linear layer whose result goes into a cross entropy and nowhere else, possibly through views,
// becomes one operator with the loss and with the gradients of both, which processes kLossRows rows
// at a time. The bits are the same, because the sums over the rows are divided between chunks of
// DOT and runs of COLSUM. If the logits are outputs, an evaluation writes them. This happens if the
// layer and its input have gradients, and if the logits have more rows than kLossRows and at least
// `least_floats` floats. REQUIRES: nothing is fused or recomputed yet.
Program chunk_losses(Program program, std::int64_t least_floats);

}  // namespace es::gpu
