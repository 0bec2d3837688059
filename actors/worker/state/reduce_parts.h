#pragma once
// Sums the contributions to one bucket in the order of the job's determinism level.
#include <cstdint>
#include <span>

#include "gpu/est/reduce_tree.h"

namespace es::actors::worker {

// Sets out[0..floats) to the sum over all ranks. The parts have `floats` elements in memory that
// the adder reads, and may be put in another order. `workspace` has gpu::reduce_blocks(max_p)
// blocks and is in the same memory as `out`, that of the adder. REQUIRES: the parts cover
// [0, max_p) exactly once, and each is what protocol::Contrib allows.
void reduce_parts(gpu::GradientOrder order, std::uint32_t max_p, std::span<gpu::WorkerPart> parts,
                  std::int64_t floats, float* workspace, float* out, gpu::Adder& adder);

}  // namespace es::actors::worker
