#pragma once
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/vec/pack.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kGemmColumns = 1024;  // columns of B that are packed at a time

// Parts of the workspace.
struct GemmScratch {
  float* a_block;
  float* panels;   // one chunk of K of up to kGemmColumns columns of B
  float* staging;  // results of a block whose rows are not contiguous in C
};

inline std::int64_t gemm_columns(const GemmShape& s) {
  return padded_columns(smaller(s.n, kGemmColumns));
}

inline std::size_t gemm_workspace_floats(const GemmShape& s) {
  const std::int64_t columns = gemm_columns(s);
  const std::int64_t staging = s.c_col == 1 ? 0 : kBlockRows * columns;
  return static_cast<std::size_t>(kBlockFloats + kDotChunk * columns + staging);
}

inline GemmScratch gemm_scratch(const GemmShape& s, float* ws) {
  float* panels = ws + kBlockFloats;
  return {ws, panels, panels + kDotChunk * gemm_columns(s)};
}

// Rows of results for chunk [k0, k0 + depth) and columns [j0, j0 + columns).
struct GemmBlock {
  Part1D rows;
  std::int64_t k0, depth, j0, columns;
};

inline void spread_staging(const GemmShape& s, const GemmBlock& block, const float* staging,
                           float* c) {
  for (std::int64_t i = 0; i < block.rows.size(); ++i) {
    float* row = c + (block.rows.begin + i) * s.c_row + block.j0 * s.c_col;
    for (std::int64_t j = 0; j < block.columns; ++j) {
      const float sum = staging[i * padded_columns(block.columns) + j];
      row[j * s.c_col] = block.k0 == 0 ? sum : row[j * s.c_col] + sum;
    }
  }
}

inline void gemm_block(const GemmShape& s, const GemmBlock& block, const float* a,
                       const GemmScratch& scratch, float* c) {
  const bool in_place = s.c_col == 1;
  float* rows[kBlockRows];
  for (std::int64_t i = 0; i < block.rows.size(); ++i) {
    rows[i] = in_place ? c + (block.rows.begin + i) * s.c_row + block.j0
                       : scratch.staging + i * padded_columns(block.columns);
  }
  const BlockArgs args{.a = scratch.a_block,
                       .row_count = block.rows.size(),
                       .b = scratch.panels,
                       .panel_step = block.depth * kPanelWidth,
                       .b_stride = 0,
                       .columns = block.columns,
                       .depth = block.depth,
                       .rows = rows,
                       .first = block.k0 == 0 || !in_place};
  const float* from = a + block.rows.begin * s.a_row + block.k0 * s.a_col;
  if (s.a_col == 1) {
    copy_rows(block.rows.size(), block.depth, from, s.a_row, scratch.a_block);
    multiply_block<ALayout::kRows>(args);
  } else {
    pack_tiles(block.rows.size(), block.depth, from, s.a_row, s.a_col, scratch.a_block);
    multiply_block<ALayout::kColumns>(args);
  }
  if (!in_place) spread_staging(s, block, scratch.staging, c);
}

inline void add_bias(const GemmShape& s, const float* bias, float* c) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      float& value = c[i * s.c_row + j * s.c_col];
      value = value + bias[j];
    }
  }
}

inline void gemm(const GemmShape& s, const float* a, const float* b, const float* bias, float* c,
                 float* ws) {
  const GemmScratch scratch = gemm_scratch(s, ws);
  for (std::int64_t j0 = 0; j0 < s.n; j0 += kGemmColumns) {
    for (std::int64_t k0 = 0; k0 < s.k; k0 += kDotChunk) {
      const std::int64_t columns = smaller(kGemmColumns, s.n - j0);
      const std::int64_t depth = smaller(kDotChunk, s.k - k0);
      pack_panels(depth, columns, b + k0 * s.b_row + j0 * s.b_col, s.b_row, s.b_col,
                  scratch.panels);
      for (std::int64_t i = 0; i < part_count(s.m, kBlockRows); ++i) {
        gemm_block(s, {part(s.m, kBlockRows, i), k0, depth, j0, columns}, a, scratch, c);
      }
    }
  }
  if (bias != nullptr) add_bias(s, bias, c);
}

}  // namespace
}  // namespace es::gpu
