#pragma once
// The register tile: up to kTileRows x 2 or kNarrowTileRows x 1 vectors of DOT results (G1) that
// advance one chunk of K together. Every product of a convolution ends here; the surrounding code
// only says where the operands are.
//
// A has one of two layouts:
//   by rows     each row begins anywhere and its k are contiguous
//   by columns  element (i, k) is a[k * a_stride + i]: for operands whose rows are not contiguous
// B has contiguous columns: it is a packed panel of kPanelWidth columns, or rows in place.
//
// The k of a chunk come in runs. Between runs the address in the operand that is read in place
// jumps (A by rows, or B beside an A by columns); the packed operand continues.
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

// A panel of B does not fit beside the tile of A in the first-level cache. It is prefetched from
// the second level this many k ahead.
constexpr std::int64_t kPrefetchDepth = 16;

enum class ALayout { kRows, kColumns };

// The k [at, at + length) of a chunk. They begin at float `offset` of the operand that is read in
// place (A by rows, or B beside an A by columns).
struct Run {
  std::int64_t offset, at, length;
};

struct TileArgs {
  const float* const* a_rows;  // layout by rows: the address of each row
  const float* a;              // layout by columns
  std::int64_t a_stride;       // by columns: distance between the k of A
  const float* b;
  std::int64_t b_stride;  // by columns: distance between the k of B; by rows B is a packed panel
  const Run* runs;
  std::int64_t run_count;
  float* const* rows;   // the address of row i of the result
  std::int64_t column;  // first column of the panel
  std::int64_t width;   // columns of the panel, at most kVecs * kWidth
  bool first;           // the first chunk is added to +0, later chunks to the result
  const float* bias;    // added afterwards, by column; nullptr before the last chunk
  // Store past the caches. REQUIRES: first, no bias, a full panel, and whole vectors at aligned
  // addresses.
  bool stream = false;
};

template <int kRows, int kVecs>
struct TileSums {
  Vec v[kRows][kVecs];
};

// Calls body(row, vector, column, access) for each vector of a tile. The last vector of a row may
// be a part.
template <int kRows, int kVecs, class Body>
inline __attribute__((always_inline)) void for_tile(const TileArgs& t, Body body) {
  const Part last(t.width - (kVecs - 1) * kWidth);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    if constexpr (kVecs == 2) body(i, 0, t.column, Whole());
    body(i, kVecs - 1, t.column + (kVecs - 1) * kWidth, last);
  }
}

template <int kRows, int kVecs>
inline __attribute__((always_inline)) void store_tile(const TileArgs& t,
                                                      const TileSums<kRows, kVecs>& sum) {
  if (t.stream) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) {
        stream(t.rows[i] + t.column + j * kWidth, add(zero(), sum.v[i][j]));
      }
    }
    return;
  }
  if (t.first && t.bias == nullptr) {
    return for_tile<kRows, kVecs>(t, [&](int i, int j, std::int64_t column, auto at) {
      at.store(t.rows[i] + column, add(zero(), sum.v[i][j]));
    });
  }
  for_tile<kRows, kVecs>(t, [&](int i, int j, std::int64_t column, auto at) {
    float* p = t.rows[i] + column;
    const Vec value = add(t.first ? zero() : at.load(p), sum.v[i][j]);
    at.store(p, t.bias == nullptr ? value : add(value, at.load(t.bias + column)));
  });
}

// Processes one k. left(i) is the element of row i. b has kVecs vectors, of which the last may be a
// part.
template <int kRows, int kVecs, class Last, class Left>
inline __attribute__((always_inline)) void tile_step(const float* b, std::int64_t b_stride,
                                                     const Last& last, Left left,
                                                     TileSums<kRows, kVecs>& sum) {
#pragma GCC unroll 2
  for (int j = 0; j < kVecs * kWidth; j += kLineFloats) {
    __builtin_prefetch(b + kPrefetchDepth * b_stride + j);
  }
  Vec right[kVecs];
  if constexpr (kVecs == 2) right[0] = load(b);
  right[kVecs - 1] = last.load(b + (kVecs - 1) * kWidth);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    const Vec element = set(left(i));
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) sum.v[i][j] = fma(element, right[j], sum.v[i][j]);
  }
}

template <int kRows, int kVecs>
inline __attribute__((always_inline)) void tile_by_rows(const TileArgs& t,
                                                        TileSums<kRows, kVecs>& sum) {
  const float* rows[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) rows[i] = t.a_rows[i];
  for (const Run* run = t.runs; run < t.runs + t.run_count; ++run) {
    const float* b = t.b + run->at * kVecs * kWidth;
    const std::int64_t end = run->offset + run->length;
    for (std::int64_t k = run->offset; k < end; ++k, b += kVecs * kWidth) {
      tile_step<kRows, kVecs>(
          b, kVecs * kWidth, Whole(), [&](int i) { return rows[i][k]; }, sum);
    }
  }
}

template <int kRows, int kVecs>
inline __attribute__((always_inline)) void tile_by_columns(const TileArgs& t,
                                                           TileSums<kRows, kVecs>& sum) {
  const Part last(t.width - (kVecs - 1) * kWidth);
  const std::int64_t a_stride = t.a_stride, b_stride = t.b_stride;
  for (const Run* run = t.runs; run < t.runs + t.run_count; ++run) {
    const float* a = t.a + run->at * a_stride;
    const float* b = t.b + run->offset;
    for (std::int64_t k = 0; k < run->length; ++k, a += a_stride, b += b_stride) {
      tile_step<kRows, kVecs>(
          b, b_stride, last, [&](int i) { return a[i]; }, sum);
    }
  }
}

template <ALayout kLayout, int kRows, int kVecs>
void tile(const TileArgs& t) {
  TileSums<kRows, kVecs> sum;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    if (!t.first) {  // the old results are needed when the chunk is done
      __builtin_prefetch(t.rows[i] + t.column, 1);
      __builtin_prefetch(t.rows[i] + t.column + t.width - 1, 1);
    }
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) sum.v[i][j] = zero();
  }
  if constexpr (kLayout == ALayout::kRows) {
    tile_by_rows<kRows, kVecs>(t, sum);
  } else {
    tile_by_columns<kRows, kVecs>(t, sum);
  }
  store_tile<kRows, kVecs>(t, sum);
}

using TileFunction = void (*)(const TileArgs&);

// Returns the most rows of a tile whose result has `columns` columns in all.
inline std::int64_t most_tile_rows(std::int64_t columns) {
  return columns > kWidth ? kTileRows : kNarrowTileRows;
}

// Returns tile<kLayout, rows, vecs>; there is one for every number of rows.
template <ALayout kLayout, int kVecs, int kRows = kVecs == 1 ? kNarrowTileRows : kTileRows>
TileFunction tile_function(std::int64_t rows) {
  if (rows == kRows) return tile<kLayout, kRows, kVecs>;
  if constexpr (kRows > 1) return tile_function<kLayout, kVecs, kRows - 1>(rows);
  return nullptr;
}

template <ALayout kLayout>
inline void run_tile(std::int64_t rows, const TileArgs& t) {
  (t.width > kWidth ? tile_function<kLayout, 2> : tile_function<kLayout, 1>)(rows)(t);
}

// Returns the number of rows of the next tile of at most `most` rows if `left` rows are left. Few
// rows do not fill the pipeline of the multipliers, so the last two tiles share the rest.
inline std::int64_t next_tile_rows(std::int64_t left, std::int64_t most = kTileRows) {
  if (left <= most) return left;
  return left < most * 3 / 2 ? ceil_div(left, 2) : most;
}

// --- Panels of B.

// Returns the columns that B occupies in memory: full panels, then one of one or two vectors.
inline std::int64_t padded_columns(std::int64_t columns) {
  return round_up(columns, kWidth);
}
// Returns the distance between the k of a panel with `width` columns.
inline std::int64_t panel_stride(std::int64_t width) {
  return padded_columns(width);
}

}  // namespace
}  // namespace es::gpu
