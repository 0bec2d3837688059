#pragma once
// Depthwise convolution: k = (kh, kw), padding taps do not take part. Vectors run over channels.
#include "gpu/canonical/shapes.h"
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

// [kh][kw][c]
inline void depthwise_pack(const ConvShape& s, const float* w, float* packed) {
  for (std::int64_t t = 0; t < taps(s); ++t) {
    for (std::int64_t c = 0; c < s.c; ++c) *packed++ = w[c * taps(s) + t];
  }
}

// Taps [begin, end) of a filter side of `size` that lie in [0, extent) for an origin.
struct TapRange {
  std::int64_t begin, end;
};
inline TapRange taps_inside(std::int64_t origin, std::int64_t size, std::int64_t extent) {
  return {larger(0, -origin), smaller(size, extent - origin)};
}

inline void depthwise_fwd_pixel(const ConvShape& s, const float* image, const float* packed,
                                const float* bias, std::int64_t top, std::int64_t left, float* y) {
  const TapRange rows = taps_inside(top, s.kh, s.h), cols = taps_inside(left, s.kw, s.w);
  for_columns<2>(s.c, [&](std::int64_t c, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    Vec sum[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = zero();
    for (std::int64_t kh = rows.begin; kh < rows.end; ++kh) {
      for (std::int64_t kw = cols.begin; kw < cols.end; ++kw) {
        const float* pixel = image + ((top + kh) * s.w + left + kw) * s.c + c;
        const float* weight = packed + (kh * s.kw + kw) * s.c + c;
        for (int v = 0; v < kVecs; ++v) {
          sum[v] = fused(at.load(pixel + v * kWidth), at.load(weight + v * kWidth), sum[v]);
        }
      }
    }
    for (int v = 0; v < kVecs; ++v) {
      const Vec result = bias != nullptr ? add(sum[v], at.load(bias + c + v * kWidth)) : sum[v];
      at.store(y + c + v * kWidth, result);
    }
  });
}

inline void depthwise_fwd(const ConvShape& s, const float* x, const float* packed,
                          const float* bias, float* y) {
  for (std::int64_t n = 0; n < s.n; ++n) {
    const float* image = x + n * s.h * s.w * s.c;
    for (std::int64_t oh = 0; oh < s.oh(); ++oh) {
      for (std::int64_t ow = 0; ow < s.ow(); ++ow, y += s.c) {
        depthwise_fwd_pixel(s, image, packed, bias, oh * s.stride - s.pad, ow * s.stride - s.pad,
                            y);
      }
    }
  }
}

// Taps that hit an output, ascending: tap, tap + stride, ... < end; the first one hits `output`,
// each next one the output before.
struct HittingTaps {
  std::int64_t tap, end, output;
};
inline HittingTaps taps_hitting(std::int64_t at, std::int64_t size, std::int64_t stride,
                                std::int64_t outputs) {
  // Taps before at - (outputs - 1) * stride lie beyond the last output.
  const std::int64_t tap = larger(at % stride, at - (outputs - 1) * stride);
  return {tap, smaller(size, at + 1), (at - tap) / stride};
}

inline void depthwise_dgrad_pixel(const ConvShape& s, const float* dy, const float* packed,
                                  std::int64_t row, std::int64_t col, float* dx) {
  const HittingTaps rows = taps_hitting(row, s.kh, s.stride, s.oh());
  const HittingTaps cols = taps_hitting(col, s.kw, s.stride, s.ow());
  const std::int64_t row_floats = s.ow() * s.c;
  for_columns<2>(s.c, [&](std::int64_t c, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    Vec sum[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = zero();
    const float* gradient_row = dy + rows.output * row_floats + cols.output * s.c + c;
    for (std::int64_t kh = rows.tap; kh < rows.end; kh += s.stride, gradient_row -= row_floats) {
      const float* gradient = gradient_row;
      for (std::int64_t kw = cols.tap; kw < cols.end; kw += s.stride, gradient -= s.c) {
        const float* weight = packed + (kh * s.kw + kw) * s.c + c;
        for (int v = 0; v < kVecs; ++v) {
          sum[v] = fused(at.load(gradient + v * kWidth), at.load(weight + v * kWidth), sum[v]);
        }
      }
    }
    for (int v = 0; v < kVecs; ++v) at.store(dx + c + v * kWidth, sum[v]);
  });
}

inline void depthwise_dgrad(const ConvShape& s, const float* dy, const float* packed, float* dx) {
  for (std::int64_t n = 0; n < s.n; ++n, dy += s.oh() * s.ow() * s.c) {
    for (std::int64_t h = 0; h < s.h; ++h) {
      for (std::int64_t w = 0; w < s.w; ++w, dx += s.c) {
        depthwise_dgrad_pixel(s, dy, packed, h + s.pad, w + s.pad, dx);
      }
    }
  }
}

inline std::size_t depthwise_wgrad_workspace_floats(const ConvShape& s) {
  return static_cast<std::size_t>(depthwise_blocks(s) * taps(s) * s.c);
}

// Output positions [begin, end) whose tap k lies in [0, extent).
inline TapRange outputs_inside(std::int64_t k, std::int64_t pad, std::int64_t stride,
                               std::int64_t extent, std::int64_t outputs) {
  const std::int64_t begin = k < pad ? ceil_div(pad - k, stride) : 0;
  const std::int64_t room = extent - 1 - k + pad;  // the last origin that is inside
  return {begin, room < 0 ? 0 : smaller(outputs, room / stride + 1)};
}

// One tap over output rows [oh0, oh1) of one image.
inline void depthwise_wgrad_block(const ConvShape& s, const float* image, const float* dy,
                                  std::int64_t oh0, std::int64_t oh1, std::int64_t kh,
                                  std::int64_t kw, float* out) {
  const TapRange rows = outputs_inside(kh, s.pad, s.stride, s.h, s.oh());
  const TapRange cols = outputs_inside(kw, s.pad, s.stride, s.w, s.ow());
  for_columns<4>(s.c, [&](std::int64_t c, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    Vec sum[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = zero();
    for (std::int64_t oh = larger(oh0, rows.begin); oh < smaller(oh1, rows.end); ++oh) {
      const float* row = image + (oh * s.stride + kh - s.pad) * s.w * s.c + c;
      for (std::int64_t ow = cols.begin; ow < cols.end; ++ow) {
        const float* gradient = dy + (oh * s.ow() + ow) * s.c + c;
        const float* pixel = row + (ow * s.stride + kw - s.pad) * s.c;
        for (int v = 0; v < kVecs; ++v) {
          sum[v] = fused(at.load(gradient + v * kWidth), at.load(pixel + v * kWidth), sum[v]);
        }
      }
    }
    for (int v = 0; v < kVecs; ++v) at.store(out + c + v * kWidth, sum[v]);
  });
}

// Sums `rows` rows in place into row 0: runs of 64, each a chain that starts from its first
// element, until one row remains.
inline void sum_blocks(std::int64_t rows, std::int64_t cols, float* p) {
  while (rows > 1) {
    const std::int64_t runs = ceil_div(rows, kColumnRun);
    for (std::int64_t run = 0; run < runs; ++run) {
      const std::int64_t first = run * kColumnRun, last = smaller(rows, first + kColumnRun);
      for_vectors(cols, [&](std::int64_t c, auto at) {
        Vec sum = at.load(p + first * cols + c);
        for (std::int64_t r = first + 1; r < last; ++r) sum = add(sum, at.load(p + r * cols + c));
        at.store(p + run * cols + c, sum);
      });
    }
    rows = runs;
  }
}

inline void depthwise_wgrad(const ConvShape& s, const float* x, const float* dy, float* dw,
                            float* ws) {
  const std::int64_t rows = depthwise_block_rows(s), cols = taps(s) * s.c;
  float* block = ws;  // [block][kh][kw][c], blocks ordered (n, first row)
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t oh = 0; oh < s.oh(); oh += rows, block += cols) {
      for (std::int64_t t = 0; t < taps(s); ++t) {
        depthwise_wgrad_block(s, x + n * s.h * s.w * s.c, dy + n * s.oh() * s.ow() * s.c, oh,
                              smaller(s.oh(), oh + rows), t / s.kw, t % s.kw, block + t * s.c);
      }
    }
  }
  sum_blocks(depthwise_blocks(s), cols, ws);
  for (std::int64_t c = 0; c < s.c; ++c) {
    for (std::int64_t t = 0; t < taps(s); ++t) *dw++ = ws[t * s.c + c];
  }
}

}  // namespace
}  // namespace es::gpu
