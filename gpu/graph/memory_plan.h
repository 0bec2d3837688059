#pragma once
// Memory plan: where every tensor of a program lies in one arena. Pure functions.
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/graph/differentiate.h"

namespace es::gpu {

// Memory that is live during operators [first, last], both inclusive.
struct LiveBlock {
  std::int64_t floats = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// Offsets (multiples of 16 floats) such that blocks that are live together do not overlap. Several
// orders of placing them, each block at the lowest free place, and the shortest result.
// Deterministic.
std::vector<std::int64_t> place_blocks(std::span<const LiveBlock> blocks);

// The most floats (each block rounded up to 16) that are live at one operator.
std::int64_t live_peak(std::span<const LiveBlock> blocks);

struct MemoryPlan {
  static constexpr std::int64_t kOutside = -1;  // an input or a constant, or a view of one
  std::vector<std::int64_t> offset;             // by tensor, floats, or kOutside
  // By tensor: another that has the same memory; one for all that share it. For tensors outside the
  // arena it is the input or the constant itself.
  std::vector<TensorId> owner;
  std::int64_t arena_floats = 0;
  std::int64_t live_peak_floats = 0;
};

// Tensors share memory when
//   - one is a view of the other,
//   - the operator that is the last to use its input may work in place (in_place_inputs): its
//     output takes the input's memory,
//   - they are never live together.
// A tensor is live from the operator that writes it to the last that reads it; what an evaluation
// or the caller of a step reads (outputs, row losses, mean loss) at least until the first backward
// operator is done.
MemoryPlan plan_memory(const Program& program);

}  // namespace es::gpu
