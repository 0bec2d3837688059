#pragma once
// Two moves, one after the other, as one. Pure.
#include <cstdint>
#include <optional>
#include <span>

#include "gpu/graph/move.h"

namespace es::gpu {

// What composed() needs to know of the tensors. All sizes in words; each is a multiple of `images`.
struct ComposeSizes {
  std::int64_t images = 1;   // both moves may do the same in every image: then one is looked at
  std::int64_t between = 0;  // of the tensor between the moves
  // Of the tensors by index: the inputs of the first move, and inputs and outputs of the second.
  std::span<const std::int64_t> first_inputs, second_inputs, second_outputs;
};

// The copies of `second` with those from its input `between` replaced by copies from the first
// move's inputs; `first` has one output. Inputs are numbered: those of `first`, then those of
// `second` without `between`. Words of the tensor between that `first` does not write were +0:
// nothing writes them then. Nothing when the result would be too many small pieces.
std::optional<Move> composed(const Move& first, const Move& second, std::int32_t between,
                             const ComposeSizes& sizes);

}  // namespace es::gpu
