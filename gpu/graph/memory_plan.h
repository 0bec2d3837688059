#pragma once
// Memory plan: the place of every tensor of a program in one arena. Pure functions.
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/graph/differentiate.h"

namespace es::gpu {

// Memory that is live during the operators [first, last] of a local step, and [first,
// evaluation_last] of an evaluation, all inclusive. An end before `first`: it is not used there.
struct LiveBlock {
  std::int64_t floats = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t evaluation_last = -1;
};

// A block that has its place already.
struct PlacedBlock {
  LiveBlock block;
  std::int64_t offset = 0;  // a multiple of 16
};

// Returns offsets (multiples of 16 floats) at which blocks that are live at the same time do not
// overlap, neither with each other nor with the `placed` ones, which do not overlap. It tries
// several orders of blocks and returns the shortest result. Each block gets the lowest free offset,
// but first one at which a placed block is needed later, and among these the one where that is
// soonest, so that places that are free for long remain. Deterministic.
std::vector<std::int64_t> place_blocks(std::span<const LiveBlock> blocks,
                                       std::span<const PlacedBlock> placed = {});

// Returns the floats of memory that a tensor needs: bytes and bf16 numbers occupy whole floats,
// because memory is counted in floats.
std::int64_t tensor_floats(const Tensor& tensor);

// Returns the largest number of floats (each block rounded up to 16) that are live at one operator
// of a local step or of an evaluation.
std::int64_t live_peak(std::span<const LiveBlock> blocks);

// Where a local step, or an evaluation, has the tensors that need memory.
struct TensorPlaces {
  // In another memory of this run, not used in it, or an input, a constant, a parameter, a gradient
  // of a parameter, or a view of one.
  static constexpr std::int64_t kOutside = -1;
  std::vector<std::int64_t> in_arena;      // [tensor]: floats from the start of the arena
  std::vector<std::int64_t> in_gradients;  // [tensor]: floats from the start of the gradient array
};

struct MemoryPlan {
  TensorPlaces step, evaluation;
  // [tensor]: a tensor that represents all tensors with the same memory. For tensors outside the
  // arena it is the input, the constant or the parameter itself.
  std::vector<TensorId> owner;
  // [tensor]: the parameter whose gradient has the memory of this tensor, or kNoParam. Valid for
  // owners.
  std::vector<ParamId> gradient_of;
  std::int64_t arena_floats = 0;  // of a local step or of an evaluation, whichever needs more
  // Lower bound of arena_floats: the largest number of floats that are live at one operator without
  // those for which the gradient array has room then.
  std::int64_t live_peak_floats = 0;
};

// Tensors share memory if
//   - one is a view of the other, or
//   - an operator is the last reader of its input and may work in place (in_place_inputs): its
//     output takes the memory of the input, or
//   - they are never live at the same time.
//
// A tensor that becomes the gradient of a parameter (kParameterGrad), and is read by no later
// operator, is written into the gradient array, so it needs no memory of its own and no copy. Where
// the forward pass of a step writes such a tensor (kLinearCrossEntropy), this happens only if the
// executor can give the gradient array to a forward pass. Then the array is also memory for other
// tensors of the step: the gradient of a parameter is there from the operator that writes it, or
// its first part, to the end of the step, and before that any tensor may lie in its place. The
// backward pass writes these gradients while it needs less and less of what the forward pass has
// left. An evaluation, which has no gradients, may use all of the array.
//
// A tensor is live from the operator that writes it to the last one that reads it. The tensors that
// an evaluation or the caller of a step reads (outputs, row losses, their weights, mean loss) are
// live at least until the first backward operator is done. With GradientsInForward::kYes a local
// step and an evaluation have places of their own. Otherwise they have the same ones, and what only
// an evaluation writes may lie where a local step keeps something for its backward pass.
enum class GradientsInForward { kNo, kYes };
MemoryPlan plan_memory(const Program& program, GradientsInForward early = GradientsInForward::kNo);

}  // namespace es::gpu
