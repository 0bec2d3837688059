#pragma once
// Depthwise convolution: k = (kh, kw), and padding taps are skipped. Vectors run over channels.
#include "gpu/canonical/shapes.h"
#include "gpu/canonical/vec/depthwise3x3.h"
#include "gpu/canonical/vec/stage.h"

namespace es::gpu {
namespace {

// --- Forward pass and data gradient. Workspace: the filters by tap, and a row of zeros.

inline std::int64_t depthwise_zeros(const ConvShape& s) {
  // The kernels for 3x3 filters read a row of zeros in place of a row outside of the image.
  return is_3x3(s) ? larger(s.w, s.ow()) * s.c : 0;
}
inline std::size_t depthwise_workspace_floats(const ConvShape& s) {
  return static_cast<std::size_t>(taps(s) * s.c + depthwise_zeros(s));
}

// Writes [kh][kw][c], then the zeros, and returns the address of the zeros.
inline const float* depthwise_pack(const ConvShape& s, const float* w, float* ws) {
  for (std::int64_t c = 0; c < s.c; ++c) {
    for (std::int64_t t = 0; t < taps(s); ++t) ws[t * s.c + c] = *w++;
  }
  zero_floats(ws + taps(s) * s.c, depthwise_zeros(s));
  return ws + taps(s) * s.c;
}

// Returns the taps of a filter side of `size` taps that lie in [0, extent) for the given origin.
inline Range taps_inside(std::int64_t origin, std::int64_t size, std::int64_t extent) {
  return {larger(0, -origin), smaller(size, extent - origin)};
}

// Returns the output positions whose tap k lies in [0, extent).
inline Range outputs_inside(std::int64_t k, std::int64_t pad, std::int64_t stride,
                            std::int64_t extent, std::int64_t outputs) {
  const std::int64_t begin = k < pad ? ceil_div(pad - k, stride) : 0;
  const std::int64_t room = extent - 1 - k + pad;  // the last origin that is inside
  return {begin, room < 0 ? 0 : smaller(outputs, room / stride + 1)};
}

// Pixels of a row that are computed together, so that their chains do not wait for each other.
constexpr std::int64_t kDepthwisePixels = 4;

inline void depthwise_fwd_pixel(const ConvShape& s, const float* image, const float* packed,
                                const float* bias, std::int64_t top, std::int64_t left, float* y) {
  const Range rows = taps_inside(top, s.kh, s.h), cols = taps_inside(left, s.kw, s.w);
  for_vectors(s.c, [&](std::int64_t c, auto at) {
    Vec sum = zero();
    for (std::int64_t kh = rows.begin; kh < rows.end; ++kh) {
      for (std::int64_t kw = cols.begin; kw < cols.end; ++kw) {
        const float* pixel = image + ((top + kh) * s.w + left + kw) * s.c + c;
        sum = fma(at.load(pixel), at.load(packed + (kh * s.kw + kw) * s.c + c), sum);
      }
    }
    // DOT adds the only chunk to +0, which turns -0 into +0.
    sum = add(zero(), sum);
    at.store(y + c, bias != nullptr ? add(sum, at.load(bias + c)) : sum);
  });
}

// The same for kDepthwisePixels pixels whose columns of taps are all inside of the image.
inline void depthwise_fwd_pixels(const ConvShape& s, const float* image, const float* packed,
                                 const float* bias, std::int64_t top, std::int64_t left, float* y) {
  const Range rows = taps_inside(top, s.kh, s.h);
  for_vectors(s.c, [&](std::int64_t c, auto at) {
    Vec sums[kDepthwisePixels];
#pragma GCC unroll 4
    for (int p = 0; p < kDepthwisePixels; ++p) sums[p] = zero();
    for (std::int64_t kh = rows.begin; kh < rows.end; ++kh) {
      for (std::int64_t kw = 0; kw < s.kw; ++kw) {
        const float* pixel = image + ((top + kh) * s.w + left + kw) * s.c + c;
        const Vec weight = at.load(packed + (kh * s.kw + kw) * s.c + c);
#pragma GCC unroll 4
        for (int p = 0; p < kDepthwisePixels; ++p)
          sums[p] = fma(at.load(pixel + p * s.stride * s.c), weight, sums[p]);
      }
    }
#pragma GCC unroll 4
    for (int p = 0; p < kDepthwisePixels; ++p) {
      const Vec sum = add(zero(), sums[p]);
      at.store(y + p * s.c + c, bias != nullptr ? add(sum, at.load(bias + c)) : sum);
    }
  });
}

inline void depthwise_fwd(const ConvShape& s, const float* x, const float* w, const float* bias,
                          float* y, float* ws) {
  const float* zeros = depthwise_pack(s, w, ws);
  if (is_3x3(s)) return depthwise_fwd_3x3(s, x, ws, zeros, bias, y);
  const std::int64_t inside = outputs_inside(0, s.pad, s.stride, s.w, s.ow()).begin;
  const std::int64_t end = outputs_inside(s.kw - 1, s.pad, s.stride, s.w, s.ow()).end;
  for (std::int64_t n = 0; n < s.n; ++n) {
    const float* image = x + n * s.h * s.w * s.c;
    for (std::int64_t oh = 0; oh < s.oh(); ++oh) {
      for (std::int64_t ow = 0; ow < s.ow();) {
        const bool together = ow >= inside && ow + kDepthwisePixels <= end;
        (together ? depthwise_fwd_pixels : depthwise_fwd_pixel)(
            s, image, ws, bias, oh * s.stride - s.pad, ow * s.stride - s.pad, y);
        ow += together ? kDepthwisePixels : 1;
        y += (together ? kDepthwisePixels : 1) * s.c;
      }
    }
  }
}

// The taps that hit an output, ascending: tap, tap + stride, ... < end. The first one hits
// `output`, and each next one hits the previous output.
struct HittingTaps {
  std::int64_t tap, end, output;
};
inline HittingTaps taps_hitting(std::int64_t at, std::int64_t size, std::int64_t stride,
                                std::int64_t outputs) {
  // Taps before at - (outputs - 1) * stride would hit beyond the last output.
  const std::int64_t tap = larger(at % stride, at - (outputs - 1) * stride);
  return {tap, smaller(size, at + 1), (at - tap) / stride};
}

inline void depthwise_dgrad_pixel(const ConvShape& s, const float* dy, const float* packed,
                                  std::int64_t row, std::int64_t col, float* dx) {
  const HittingTaps rows = taps_hitting(row, s.kh, s.stride, s.oh());
  const HittingTaps cols = taps_hitting(col, s.kw, s.stride, s.ow());
  const std::int64_t row_floats = s.ow() * s.c;
  for_vectors(s.c, [&](std::int64_t c, auto at) {
    Vec sum = zero();
    const float* gradient_row = dy + rows.output * row_floats + cols.output * s.c + c;
    for (std::int64_t kh = rows.tap; kh < rows.end; kh += s.stride, gradient_row -= row_floats) {
      const float* gradient = gradient_row;
      for (std::int64_t kw = cols.tap; kw < cols.end; kw += s.stride, gradient -= s.c) {
        sum = fma(at.load(gradient), at.load(packed + (kh * s.kw + kw) * s.c + c), sum);
      }
    }
    at.store(dx + c, add(zero(), sum));
  });
}

// The same with stride 1 for kDepthwisePixels pixels that all columns of taps hit.
inline void depthwise_dgrad_pixels(const ConvShape& s, const float* dy, const float* packed,
                                   std::int64_t row, std::int64_t col, float* dx) {
  const HittingTaps rows = taps_hitting(row, s.kh, 1, s.oh());
  const std::int64_t row_floats = s.ow() * s.c;
  for_vectors(s.c, [&](std::int64_t c, auto at) {
    Vec sums[kDepthwisePixels];
#pragma GCC unroll 4
    for (int p = 0; p < kDepthwisePixels; ++p) sums[p] = zero();
    const float* gradient_row = dy + rows.output * row_floats + col * s.c + c;
    for (std::int64_t kh = rows.tap; kh < rows.end; ++kh, gradient_row -= row_floats) {
      const float* gradient = gradient_row;
      for (std::int64_t kw = 0; kw < s.kw; ++kw, gradient -= s.c) {
        const Vec weight = at.load(packed + (kh * s.kw + kw) * s.c + c);
#pragma GCC unroll 4
        for (int p = 0; p < kDepthwisePixels; ++p)
          sums[p] = fma(at.load(gradient + p * s.c), weight, sums[p]);
      }
    }
#pragma GCC unroll 4
    for (int p = 0; p < kDepthwisePixels; ++p) at.store(dx + p * s.c + c, add(zero(), sums[p]));
  });
}

inline void depthwise_dgrad(const ConvShape& s, const float* dy, const float* w, float* dx,
                            float* ws) {
  const float* zeros = depthwise_pack(s, w, ws);
  if (is_3x3(s)) return depthwise_dgrad_3x3(s, dy, ws, zeros, dx);
  for (std::int64_t n = 0; n < s.n; ++n, dy += s.oh() * s.ow() * s.c) {
    for (std::int64_t h = 0; h < s.h; ++h) {
      for (std::int64_t col = s.pad; col < s.w + s.pad;) {
        const bool together = s.stride == 1 && col >= s.kw - 1 &&
                              col + kDepthwisePixels <= smaller(s.ow(), s.w + s.pad);
        (together ? depthwise_dgrad_pixels : depthwise_dgrad_pixel)(s, dy, ws, h + s.pad, col, dx);
        col += together ? kDepthwisePixels : 1;
        dx += (together ? kDepthwisePixels : 1) * s.c;
      }
    }
  }
}

// --- Weight gradient. Workspace: the block results, and a row of zeros.

inline std::int64_t depthwise_partial_floats(const ConvShape& s) {
  return depthwise_blocks(s) * taps(s) * s.c;
}
inline std::size_t depthwise_wgrad_workspace_floats(const ConvShape& s) {
  return static_cast<std::size_t>(depthwise_partial_floats(s) + depthwise_zeros(s));
}

// Computes one tap over some output rows of one image for the channels [begin, end).
inline void depthwise_wgrad_tap(const ConvShape& s, const Range& channels, const float* image,
                                const float* dy, const Range& output_rows, std::int64_t kh,
                                std::int64_t kw, float* out) {
  const Range rows = outputs_inside(kh, s.pad, s.stride, s.h, s.oh());
  const Range cols = outputs_inside(kw, s.pad, s.stride, s.w, s.ow());
  const std::int64_t end = smaller(output_rows.end, rows.end);
  for_vectors(channels.size(), [&](std::int64_t i, auto at) {
    const std::int64_t c = channels.begin + i;
    Vec sum = zero();
    for (std::int64_t oh = larger(output_rows.begin, rows.begin); oh < end; ++oh) {
      const float* row = image + (oh * s.stride + kh - s.pad) * s.w * s.c + c;
      for (std::int64_t ow = cols.begin; ow < cols.end; ++ow) {
        const float* pixel = row + (ow * s.stride + kw - s.pad) * s.c;
        sum = fma(at.load(dy + (oh * s.ow() + ow) * s.c + c), at.load(pixel), sum);
      }
    }
    at.store(out + c, add(zero(), sum));
  });
}

// Computes the kTaps taps of one row of the filter together. Every tap has a chain of its own, so
// the chains wait less for each other than one after the other.
template <int kTaps>
inline void depthwise_wgrad_row(const ConvShape& s, const Range& channels, const float* image,
                                const float* dy, const Range& output_rows, std::int64_t kh,
                                float* out) {
  const Range rows = outputs_inside(kh, s.pad, s.stride, s.h, s.oh());
  const std::int64_t end = smaller(output_rows.end, rows.end);
  // The output columns whose taps are all inside of the image.
  const std::int64_t left = outputs_inside(0, s.pad, s.stride, s.w, s.ow()).begin;
  const std::int64_t right = outputs_inside(kTaps - 1, s.pad, s.stride, s.w, s.ow()).end;
  for_vectors(channels.size(), [&](std::int64_t i, auto at) {
    const std::int64_t c = channels.begin + i;
    Vec sums[kTaps];
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t) sums[t] = zero();
    for (std::int64_t oh = larger(output_rows.begin, rows.begin); oh < end; ++oh) {
      const float* row = image + (oh * s.stride + kh - s.pad) * s.w * s.c + c;
      const float* gradient = dy + oh * s.ow() * s.c + c;
      const auto add_near_edge = [&](std::int64_t ow) __attribute__((always_inline)) {
        const Vec g = at.load(gradient + ow * s.c);
#pragma GCC unroll 8
        for (int t = 0; t < kTaps; ++t) {
          const std::int64_t col = ow * s.stride + t - s.pad;
          if (col >= 0 && col < s.w) sums[t] = fma(g, at.load(row + col * s.c), sums[t]);
        }
      };
      std::int64_t ow = 0;
      for (; ow < smaller(left, s.ow()); ++ow) add_near_edge(ow);
      for (; ow < right; ++ow) {
        const Vec g = at.load(gradient + ow * s.c);
        const float* pixel = row + (ow * s.stride - s.pad) * s.c;
#pragma GCC unroll 8
        for (int t = 0; t < kTaps; ++t) sums[t] = fma(g, at.load(pixel + t * s.c), sums[t]);
      }
      for (; ow < s.ow(); ++ow) add_near_edge(ow);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t) at.store(out + t * s.c + c, add(zero(), sums[t]));
  });
}

// Computes all taps over some output rows of one image for the channels: out[tap][c].
inline void depthwise_wgrad_block(const ConvShape& s, const Range& channels, const float* image,
                                  const float* dy, const Range& output_rows, const float* zeros,
                                  float* out) {
  if (is_3x3(s)) return wgrad_block_3x3(s, channels, image, dy, output_rows, zeros, out);
  for (std::int64_t kh = 0; kh < s.kh; ++kh, out += s.kw * s.c) {
    if (s.kw == 5) {
      depthwise_wgrad_row<5>(s, channels, image, dy, output_rows, kh, out);
    } else if (s.kw == 7) {
      depthwise_wgrad_row<7>(s, channels, image, dy, output_rows, kh, out);
    } else {
      for (std::int64_t kw = 0; kw < s.kw; ++kw)
        depthwise_wgrad_tap(s, channels, image, dy, output_rows, kh, kw, out + kw * s.c);
    }
  }
}

// Sums `rows` rows of `cols` floats in place into row 0, for the columns [begin, end): runs of 64,
// each a chain that starts from its first element, until one row remains.
inline void sum_blocks(std::int64_t rows, std::int64_t cols, const Range& columns, float* p) {
  while (rows > 1) {
    const std::int64_t runs = ceil_div(rows, kColumnRun);
    for (std::int64_t run = 0; run < runs; ++run) {
      const std::int64_t first = run * kColumnRun, last = smaller(rows, first + kColumnRun);
      float* to = p + run * cols + columns.begin;
      const float* from = p + columns.begin;
      for_vectors(columns.size(), [&](std::int64_t c, auto at) {
        Vec sum = at.load(from + first * cols + c);
        for (std::int64_t r = first + 1; r < last; ++r) {
          sum = add(sum, at.load(from + r * cols + c));
        }
        at.store(to + c, sum);
      });
    }
    rows = runs;
  }
}

inline void depthwise_wgrad(const ConvShape& s, std::int64_t oc_begin, std::int64_t oc_end,
                            const float* x, const float* dy, float* dw, float* ws) {
  const std::int64_t rows = depthwise_block_rows(s), cols = taps(s) * s.c;
  const Range channels{oc_begin, oc_end};
  float* zeros = ws + depthwise_partial_floats(s);
  zero_floats(zeros, depthwise_zeros(s));
  float* block = ws;  // [block][kh][kw][c], blocks ordered (n, first row)
  for (std::int64_t n = 0; n < s.n; ++n, x += s.h * s.w * s.c, dy += s.oh() * s.ow() * s.c) {
    for (std::int64_t oh = 0; oh < s.oh(); oh += rows, block += cols) {
      depthwise_wgrad_block(s, channels, x, dy, {oh, smaller(s.oh(), oh + rows)}, zeros, block);
    }
  }
  for (std::int64_t t = 0; t < taps(s); ++t) {
    sum_blocks(depthwise_blocks(s), cols, {t * s.c + oc_begin, t * s.c + oc_end}, ws);
  }
  for (std::int64_t c = oc_begin; c < oc_end; ++c) {
    for (std::int64_t t = 0; t < taps(s); ++t) dw[c * taps(s) + t] = ws[t * s.c + c];
  }
}

}  // namespace
}  // namespace es::gpu
