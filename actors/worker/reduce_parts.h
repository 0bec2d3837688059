#pragma once
// Adds up the contributions to one bucket in the order that the job's level asks for.
#include <cstdint>
#include <span>

#include "gpu/est/rank_tree.h"
#include "gpu/est/reduce_tree.h"
#include "proto/base/ids.h"

namespace es::actors::worker {

// One contribution: `floats` floats, the sum over these ranks.
struct PartData {
  RankRange ranks;
  const float* data = nullptr;  // where the adder reads them
};

// out[0..floats) = the sum over all ranks. `workspace`: gpu::reduce_blocks(max_p) blocks, in the
// adder's memory as `out` is.
// REQUIRES: the parts cover [0, max_p) once; each is what protocol::Contrib allows.
void reduce_parts(gpu::GradientOrder order, std::uint32_t max_p, std::span<const PartData> parts,
                  std::int64_t floats, float* workspace, float* out, gpu::Adder& adder);

}  // namespace es::actors::worker
