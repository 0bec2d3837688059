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

// A chunk is computed in slices: a panel of B of this depth stays in the first-level cache while
// all tiles of a block use it. The sums of a slice are stored and loaded again by the next one,
// which does not change the chain.
constexpr std::int64_t kSlice = 256;
// How many k ahead the panel of B is fetched from the second-level cache.
constexpr std::int64_t kPrefetchDepth = 8;
constexpr int kLineFloats = 16;

enum class ALayout { kRows, kColumns };

struct TileArgs {
  const float* a;
  const float* b;
  std::int64_t b_stride;
  std::int64_t depth;   // k in this slice
  float* const* start;  // rows of the sums of the slices before it, or nullptr: from +0
  float* const* rows;   // where row i of the result begins
  std::int64_t column;  // first column of the panel, in `start` and in `rows`
  std::int64_t width;   // columns of the panel, <= kVecs * kWidth
  bool add;             // to what is in `rows`, instead of storing
};

// Calls body(row, vector, position in the row, access) for each vector of a tile; the last vector
// of a row may be a part.
template <int kRows, int kVecs, class Body>
inline __attribute__((always_inline)) void for_tile(const TileArgs& t, float* const* rows,
                                                    Body body) {
  const Part last(t.width - (kVecs - 1) * kWidth);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    float* row = rows[i] + t.column;
    if constexpr (kVecs == 2) body(i, 0, row, Whole());
    body(i, kVecs - 1, row + (kVecs - 1) * kWidth, last);
  }
}

template <int kRows, int kVecs>
inline __attribute__((always_inline)) void load_sums(const TileArgs& t, Vec (&sum)[kRows][kVecs]) {
  if (t.start == nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) sum[i][j] = zero();
    }
    return;
  }
  for_tile<kRows, kVecs>(t, t.start,
                         [&](int i, int j, float* p, auto at) { sum[i][j] = at.load(p); });
}

template <int kRows, int kVecs>
inline __attribute__((always_inline)) void store_sums(const TileArgs& t,
                                                      const Vec (&sum)[kRows][kVecs]) {
  if (t.add) {
    for_tile<kRows, kVecs>(t, t.rows, [&](int i, int j, float* p, auto at) {
      at.store(p, add(at.load(p), sum[i][j]));
    });
  } else {
    for_tile<kRows, kVecs>(t, t.rows,
                           [&](int i, int j, float* p, auto at) { at.store(p, sum[i][j]); });
  }
}

template <ALayout kLayout, int kRows, int kVecs>
void tile(const TileArgs& t) {
  constexpr std::int64_t kRowStride = kLayout == ALayout::kRows ? kRowBlockStride : 1;
  constexpr std::int64_t kDepthStride = kLayout == ALayout::kRows ? 1 : kTileRows;
  Vec sum[kRows][kVecs];
  load_sums<kRows, kVecs>(t, sum);
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
  store_sums<kRows, kVecs>(t, sum);
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
  float* partial;      // scratch of partial_floats(columns)
};

inline std::int64_t partial_floats(std::int64_t columns) {
  return kBlockRows * padded_columns(columns);
}

// One slice of one panel times all rows of the block.
template <ALayout kLayout>
void multiply_panel(const BlockArgs& block, std::int64_t k, std::int64_t column,
                    float* const* partial_rows) {
  const std::int64_t width = smaller(kPanelWidth, block.columns - column);
  const std::int64_t b_stride = block.b_stride != 0 ? block.b_stride : panel_stride(width);
  const bool last = k + kSlice >= block.depth;
  float* const* rows = last ? block.rows : partial_rows;
  for (std::int64_t i = 0; i < part_count(block.row_count, kTileRows); ++i) {
    const Part1D tile = part(block.row_count, kTileRows, i);
    const TileFunction function = width > kWidth ? tile_function<kLayout, 2>(tile.size())
                                                 : tile_function<kLayout, 1>(tile.size());
    function({.a = kLayout == ALayout::kRows ? block.a + tile.begin * kRowBlockStride + k
                                             : block.a + (i * kDotChunk + k) * kTileRows,
              .b = block.b + column / kPanelWidth * block.panel_step + k * b_stride,
              .b_stride = b_stride,
              .depth = smaller(kSlice, block.depth - k),
              .start = k == 0 ? nullptr : partial_rows + tile.begin,
              .rows = rows + tile.begin,
              .column = column,
              .width = width,
              .add = last && !block.first});
  }
}

// One chunk of K of a block of rows times all columns.
template <ALayout kLayout>
void multiply_block(const BlockArgs& block) {
  float* partial_rows[kBlockRows];
  for (std::int64_t i = 0; i < block.row_count; ++i) {
    partial_rows[i] = block.partial + i * padded_columns(block.columns);
  }
  for (std::int64_t k = 0; k < block.depth; k += kSlice) {
    for (std::int64_t column = 0; column < block.columns; column += kPanelWidth) {
      multiply_panel<kLayout>(block, k, column, partial_rows);
    }
  }
}

}  // namespace
}  // namespace es::gpu
