#pragma once
// Composes two moves into one. Pure function.
#include <cstdint>
#include <optional>
#include <span>

#include "gpu/canonical/move.h"

namespace es::gpu {

// The sizes of the tensors that composed() needs. All sizes are in words, and each is a multiple of
// `images`.
struct ComposeSizes {
  // If above 1, both moves may do the same in every image, and only one image is examined.
  std::int64_t images = 1;
  std::int64_t between = 0;  // size of the tensor between the moves
  // Sizes by index of the tensor: the inputs of the first move, and the inputs and outputs of the
  // second one.
  std::span<const std::int64_t> first_inputs, second_inputs, second_outputs;
};

// Returns the copies of `second`, with those that read its input `between` replaced by copies from
// the inputs of `first`, which has one output. The inputs of the result are those of `first`, then
// those of `second` without `between`. Words of the tensor between the moves that `first` does not
// write were +0; the result writes nothing there, which also leaves +0. Returns nothing if the
// result would consist of too many small pieces.
std::optional<Move> composed(const Move& first, const Move& second, std::int32_t between,
                             const ComposeSizes& sizes);

}  // namespace es::gpu
