#pragma once
// Move: an operator that copies blocks of data and computes nothing: concat, slice, permute, roll,
// windows. Plain C++ for every kernel class, since there are no bits to disagree about.
//
// Values are 32-bit words (fp32 or int32), never read as numbers: a NaN passes without a flag.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace es::gpu {

constexpr std::size_t kMoveRank = 6;
// Inputs, and outputs, of one move.
constexpr std::size_t kMoveTensorsMax = 64;

// target[target_offset + sum i_d * target_stride_d] = source[source_offset + sum i_d *
// source_stride_d] for all 0 <= i_d < size_d; the last dimension is the innermost. Offsets and
// strides in words. A target word is written once. A source word is read once too, except by
// repeating copies (stride 0), which only upsampling has.
struct BlockCopy {
  std::int32_t source = 0;  // index into the operator's inputs
  std::int32_t target = 0;  // index into its outputs
  std::int64_t source_offset = 0, target_offset = 0;
  std::array<std::int64_t, kMoveRank> size = {1, 1, 1, 1, 1, 1};
  std::array<std::int64_t, kMoveRank> source_stride = {};
  std::array<std::int64_t, kMoveRank> target_stride = {};

  std::int64_t count() const;
};

// All copies of one operator. Their targets do not overlap.
using Move = std::vector<BlockCopy>;

// The copies backwards: what was read is written. REQUIRES: no source word is read twice.
Move transposed(const Move& move);

// The same copy with the fewest dimensions: neighbours that are one run in both arrays are merged
// and dimensions of size 1 dropped. The remaining ones are the last ones.
BlockCopy simplified(const BlockCopy& copy);

// Words of a target that the copies write.
std::int64_t written_words(const Move& move, std::int32_t target);

// Parts `part` of `parts` of the whole move; together the parts do all of it, each word once.
// Words that no copy writes stay as they are. No alias between sources and targets.
// REQUIRES: the copies are simplified.
void run_move(const Move& move, std::span<float* const> sources, std::span<float* const> targets,
              std::int64_t part, std::int64_t parts);

}  // namespace es::gpu
