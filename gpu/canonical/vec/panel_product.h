#pragma once
// Products with a right operand that is copied to panels once and used by several products, each
// of which computes some rows (attention.h).
#include "gpu/canonical/vec/gemm_pack.h"

namespace es::gpu {
namespace {

// Returns the floats of an operand [k][n] in panels.
inline std::int64_t panels_floats(std::int64_t k, std::int64_t n) {
  return k * round_up(n, kWidth);
}

// Calls body(columns of the panel, its first float) for all panels of an operand [k][n].
template <class Body>
inline void for_panels(std::int64_t k, std::int64_t n, Body body) {
  std::int64_t at = 0;
  for (Span columns{0, next_panel(n)}; columns.size() > 0;
       columns = {columns.end, columns.end + next_panel(n - columns.end)}) {
    body(columns, at);
    at += k * copied_panel_stride(columns.size());
  }
}

// Copies the right operand of a product.
inline void pack_all_panels(const GemmShape& s, const float* b, float* panels) {
  for_panels(s.k, s.n, [&](const Span& columns, std::int64_t at) {
    pack_panel_at(s, {0, s.k}, columns, b, panels + at);
  });
}

// C = A B with B in panels [panel_k][panel_n], of which the first k and at least the first n are
// used: columns beyond n are computed up to the end of a panel. C has contiguous columns.
struct PanelProduct {
  GemmShape s;  // the strides of B and C are not used
  std::int64_t panel_k, panel_n;

  // Where a product goes. A product with k <= 512 may be a part of a chunk that goes on with the
  // chains of earlier parts; they begin at `start`, or with +0 if that is nullptr. If `add`, the
  // results are added to what c contains, as those of later chunks are.
  struct Target {
    float* c;
    std::int64_t stride;
    const float* start = nullptr;
    std::int64_t start_stride = 0;
    bool add = false;
  };
  void run(const float* a, const float* panels, const Target& to) const {
    const ASide side = s.a_col == 1 ? ASide::kRows : ASide::kColumns;
    const std::int64_t tiles = ceil_div(s.m, kTileRows);
    for_panels(panel_k, panel_n, [&](const Span& columns, std::int64_t panel) {
      if (columns.begin >= s.n) return;
      const std::int64_t stride = copied_panel_stride(columns.size());
      for (std::int64_t k = 0; k < s.k; k += kDotChunk) {
        for (std::int64_t i = 0; i < tiles; ++i) {
          const Span rows = tile_rows({0, s.m}, i);
          const float* start = to.start;
          if (start != nullptr) start += rows.begin * to.start_stride + columns.begin;
          const GemmTile tile{.a = a + rows.begin * s.a_row + k * s.a_col,
                              .a_stride = side == ASide::kRows ? s.a_row : s.a_col,
                              .b = panels + panel + k * stride,
                              .b_stride = stride,
                              .width = columns.size(),
                              .depth = smaller(kDotChunk, s.k - k),
                              .c = to.c + rows.begin * to.stride + columns.begin,
                              .c_stride = to.stride,
                              .start = start,
                              .start_stride = to.start_stride,
                              .add = to.add || k > 0,
                              .bias = nullptr};
          run_gemm_tile(side, rows.size(), tile, {});
        }
      }
    });
  }
};

}  // namespace
}  // namespace es::gpu
