#pragma once
// Copies parts of GEMM operands into the layouts that gemm_tile.h reads, and describes their
// prefetching.
#include "gpu/canonical/vec/gemm_plan.h"
#include "gpu/canonical/vec/pack.h"

namespace es::gpu {
namespace {

// A half-open range of k, rows or columns.
struct Span {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// Returns tile `index` of a block of rows, which is divided into equal tiles.
inline Span tile_rows(const Span& rows, std::int64_t index) {
  const std::int64_t tiles = ceil_div(rows.size(), kTileRows);
  return {rows.begin + index * rows.size() / tiles, rows.begin + (index + 1) * rows.size() / tiles};
}

// Copies columns of B: the k are copied_panel_stride() floats apart. A panel that is narrower than
// a vector is filled with +0.
inline void pack_panel(const GemmShape& s, const Span& k, const Span& columns, const float* b,
                       float* out) {
  const float* from = b + k.begin * s.b_row + columns.begin * s.b_col;
  const std::int64_t width = columns.size(), stride = copied_panel_stride(width);
  if (s.b_col != 1) {
    return pack_transposed(k.size(), width, from, s.b_row, s.b_col, out, stride,
                           larger(width, kWidth));
  }
  const Part first(width);
  for (std::int64_t i = 0; i < k.size(); ++i, from += s.b_row, out += stride) {
    store(out, first.load(from));
    if (width > kWidth) store(out + width - kWidth, load(from + width - kWidth));
  }
}

// Copies rows of A. By rows: the rows are row_stride floats apart. By columns: each k has kTileRows
// floats.
inline void pack_tile(const GemmShape& s, ASide side, const Span& k, const Span& rows,
                      std::int64_t row_stride, const float* a, float* out) {
  const float* from = a + rows.begin * s.a_row + k.begin * s.a_col;
  if (side == ASide::kRows) {
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      copy_floats(out + i * row_stride, from + i * s.a_row, k.size());
    }
    return;
  }
  if (s.a_row != 1) {
    return pack_transposed(k.size(), rows.size(), from, s.a_col, s.a_row, out, kTileRows,
                           rows.size());
  }
  // If kTileRows < kWidth, a store of a whole vector writes too many floats, and the next store
  // overwrites them.
  const Part row(rows.size());
  const std::int64_t last = k.size() - 1;
  for (std::int64_t i = 0; i < last; ++i) store(out + i * kTileRows, row.load(from + i * s.a_col));
  row.store(out + last * kTileRows, row.load(from + last * s.a_col));
}

// Copies all tiles of the rows [rows.begin, rows.end) of an A with a_row = 1, for the k of one
// chunk. Each tile has `slice` floats. A few k are copied at a time, so that rows of memory are
// read completely.
inline void pack_strips(const GemmShape& s, const Span& k, const Span& rows, const float* a,
                        std::int64_t slice, float* out) {
  constexpr std::int64_t kRowsAtOnce = 16;
  const std::int64_t tiles = ceil_div(rows.size(), kTileRows);
  for (std::int64_t i = k.begin; i < k.end; i += kRowsAtOnce, out += kRowsAtOnce * kTileRows) {
    const Span few{i, smaller(k.end, i + kRowsAtOnce)};
    for (std::int64_t t = 0; t < tiles; ++t) {
      pack_tile(s, ASide::kColumns, few, tile_rows(rows, t), 0, a, out + t * slice);
    }
  }
}

// Returns a Fetch of `rows` rows of `count` floats that are `stride` floats apart.
inline Fetch fetch_block(const float* from, std::int64_t rows, std::int64_t count,
                         std::int64_t stride) {
  return {reinterpret_cast<const char*>(from), count * 4, stride * 4, rows};
}

}  // namespace
}  // namespace es::gpu
