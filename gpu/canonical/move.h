#pragma once
// Move: an operator that copies blocks of data and computes nothing: concatenation, slices,
// permutations, rolls, windows. It is plain C++ for every kernel class, because a copy has the same
// bits everywhere.
//
// Values are 32-bit words (fp32 or int32). They are never interpreted as numbers, so a NaN passes
// without raising a flag.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace es::gpu {

constexpr std::size_t kMoveRank = 8;  // dimensions of a copy
// Largest number of inputs, and of outputs, of one move.
constexpr std::size_t kMoveTensorsMax = 64;

// target[target_offset + sum_d i_d * target_stride_d] =
//     source[source_offset + sum_d i_d * source_stride_d]   for all 0 <= i_d < size_d
//
// The last dimension is the innermost. Offsets and strides are in words. Every target word is
// written once. Every source word is also read once, except by repeating copies (stride 0), which
// only upsampling uses.
struct BlockCopy {
  std::int32_t source = 0;  // index into the operator's inputs
  std::int32_t target = 0;  // index into its outputs
  std::int64_t source_offset = 0, target_offset = 0;
  std::array<std::int64_t, kMoveRank> size = {1, 1, 1, 1, 1, 1, 1, 1};
  std::array<std::int64_t, kMoveRank> source_stride = {};
  std::array<std::int64_t, kMoveRank> target_stride = {};

  std::int64_t count() const;
};

// All copies of one operator. Their targets do not overlap.
using Move = std::vector<BlockCopy>;

// Returns the opposite move: it writes what was read and reads what was written. REQUIRES: no
// source word is read twice.
Move transposed(const Move& move);

// Returns the same copy with the fewest dimensions: dimensions that together form one run in both
// arrays are merged, and dimensions of size 1 are dropped. The remaining dimensions are the last
// ones of the array.
BlockCopy simplified(const BlockCopy& copy);

// Returns the number of words of a target that the copies write.
std::int64_t written_words(const Move& move, std::int32_t target);

// Executes part `part` of `parts`. All parts together execute the whole move and copy each word
// once. Words that no copy writes do not change. Sources and targets do not overlap. REQUIRES: the
// copies are simplified.
void run_move(const Move& move, std::span<float* const> sources, std::span<float* const> targets,
              std::int64_t part, std::int64_t parts);

}  // namespace es::gpu
