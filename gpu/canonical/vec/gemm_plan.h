#pragma once
// Plans a product: which operand stays in the second-level cache, what is copied, and where the
// parts of the workspace are. No choice in this file changes a bit of the result.
#include "gpu/canonical/shapes.h"
#include "gpu/canonical/vec/gemm_tile.h"

namespace es::gpu {
namespace {

// Floats of the operand that stays in the second-level cache.
constexpr std::int64_t kResidentFloats = kSecondLevelFloats / 2;
// Floats of an operand that is certainly still in the first-level cache at its next use.
constexpr std::int64_t kSmallFloats = 6 * 1024;
// Rows at multiples of this distance in floats share their first-level cache sets.
constexpr std::int64_t kAliasFloats = 1024;
// With fewer k, the order in which C is written when A stays costs more than it gains.
constexpr std::int64_t kStripDepth = 64;

// A C of this size that is computed from so few k is written past the caches, because it does not
// fit them.
constexpr std::int64_t kStreamedFloats = 4 * 1024 * 1024;
constexpr std::int64_t kStreamedDepth = 64;

// C is computed with contiguous rows. So a C with contiguous columns is computed as its transpose.
inline bool computes_transpose(const GemmShape& s) {
  return s.c_col != 1 && s.c_row == 1;
}
inline GemmShape transposed(const GemmShape& s) {
  return {.m = s.n,
          .n = s.m,
          .k = s.k,
          .a_row = s.b_col,
          .a_col = s.b_row,
          .b_row = s.a_col,
          .b_col = s.a_row,
          .c_row = s.c_col,
          .c_col = s.c_row,
          .add = s.add,
          .a_stored = s.b_stored,
          .b_stored = s.a_stored};
}

constexpr std::int64_t kStageFloats = kTileRows * kPanelWidth;

struct GemmPlan {
  ASide side;               // how tiles read A
  bool copy_a, copy_b;      // to the workspace; otherwise the operand is read in place
  bool b_stays;             // otherwise A stays
  bool stream;              // C is written past the caches: it is large and made of few products
  bool staged;              // C is written from a tile in the workspace: no stride of C is 1
  std::int64_t depth_step;  // k of the operand that stays: whole chunks, or K
  std::int64_t rows_step;   // rows of A that are processed at a time
  std::int64_t columns_step;
  // Floats in the workspace.
  std::int64_t a_floats, b_floats, stage_floats;
  std::int64_t floats() const { return a_floats + b_floats + stage_floats; }
};

// Distance between the rows of a copied tile of A by rows. It is one cache line more than needed,
// so that rows use different cache sets.
inline std::int64_t copied_row_stride(std::int64_t depth) {
  return round_up(smaller(depth, kDotChunk), kLineFloats) + kLineFloats;
}
// Floats of one copied tile of A for one chunk of K.
inline std::int64_t a_slice_floats(ASide side, std::int64_t depth) {
  return kTileRows * (side == ASide::kRows ? copied_row_stride(depth) : smaller(depth, kDotChunk));
}
// Distance between the k of a copied panel of B.
inline std::int64_t copied_panel_stride(std::int64_t width) {
  return width > kWidth ? kPanelWidth : kWidth;
}
// Floats of one chunk of the copied panels of `columns` columns.
inline std::int64_t b_slice_floats(std::int64_t columns, std::int64_t depth) {
  return round_up(columns, kWidth) * smaller(depth, kDotChunk);
}

inline bool wants_b_to_stay(const GemmShape& s, ASide side) {
  // Tiles of an A by columns are narrow strips of memory. It is better to copy all of them at once
  // and let A stay.
  if (side == ASide::kColumns && s.k >= kStripDepth && s.n > kPanelWidth) return false;
  return s.n * s.k <= kResidentFloats || (s.m * s.k > kResidentFloats && s.n < s.m);
}

// Returns whether A is copied if it is read `times` times.
inline bool wants_copied_a(const GemmShape& s, bool b_stays, std::int64_t times) {
  if (s.a_stored != Factor::kF32) return true;  // tiles read fp32
  if (s.a_col != 1 && s.a_row != 1) return true;
  if (times <= 1) return false;
  if (s.a_col == 1) {
    const bool in_pieces = !b_stays && s.m * s.k > kResidentFloats;
    return in_pieces || (s.k > kLineFloats && s.a_row % kAliasFloats == 0);
  }
  return s.k * s.a_col > kSmallFloats;
}

inline bool wants_copied_b(const GemmShape& s, std::int64_t times) {
  if (s.b_stored != Factor::kF32) return true;
  if (s.b_col != 1 || s.n < kWidth) return true;
  return times > 2 && s.k * s.b_row > kSmallFloats;
}

inline void choose_steps(const GemmShape& s, GemmPlan& p) {
  const std::int64_t stays = p.b_stays ? round_up(s.n, kWidth) : s.m;
  const std::int64_t chunks = larger(1, kResidentFloats / (stays * kDotChunk));
  p.depth_step = stays * s.k <= kResidentFloats ? s.k : smaller(s.k, chunks * kDotChunk);
  const std::int64_t parts = ceil_div(stays * p.depth_step, kResidentFloats + kResidentFloats / 8);
  p.rows_step = p.b_stays ? s.m : smaller(s.m, round_up(ceil_div(s.m, parts), kTileRows));
  p.columns_step = p.b_stays ? smaller(s.n, round_up(ceil_div(s.n, parts), kPanelWidth)) : s.n;
}

// REQUIRES: !computes_transpose(s).
inline GemmPlan plan_gemm(const GemmShape& s) {
  GemmPlan p{};
  p.side = s.a_col == 1 ? ASide::kRows : ASide::kColumns;
  p.b_stays = wants_b_to_stay(s, p.side);
  p.staged = s.c_col != 1;
  p.stream = !p.staged && !s.add && s.k <= kStreamedDepth && s.m * s.n >= kStreamedFloats &&
             s.c_row % kWidth == 0;
  p.copy_a = wants_copied_a(s, p.b_stays, ceil_div(s.n, kPanelWidth));
  p.copy_b = wants_copied_b(s, ceil_div(s.m, kTileRows));
  choose_steps(s, p);
  const std::int64_t chunks = ceil_div(p.depth_step, kDotChunk);
  const std::int64_t tiles = ceil_div(p.rows_step, kTileRows);
  if (p.copy_a) {
    p.a_floats = round_up(a_slice_floats(p.side, p.depth_step) * (p.b_stays ? 2 : tiles * chunks),
                          kLineFloats);
  }
  if (p.copy_b) {
    p.b_floats = p.b_stays ? b_slice_floats(p.columns_step, p.depth_step) * chunks
                           : 2 * b_slice_floats(kPanelWidth, p.depth_step);
  }
  if (p.staged) p.stage_floats = kStageFloats;
  return p;
}

}  // namespace
}  // namespace es::gpu
