#pragma once
// The register tile: up to kTileRows x 2 vectors of results of G1 that advance one chunk of K
// together. All dense products end here; what surrounds it only arranges operands.
//
// A is a block in one of two layouts with strides known at compile time, so that every element of a
// row needs one address register:
//   by rows     element (i, k) at a[i * kRowBlockStride + k]: rows copied from memory
//   by columns  element (i, k) at a[k * kTileRows + i]: for operands whose rows are not contiguous
// B is a panel of kPanelWidth columns: b[k * b_stride + j].
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

// One chunk, and a cache line more so that the rows of a tile do not share cache sets.
constexpr std::int64_t kRowBlockStride = kDotChunk + 16;

// Rows of A that are arranged at a time: the block stays in the second-level cache.
constexpr std::int64_t kBlockRows = 112 / kTileRows * kTileRows;
// Floats of a block in either layout.
constexpr std::int64_t kBlockFloats = kBlockRows * kRowBlockStride;

// A panel of B does not fit beside the tile of A in the first-level cache: it is fetched from the
// second level this many k ahead.
constexpr std::int64_t kPrefetchDepth = 16;
constexpr int kLineFloats = 16;

enum class ALayout { kRows, kColumns };

struct TileArgs {
  const float* a;
  const float* b;
  std::int64_t b_stride;
  std::int64_t depth;   // k in this chunk
  float* const* rows;   // where row i of the result begins
  std::int64_t column;  // first column of the panel
  std::int64_t width;   // columns of the panel, <= kVecs * kWidth
  bool first;           // the first chunk is stored, later ones are added
};

// Calls body(row, vector, where it goes, access) for each vector of a tile; the last vector of a
// row may be a part.
template <int kRows, int kVecs, class Body>
inline __attribute__((always_inline)) void for_tile(const TileArgs& t, Body body) {
  const Part last(t.width - (kVecs - 1) * kWidth);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    float* row = t.rows[i] + t.column;
    if constexpr (kVecs == 2) body(i, 0, row, Whole());
    body(i, kVecs - 1, row + (kVecs - 1) * kWidth, last);
  }
}

template <ALayout kLayout, int kRows, int kVecs>
void tile(const TileArgs& t) {
  constexpr std::int64_t kRowStride = kLayout == ALayout::kRows ? kRowBlockStride : 1;
  constexpr std::int64_t kDepthStride = kLayout == ALayout::kRows ? 1 : kTileRows;
  Vec sum[kRows][kVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) sum[i][j] = zero();
  }
  const float* a = t.a;
  const float* b = t.b;
  const std::int64_t b_stride = t.b_stride;
  for (std::int64_t k = 0; k < t.depth; ++k, a += kDepthStride, b += b_stride) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs * kWidth; j += kLineFloats) {
      __builtin_prefetch(b + kPrefetchDepth * b_stride + j);
    }
    Vec right[kVecs];
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) right[j] = load(b + j * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vec left = set(a[i * kRowStride]);
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) sum[i][j] = fused(left, right[j], sum[i][j]);
    }
  }
  if (t.first) {
    for_tile<kRows, kVecs>(t, [&](int i, int j, float* p, auto at) { at.store(p, sum[i][j]); });
  } else {
    for_tile<kRows, kVecs>(
        t, [&](int i, int j, float* p, auto at) { at.store(p, add(at.load(p), sum[i][j])); });
  }
}

using TileFunction = void (*)(const TileArgs&);

// tile<kLayout, rows, vecs> for every number of rows up to kTileRows.
template <ALayout kLayout, int kVecs, int kRows = kTileRows>
TileFunction tile_function(std::int64_t rows) {
  if (rows == kRows) return tile<kLayout, kRows, kVecs>;
  if constexpr (kRows > 1) return tile_function<kLayout, kVecs, kRows - 1>(rows);
  return nullptr;
}

// --- Panels of B.

// Columns that B occupies in memory: full panels, then one of one or two vectors.
inline std::int64_t padded_columns(std::int64_t columns) {
  return round_up(columns, kWidth);
}
// Distance between the k of a panel that holds `width` columns.
inline std::int64_t panel_stride(std::int64_t width) {
  return padded_columns(width);
}

// Rows [begin, end) of part `index`, when `count` rows are cut into equal parts of at most `most`.
struct Part1D {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};
inline std::int64_t part_count(std::int64_t count, std::int64_t most) {
  return ceil_div(count, most);
}
inline Part1D part(std::int64_t count, std::int64_t most, std::int64_t index) {
  const std::int64_t parts = part_count(count, most);
  return {index * count / parts, (index + 1) * count / parts};
}

struct BlockArgs {
  const float* a;          // block of `row_count` rows in layout kLayout; tile i begins at part(i)
  std::int64_t row_count;  // <= kBlockRows
  const float* b;          // panel p begins at b + p * panel_step
  std::int64_t panel_step;
  std::int64_t b_stride;  // 0: panels are packed, each with its panel_stride()
  std::int64_t columns;
  std::int64_t depth;  // k in this chunk
  float* const* rows;  // where the row_count rows of the result begin
  bool first;          // the first chunk is stored, later ones are added
};

// One tile of rows times all columns: the tile of A stays in the first-level cache.
template <ALayout kLayout>
void multiply_tile(const BlockArgs& block, const Part1D& rows, const float* a) {
  for (std::int64_t column = 0; column < block.columns; column += kPanelWidth) {
    const std::int64_t width = smaller(kPanelWidth, block.columns - column);
    const TileFunction function = width > kWidth ? tile_function<kLayout, 2>(rows.size())
                                                 : tile_function<kLayout, 1>(rows.size());
    function({.a = a,
              .b = block.b + column / kPanelWidth * block.panel_step,
              .b_stride = block.b_stride != 0 ? block.b_stride : panel_stride(width),
              .depth = block.depth,
              .rows = block.rows + rows.begin,
              .column = column,
              .width = width,
              .first = block.first});
  }
}

// One chunk of K of a block of rows times all columns.
template <ALayout kLayout>
void multiply_block(const BlockArgs& block) {
  for (std::int64_t i = 0; i < part_count(block.row_count, kTileRows); ++i) {
    const Part1D rows = part(block.row_count, kTileRows, i);
    multiply_tile<kLayout>(block, rows,
                           kLayout == ALayout::kRows ? block.a + rows.begin * kRowBlockStride
                                                     : block.a + i * kTileRows * kDotChunk);
  }
}

}  // namespace
}  // namespace es::gpu
