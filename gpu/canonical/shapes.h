#pragma once
// Small facts about shapes that every kernel class needs. The namespace is unnamed for the reason
// given in scalar_math.h.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// Depthwise convolution has a canonical order of its own.
ES_HD inline bool is_depthwise(const ConvShape& s) {
  return s.groups > 1 && s.groups == s.c && s.oc == s.c;
}

ES_HD inline std::int64_t taps(const ConvShape& s) {
  return s.kh * s.kw;
}
ES_HD inline std::int64_t group_c(const ConvShape& s) {
  return s.c / s.groups;
}
ES_HD inline std::int64_t group_oc(const ConvShape& s) {
  return s.oc / s.groups;
}
ES_HD inline std::int64_t weight_floats(const ConvShape& s) {
  return s.oc * taps(s) * group_c(s);
}

// Returns the number of output rows that form one block of a depthwise weight gradient.
ES_HD inline std::int64_t depthwise_block_rows(const ConvShape& s) {
  return smaller(s.oh(), ceil_div(kDepthwiseBlock, s.ow()));
}
ES_HD inline std::int64_t depthwise_blocks(const ConvShape& s) {
  return s.n * ceil_div(s.oh(), depthwise_block_rows(s));
}

// Number of runs of 64 rows (G3), and the number of rows of one run.
ES_HD inline std::int64_t run_count(std::int64_t rows) {
  return ceil_div(rows, kColumnRun);
}
ES_HD inline std::int64_t run_rows(std::int64_t rows, std::int64_t run) {
  return smaller(kColumnRun, rows - run * kColumnRun);
}

// The workspace through which the phases of a batch norm pass values to each other.
struct BnWorkspace {
  float* a;                     // [c], gamma * istd
  float *sum, *mean, *squares;  // [runs][c], forward; squares: deviations from the run's mean
  float *gradient, *product;    // [runs][c], backward: sums of g and of g * d; same memory as above
};
ES_HD inline BnWorkspace bn_workspace(std::int64_t rows, std::int64_t c, float* ws) {
  const std::int64_t size = run_count(rows) * c;
  float* runs = ws + c;
  return {ws, runs, runs + size, runs + 2 * size, runs, runs + size};
}

// Returns a / b for numbers in [0, 2^32), which GPUs divide faster than longer numbers.
ES_HD inline std::int64_t small_quotient(std::int64_t a, std::int64_t b) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
#else
  return a / b;
#endif
}

// The real cells of pooling window `index` = (n, oh, ow): the taps [kh0, kh1) x [kw0, kw1).
struct PoolWindow {
  std::int64_t kh0, kh1, kw0, kw1;
  std::int64_t n, top, left;  // input position of tap (0, 0), which may lie in the padding
  ES_HD std::int64_t cells() const { return (kh1 - kh0) * (kw1 - kw0); }
  // Returns the offset of the first channel of a tap.
  ES_HD std::int64_t cell(const PoolShape& s, std::int64_t kh, std::int64_t kw) const {
    return ((n * s.h + top + kh) * s.w + left + kw) * s.c;
  }
};

ES_HD inline PoolWindow pool_window(const PoolShape& s, std::int64_t n, std::int64_t oh,
                                    std::int64_t ow) {
  const std::int64_t top = oh * s.stride_h - s.pad_h, left = ow * s.stride_w - s.pad_w;
  return {larger(0, -top),
          smaller(s.kh, s.h - top),
          larger(0, -left),
          smaller(s.kw, s.w - left),
          n,
          top,
          left};
}
ES_HD inline PoolWindow pool_window(const PoolShape& s, std::int64_t index) {
  return pool_window(s, index / (s.oh() * s.ow()), index / s.ow() % s.oh(), index % s.ow());
}

// The pooling windows [oh0, oh1) x [ow0, ow1) that cover the input cell (n, h, w).
struct PoolCover {
  std::int64_t oh0, oh1, ow0, ow1;
  std::int64_t n, row, col;  // position of the cell in the padded input
  ES_HD std::int64_t window(const PoolShape& s, std::int64_t oh, std::int64_t ow) const {
    return (n * s.oh() + oh) * s.ow() + ow;
  }
  // Returns the tap (kh * kw_size + kw) at which window (oh, ow) contains the cell.
  ES_HD std::int64_t tap(const PoolShape& s, std::int64_t oh, std::int64_t ow) const {
    return (row - oh * s.stride_h) * s.kw + col - ow * s.stride_w;
  }
};

ES_HD inline PoolCover pool_cover(const PoolShape& s, std::int64_t n, std::int64_t h,
                                  std::int64_t w) {
  // Window oh covers the row if oh * stride <= row < oh * stride + kh.
  const auto first = [](std::int64_t at, std::int64_t size, std::int64_t stride) {
    return at < size ? 0 : small_quotient(at - size, stride) + 1;
  };
  const std::int64_t row = h + s.pad_h, col = w + s.pad_w;
  return {first(row, s.kh, s.stride_h),
          smaller(s.oh(), small_quotient(row, s.stride_h) + 1),
          first(col, s.kw, s.stride_w),
          smaller(s.ow(), small_quotient(col, s.stride_w) + 1),
          n,
          row,
          col};
}

// The inputs [begin, end) of output `index` in adaptive pooling, where `outputs` outputs share
// `size` inputs.
struct AdaptiveRange {
  std::int64_t begin, end;
};
ES_HD inline AdaptiveRange adaptive_range(std::int64_t size, std::int64_t outputs,
                                          std::int64_t index) {
  return {small_quotient(index * size, outputs),
          small_quotient((index + 1) * size + outputs - 1, outputs)};
}
// The outputs [begin, end) whose range contains input `at`.
ES_HD inline AdaptiveRange adaptive_cover(std::int64_t size, std::int64_t outputs,
                                          std::int64_t at) {
  return {small_quotient(at * outputs, size), small_quotient((at + 1) * outputs + size - 1, size)};
}

}  // namespace
}  // namespace es::gpu
