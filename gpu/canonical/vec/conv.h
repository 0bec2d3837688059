#pragma once
// The forward pass and the data gradient of a convolution.
#include "gpu/canonical/shapes.h"
#include "gpu/canonical/vec/depthwise.h"
#include "gpu/canonical/vec/pixel_product.h"

namespace es::gpu {
namespace {

// Returns the window of an output pixel of group g in x: k = (kh, kw, c).
inline Window forward_window(const ConvShape& s, std::int64_t g) {
  return {.rows = s.kh,
          .cols = s.kw,
          .length = group_c(s),
          .row0 = -s.pad,
          .col0 = -s.pad,
          .step = 1,
          .channel = g * group_c(s)};
}

inline PixelGrid forward_grid(const ConvShape& s, const float* x) {
  return {.x = x, .h = s.h, .w = s.w, .c = s.c, .rows = s.oh(), .cols = s.ow(), .stride = s.stride};
}

inline PixelProduct forward_product(const ConvShape& s, const float* x, const float* bias,
                                    float* y) {
  return {.grid = forward_grid(s, x),
          .window = forward_window(s, 0),
          .images = s.n,
          .columns = group_oc(s),
          .groups = s.groups,
          .in_group_step = group_c(s),
          .out_group_step = group_oc(s),
          .bias = bias,
          .out = y,
          .image_step = s.oh() * s.ow() * s.oc,
          .row_step = s.ow() * s.oc,
          .col_step = s.oc};
}

inline std::size_t conv_fwd_workspace_floats(const ConvShape& s) {
  if (is_depthwise(s)) return depthwise_workspace_floats(s);
  return static_cast<std::size_t>(
      product_workspace_floats(forward_product(s, nullptr, nullptr, nullptr)));
}

inline void conv_fwd(const ConvShape& s, std::int64_t oc_begin, std::int64_t oc_end, const float* x,
                     const float* w, const float* bias, float* y, float* ws) {
  if (is_depthwise(s)) return depthwise_fwd(s, x, w, bias, y, ws);
  const std::int64_t filter_floats = taps(s) * group_c(s);
  const auto pack = [&](std::int64_t g, std::int64_t k, std::int64_t depth, std::int64_t column,
                        std::int64_t columns, float* out) {
    const float* group = w + (g * group_oc(s) + oc_begin) * filter_floats;
    for (std::int64_t j = 0; j < columns; j += kPanelWidth) {
      const std::int64_t width = smaller(kPanelWidth, columns - j);
      pack_panels(depth, width, group + (column + j) * filter_floats + k, 1, filter_floats, out);
      out += depth * panel_stride(width) + kPanelGap;
    }
  };
  PixelProduct product = forward_product(s, x, bias, y);
  product.columns = (oc_end - oc_begin) / s.groups;
  if (bias != nullptr) product.bias += oc_begin;
  product.out += oc_begin;
  multiply_pixels(product, pack, ws);
}

// A stride phase: the input pixels whose row and column leave the remainders `row` and `col` when
// divided by the stride. The same taps hit all of them, so they form a convolution of stride 1 over
// dy.
struct StridePhase {
  std::int64_t row, col;
  std::int64_t rows, cols;  // grid of the pixels of this phase
  std::int64_t kh0, kw0;    // the first tap that hits; the next ones follow in steps of the stride
  std::int64_t tap_rows, tap_cols;  // numbers of taps that hit
};

inline StridePhase stride_phase(const ConvShape& s, std::int64_t row, std::int64_t col) {
  const auto taps_from = [&](std::int64_t first, std::int64_t size) {
    return first < size ? ceil_div(size - first, s.stride) : 0;
  };
  // The pixel `row` is hit by tap kh if (row + pad - kh) is a multiple of the stride.
  const std::int64_t kh0 = (row + s.pad) % s.stride, kw0 = (col + s.pad) % s.stride;
  return {.row = row,
          .col = col,
          .rows = larger(0, ceil_div(s.h - row, s.stride)),
          .cols = larger(0, ceil_div(s.w - col, s.stride)),
          .kh0 = kh0,
          .kw0 = kw0,
          .tap_rows = taps_from(kh0, s.kh),
          .tap_cols = taps_from(kw0, s.kw)};
}

// Calls body(phase) for each phase that has pixels.
template <class Body>
void for_each_phase(const ConvShape& s, Body body) {
  for (std::int64_t row = 0; row < smaller(s.stride, s.h); ++row) {
    for (std::int64_t col = 0; col < smaller(s.stride, s.w); ++col) {
      body(stride_phase(s, row, col));
    }
  }
}

inline PixelProduct phase_product(const ConvShape& s, const StridePhase& phase, const float* dy,
                                  float* dx) {
  return {.grid = {.x = dy,
                   .h = s.oh(),
                   .w = s.ow(),
                   .c = s.oc,
                   .rows = phase.rows,
                   .cols = phase.cols,
                   .stride = 1},
          .window = {.rows = phase.tap_rows,
                     .cols = phase.tap_cols,
                     .length = group_oc(s),
                     .row0 = (phase.row + s.pad - phase.kh0) / s.stride,
                     .col0 = (phase.col + s.pad - phase.kw0) / s.stride,
                     .step = -1,  // the next tap hits the previous output
                     .channel = 0},
          .images = s.n,
          .columns = group_c(s),
          .groups = s.groups,
          .in_group_step = group_oc(s),
          .out_group_step = group_c(s),
          .bias = nullptr,
          .out = dx + (phase.row * s.w + phase.col) * s.c,
          .image_step = s.h * s.w * s.c,
          .row_step = s.stride * s.w * s.c,
          .col_step = s.stride * s.c};
}

inline std::size_t conv_dgrad_workspace_floats(const ConvShape& s) {
  if (is_depthwise(s)) return depthwise_workspace_floats(s);
  std::int64_t floats = 0;
  for_each_phase(s, [&](const StridePhase& phase) {
    if (phase.tap_rows * phase.tap_cols == 0) return;
    floats = larger(floats, product_workspace_floats(phase_product(s, phase, nullptr, nullptr)));
  });
  return static_cast<std::size_t>(floats);
}

// Returns the weights of the k = (kh, kw, oc) in [k, k + depth) of a phase, as rows of input
// channels.
inline void weight_rows(const ConvShape& s, const StridePhase& phase, std::int64_t g,
                        const float* w, std::int64_t k, std::int64_t depth, const float** rows) {
  const std::int64_t ocg = group_oc(s), cg = group_c(s);
  for (const std::int64_t end = k + depth; k < end;) {
    const std::int64_t hit = k / ocg, skip = k % ocg, count = smaller(ocg - skip, end - k);
    const std::int64_t kh = phase.kh0 + hit / phase.tap_cols * s.stride;
    const std::int64_t kw = phase.kw0 + hit % phase.tap_cols * s.stride;
    const float* row = w + ((g * ocg + skip) * taps(s) + kh * s.kw + kw) * cg;
    for (std::int64_t i = 0; i < count; ++i) *rows++ = row + i * taps(s) * cg;
    k += count;
  }
}

// Rows of weights that are far apart in memory are prefetched this number of rows ahead, because
// the processor only guesses what follows within a row.
constexpr std::int64_t kRowsAhead = 8;

inline void prefetch_row(const float* row, std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; j += kLineFloats) __builtin_prefetch(row + j);
}

// Writes row i of a chunk of `depth` rows to all its panels at once. Rows are far apart in memory,
// so each is read in one pass.
inline void pack_row(const float* row, std::int64_t columns, std::int64_t i, std::int64_t depth,
                     float* panels) {
  for (std::int64_t column = 0; column < columns; column += kPanelWidth) {
    const std::int64_t width = smaller(kPanelWidth, columns - column);
    const std::int64_t stride = panel_stride(width);
    // A panel has one or two vectors in each row. The last one may be partial; the load of the
    // first of two is whole.
    const Part tail(width - (stride - kWidth));
    float* out = panels + i * stride;
    if (stride > kWidth) store(out, load(row + column));
    store(out + stride - kWidth, tail.load(row + column + stride - kWidth));
    panels += depth * stride + kPanelGap;
  }
}

inline void dgrad_phase(const ConvShape& s, const StridePhase& phase, std::int64_t c_begin,
                        std::int64_t c_end, const float* dy, const float* w, float* dx, float* ws) {
  const auto pack = [&](std::int64_t g, std::int64_t k, std::int64_t depth, std::int64_t column,
                        std::int64_t columns, float* out) {
    const float* rows[kDotChunk];
    weight_rows(s, phase, g, w, k, depth, rows);
    for (std::int64_t i = 0; i < depth; ++i) {
      if (i + kRowsAhead < depth) prefetch_row(rows[i + kRowsAhead] + c_begin + column, columns);
      pack_row(rows[i] + c_begin + column, columns, i, depth, out);
    }
  };
  PixelProduct product = phase_product(s, phase, dy, dx);
  product.columns = (c_end - c_begin) / s.groups;
  product.out += c_begin;
  multiply_pixels(product, pack, ws);
}

inline void conv_dgrad(const ConvShape& s, std::int64_t c_begin, std::int64_t c_end,
                       const float* dy, const float* w, float* dx, float* ws) {
  if (is_depthwise(s)) return depthwise_dgrad(s, dy, w, dx, ws);
  // If the stride is larger than the filter, no tap hits some of the pixels.
  if (s.stride > smaller(s.kh, s.kw)) {
    for (std::int64_t pixel = 0; pixel < s.n * s.h * s.w; ++pixel)
      zero_floats(dx + pixel * s.c + c_begin, c_end - c_begin);
  }
  for_each_phase(s, [&](const StridePhase& phase) {
    if (phase.tap_rows * phase.tap_cols == 0) return;
    dgrad_phase(s, phase, c_begin, c_end, dy, w, dx, ws);
  });
}

}  // namespace
}  // namespace es::gpu
