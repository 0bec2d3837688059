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

// Offsets (multiples of 16 floats) such that blocks that are live together do not overlap: largest
// first, each at the lowest free place. Deterministic.
std::vector<std::int64_t> place_blocks(std::span<const LiveBlock> blocks);

// The most floats (each block rounded up to 16) that are live at one operator.
std::int64_t live_peak(std::span<const LiveBlock> blocks);

struct MemoryPlan {
  static constexpr std::int64_t kInput = -1;  // the tensor is the input's memory, outside the arena
  std::vector<std::int64_t> offset;           // by tensor, floats, or kInput
  std::int64_t arena_floats = 0;
  std::int64_t live_peak_floats = 0;
};

// Tensors share memory when
//   - one is a view of the other,
//   - an element-wise operator is the last to use its input: its output takes the input's place,
//   - they are never live together.
// A tensor is live from the operator that writes it to the last that reads it; logits, row losses
// and the mean loss to the end.
MemoryPlan plan_memory(const Program& program);

}  // namespace es::gpu
