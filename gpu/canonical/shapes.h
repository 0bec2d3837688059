#pragma once
// Small facts about shapes that every kernel class needs. Unnamed namespace: see scalar_math.h.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// Depthwise convolution has its own canonical order.
inline bool is_depthwise(const ConvShape& s) {
  return s.groups > 1 && s.groups == s.c && s.oc == s.c;
}

inline std::int64_t taps(const ConvShape& s) {
  return s.kh * s.kw;
}
inline std::int64_t group_c(const ConvShape& s) {
  return s.c / s.groups;
}
inline std::int64_t group_oc(const ConvShape& s) {
  return s.oc / s.groups;
}
inline std::int64_t weight_floats(const ConvShape& s) {
  return s.oc * taps(s) * group_c(s);
}

// Output rows that form one block of a depthwise weight gradient.
inline std::int64_t depthwise_block_rows(const ConvShape& s) {
  return smaller(s.oh(), ceil_div(kDepthwiseBlock, s.ow()));
}
inline std::int64_t depthwise_blocks(const ConvShape& s) {
  return s.n * ceil_div(s.oh(), depthwise_block_rows(s));
}

// Runs of 64 rows (G3), and the rows of one of them.
inline std::int64_t run_count(std::int64_t rows) {
  return ceil_div(rows, kColumnRun);
}
inline std::int64_t run_rows(std::int64_t rows, std::int64_t run) {
  return smaller(kColumnRun, rows - run * kColumnRun);
}

// What the phases of a batch norm leave for each other in its workspace.
struct BnWorkspace {
  float* a;                     // [c], gamma * istd
  float *sum, *mean, *squares;  // [runs][c], forward: squared deviations from the run's mean
  float *gradient, *product;    // [runs][c], backward: sums of g and of g * d; in the same memory
};
inline BnWorkspace bn_workspace(std::int64_t rows, std::int64_t c, float* ws) {
  const std::int64_t size = run_count(rows) * c;
  float* runs = ws + c;
  return {ws, runs, runs + size, runs + 2 * size, runs, runs + size};
}

// The real cells of pooling window `index` = (n, oh, ow): taps [kh0, kh1) x [kw0, kw1).
struct PoolWindow {
  std::int64_t kh0, kh1, kw0, kw1;
  std::int64_t n, top, left;  // input position of tap (0, 0), possibly in the padding
  std::int64_t cells() const { return (kh1 - kh0) * (kw1 - kw0); }
  // Offset of the first channel of a tap.
  std::int64_t cell(const PoolShape& s, std::int64_t kh, std::int64_t kw) const {
    return ((n * s.h + top + kh) * s.w + left + kw) * s.c;
  }
};

inline PoolWindow pool_window(const PoolShape& s, std::int64_t index) {
  const std::int64_t n = index / (s.oh() * s.ow());
  const std::int64_t top = index / s.ow() % s.oh() * s.stride - s.pad;
  const std::int64_t left = index % s.ow() * s.stride - s.pad;
  return {larger(0, -top),
          smaller(s.kh, s.h - top),
          larger(0, -left),
          smaller(s.kw, s.w - left),
          n,
          top,
          left};
}

// The pooling windows [oh0, oh1) x [ow0, ow1) that cover input cell (n, h, w).
struct PoolCover {
  std::int64_t oh0, oh1, ow0, ow1;
  std::int64_t n, row, col;  // position of the cell in the padded input
  std::int64_t window(const PoolShape& s, std::int64_t oh, std::int64_t ow) const {
    return (n * s.oh() + oh) * s.ow() + ow;
  }
  // The tap (kh * kw_size + kw) under which window (oh, ow) sees the cell.
  std::int64_t tap(const PoolShape& s, std::int64_t oh, std::int64_t ow) const {
    return (row - oh * s.stride) * s.kw + col - ow * s.stride;
  }
};

inline PoolCover pool_cover(const PoolShape& s, std::int64_t n, std::int64_t h, std::int64_t w) {
  // oh covers the row when oh * stride <= row < oh * stride + kh.
  const auto first = [&](std::int64_t at, std::int64_t size) {
    return at < size ? 0 : (at - size) / s.stride + 1;
  };
  const std::int64_t row = h + s.pad, col = w + s.pad;
  return {first(row, s.kh),
          smaller(s.oh(), row / s.stride + 1),
          first(col, s.kw),
          smaller(s.ow(), col / s.stride + 1),
          n,
          row,
          col};
}

// The inputs [begin, end) of output `index` of `outputs` that share `size` inputs (adaptive pooling).
struct AdaptiveRange {
  std::int64_t begin, end;
};
inline AdaptiveRange adaptive_range(std::int64_t size, std::int64_t outputs, std::int64_t index) {
  return {index * size / outputs, ceil_div((index + 1) * size, outputs)};
}
// The outputs [begin, end) whose range holds input `at`.
inline AdaptiveRange adaptive_cover(std::int64_t size, std::int64_t outputs, std::int64_t at) {
  return {at * outputs / size, ceil_div((at + 1) * outputs, size)};
}

}  // namespace
}  // namespace es::gpu
