#pragma once
// GEMM with few rows and a large B. The time depends on reading B once from memory, in long
// contiguous pieces. (An example is a linear layer with a small batch, whose weights are hundreds
// of megabytes.)
#include "gpu/canonical/vec/gemm_plan.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kNarrowRows = kTileRows;   // largest number of rows of A
constexpr std::int64_t kLargeFloats = 64 * 1024;  // from this size on B is large
constexpr std::int64_t kNarrowAhead = 512;  // number of k that B is prefetched ahead in long rows
// Columns of B with contiguous rows that are read at a time.
constexpr std::int64_t kStreamColumns = 4096;
constexpr std::int64_t kStreamDepth = 32;  // rows of B that are read side by side

inline bool is_narrow(const GemmShape& s) {
  if (s.a_stored != Factor::kF32 || s.b_stored != Factor::kF32) return false;
  return s.m <= kNarrowRows && s.a_col == 1 && s.c_col == 1 && s.n >= kWidth &&
         (s.b_row == 1 || s.b_col == 1) && s.n * s.k >= kLargeFloats;
}

// --- B with contiguous columns (y = x W^T): kWidth columns side by side are transposed in
// registers, four k at a time.

template <int kRows>
struct NarrowSums {
  Vec v[kRows];
};

// Computes the chain of one chunk for kWidth columns, from b on.
template <int kRows>
inline __attribute__((always_inline)) void narrow_chunk(const GemmShape& s, std::int64_t depth,
                                                        const float* a, const float* b,
                                                        NarrowSums<kRows>& sum) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) sum.v[i] = zero();
  const auto step = [&](std::int64_t k, Vec right) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) sum.v[i] = fma(set(a[i * s.a_row + k]), right, sum.v[i]);
  };
  std::int64_t k = 0;
  for (; k + 4 <= depth; k += 4) {
    // A quarter of the rows at a time, so that requests to memory are spread evenly.
#pragma GCC unroll 4
    for (int j = 0; j < kWidth / 4; ++j) {
      __builtin_prefetch(b + (k / 4 % 4 * (kWidth / 4) + j) * s.b_col + k + kNarrowAhead);
    }
    Vec right[4];
    transpose_four(b + k, s.b_col, right);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) step(k + j, right[j]);
  }
  for (; k < depth; ++k) {
    float lanes[kWidth];
    for (std::int64_t j = 0; j < kWidth; ++j) lanes[j] = b[j * s.b_col + k];
    step(k, load(lanes));
  }
}

template <int kRows>
void narrow_by_k(const GemmShape& s, const float* a, const float* b, const float* bias, float* c) {
  for (std::int64_t block = 0; block < s.n; block += kWidth) {
    // The last block overlaps; equal bits are stored twice.
    const std::int64_t j = smaller(block, s.n - kWidth);
    Vec total[kRows];
    for (Vec& v : total) v = zero();
    for (std::int64_t k = 0; k < s.k; k += kDotChunk) {
      NarrowSums<kRows> sum;
      narrow_chunk<kRows>(s, smaller(kDotChunk, s.k - k), a + k, b + j * s.b_col + k, sum);
      for (int i = 0; i < kRows; ++i) total[i] = add(total[i], sum.v[i]);
    }
    for (int i = 0; i < kRows; ++i) {
      if (bias != nullptr) total[i] = add(total[i], load(bias + j));
      store(c + i * s.c_row + j, total[i]);
    }
  }
}

using NarrowFunction = void (*)(const GemmShape&, const float*, const float*, const float*, float*);

template <int kRows = kNarrowRows>
NarrowFunction narrow_function(std::int64_t rows) {
  if (rows == kRows) return narrow_by_k<kRows>;
  if constexpr (kRows > 1) return narrow_function<kRows - 1>(rows);
  return nullptr;
}

// --- B with contiguous rows (dx = dy W): kStreamDepth rows of B side by side, over all columns of
// a slice. Between blocks the chains are kept in C, or in `partial` for later chunks.

struct NarrowBlock {
  std::int64_t k, depth;       // of the rows of B
  std::int64_t chunk;          // first k of the chunk
  std::int64_t column, width;  // of the slice
};

inline void stream_block(const GemmShape& s, const NarrowBlock& block, const float* a,
                         const float* b, const float* bias, float* c, float* partial) {
  const std::int64_t chunk_end = smaller(s.k, block.chunk + kDotChunk);
  const bool ends = block.k + block.depth == chunk_end, in_c = block.chunk == 0;
  float* chain = in_c ? c + block.column : partial;
  const std::int64_t chain_stride = in_c ? s.c_row : kStreamColumns;
  for (std::int64_t j = 0, width; j < block.width; j += width) {
    width = next_panel(block.width - j);
    GemmTile t{
        .a = a + block.k,
        .a_stride = s.a_row,
        .b = b + block.k * s.b_row + block.column + j,
        .b_stride = s.b_row,
        .width = width,
        .depth = block.depth,
        .c = ends ? c + block.column + j : chain + j,
        .c_stride = ends ? s.c_row : chain_stride,
        .start = block.k == block.chunk ? nullptr : chain + j,
        .start_stride = chain_stride,
        .add = ends && !in_c,
        .bias = ends && chunk_end == s.k && bias != nullptr ? bias + block.column + j : nullptr};
    run_gemm_tile(ASide::kRows, s.m, t, {});
  }
}

inline void narrow_by_rows(const GemmShape& s, const float* a, const float* b, const float* bias,
                           float* c, float* partial) {
  for (std::int64_t j = 0, width; j < s.n; j += width) {
    // The last slice must have at least one vector of columns.
    width = s.n - j < kStreamColumns + kWidth ? s.n - j : kStreamColumns;
    if (width > kStreamColumns) width = kStreamColumns - kWidth;
    for (std::int64_t k = 0; k < s.k; k += kStreamDepth) {
      const NarrowBlock block{k, smaller(kStreamDepth, s.k - k), k / kDotChunk * kDotChunk, j,
                              width};
      stream_block(s, block, a, b, bias, c, partial);
    }
  }
}

// Returns the floats of workspace. REQUIRES: is_narrow(s).
inline std::int64_t narrow_floats(const GemmShape& s) {
  return s.b_row == 1 ? 0 : s.m * kStreamColumns;
}

inline void gemm_narrow(const GemmShape& s, const float* a, const float* b, const float* bias,
                        float* c, float* ws) {
  if (s.b_row == 1) return narrow_function(s.m)(s, a, b, bias, c);
  narrow_by_rows(s, a, b, bias, c, ws);
}

}  // namespace
}  // namespace es::gpu
