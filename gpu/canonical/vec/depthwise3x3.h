#pragma once
// Depthwise convolution with a 3x3 filter, padding 1 and stride 1 or 2. A vector of channels moves
// along a row of pixels with its window, 3x3 vectors, in registers. Rows and columns outside the
// image are +0. A product with +0 changes at most the sign of a partial sum that is zero, and the
// last addition to +0 removes this difference.
#include "gpu/canonical/shapes.h"
#include "gpu/canonical/vec/stage.h"

namespace es::gpu {
namespace {

inline bool is_3x3(const ConvShape& s) {
  return s.kh == 3 && s.kw == 3 && s.pad == 1 && s.stride <= 2;
}

// The three rows of pixels that a row of results reads, from the top, at column 0. Rows outside the
// image are a row of zeros.
struct ThreeRows {
  const float* row[3];
};

// Returns the rows `first`, first + step, first + 2 * step of an image of `height` rows.
inline ThreeRows three_rows(const float* image, std::int64_t row_floats, std::int64_t height,
                            std::int64_t first, std::int64_t step, const float* zeros) {
  ThreeRows rows;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t row = first + i * step;
    rows.row[i] = row >= 0 && row < height ? image + row * row_floats : zeros;
  }
  return rows;
}

// One column of three rows.
struct Column {
  Vec v[3];
};
inline Column zero_column() {
  return {{zero(), zero(), zero()}};
}
template <class Access>
inline __attribute__((always_inline)) Column load_column(const ThreeRows& rows, std::int64_t at,
                                                         Access access) {
  return {{access.load(rows.row[0] + at), access.load(rows.row[1] + at),
           access.load(rows.row[2] + at)}};
}

struct Filter {
  Vec tap[9];
};
template <class Access>
inline __attribute__((always_inline)) Filter load_filter(const float* packed, std::int64_t c,
                                                         Access access) {
  Filter f;
#pragma GCC unroll 9
  for (int t = 0; t < 9; ++t) f.tap[t] = access.load(packed + t * c);
  return f;
}

// Returns the sum over a window of the columns a, b, c, in the order of the filter's taps.
inline __attribute__((always_inline)) Vec window_sum(const Filter& f, const Column& a,
                                                     const Column& b, const Column& c) {
  Vec sum = zero();
#pragma GCC unroll 3
  for (int kh = 0; kh < 3; ++kh) {
    sum = fma(a.v[kh], f.tap[kh * 3], sum);
    sum = fma(b.v[kh], f.tap[kh * 3 + 1], sum);
    sum = fma(c.v[kh], f.tap[kh * 3 + 2], sum);
  }
  return add(zero(), sum);
}

// Computes one row of results for one vector of channels. kFlip: the columns of the filter meet the
// pixels from right to left (the data gradient with stride 1).
template <bool kFlip, class Store, class Access>
inline __attribute__((always_inline)) void walk_stride1(const ThreeRows& rows, const Filter& f,
                                                        std::int64_t width, std::int64_t c,
                                                        Access access, Store store_result) {
  // The three columns of the window rotate through the variables a, b and d, so no register is
  // copied.
  const auto step = [&](std::int64_t q, const Column& left, const Column& mid, Column& right) {
    right = q + 1 < width ? load_column(rows, (q + 1) * c, access) : zero_column();
    store_result(q, kFlip ? window_sum(f, right, mid, left) : window_sum(f, left, mid, right));
  };
  Column a = zero_column(), b = load_column(rows, 0, access), d = zero_column();
  std::int64_t q = 0;
  for (; q + 3 <= width; q += 3) {
    step(q, a, b, d);
    step(q + 1, b, d, a);
    step(q + 2, d, a, b);
  }
  if (q < width) step(q, a, b, d);
  if (q + 1 < width) step(q + 1, b, d, a);
}

template <class Store, class Access>
inline __attribute__((always_inline)) void walk_stride2(const ThreeRows& rows, const Filter& f,
                                                        std::int64_t width, std::int64_t results,
                                                        std::int64_t c, Access access,
                                                        Store store_result) {
  Column left = zero_column();
  for (std::int64_t q = 0; q < results; ++q) {
    const Column mid = load_column(rows, 2 * q * c, access);
    const Column right =
        2 * q + 1 < width ? load_column(rows, (2 * q + 1) * c, access) : zero_column();
    store_result(q, window_sum(f, left, mid, right));
    left = right;
  }
}

inline ThreeRows from_channel(const ThreeRows& rows, std::int64_t c) {
  return {{rows.row[0] + c, rows.row[1] + c, rows.row[2] + c}};
}

inline void fwd_row_3x3(const ConvShape& s, const ThreeRows& rows, const float* packed,
                        const float* bias, float* y) {
  for_vectors(s.c, [&](std::int64_t c, auto at) {
    const ThreeRows here = from_channel(rows, c);
    const Filter f = load_filter(packed + c, s.c, at);
    const Vec shift = bias != nullptr ? at.load(bias + c) : zero();
    const auto store_result = [&](std::int64_t q, Vec sum) {
      at.store(y + q * s.c + c, bias != nullptr ? add(sum, shift) : sum);
    };
    if (s.stride == 1) {
      walk_stride1<false>(here, f, s.w, s.c, at, store_result);
    } else {
      walk_stride2(here, f, s.w, s.ow(), s.c, at, store_result);
    }
  });
}

inline void depthwise_fwd_3x3(const ConvShape& s, const float* x, const float* packed,
                              const float* zeros, const float* bias, float* y) {
  for (std::int64_t n = 0; n < s.n; ++n, x += s.h * s.w * s.c) {
    for (std::int64_t oh = 0; oh < s.oh(); ++oh, y += s.ow() * s.c) {
      fwd_row_3x3(s, three_rows(x, s.w * s.c, s.h, oh * s.stride - 1, 1, zeros), packed, bias, y);
    }
  }
}

inline void dgrad_stride1_3x3(const ConvShape& s, const float* dy, const float* packed,
                              const float* zeros, float* dx) {
  for (std::int64_t n = 0; n < s.n; ++n, dy += s.h * s.w * s.c) {
    for (std::int64_t h = 0; h < s.h; ++h, dx += s.w * s.c) {
      const ThreeRows rows = three_rows(dy, s.w * s.c, s.h, h + 1, -1, zeros);
      for_vectors(s.c, [&](std::int64_t c, auto at) {
        walk_stride1<true>(from_channel(rows, c), load_filter(packed + c, s.c, at), s.w, s.c, at,
                           [&](std::int64_t q, Vec sum) { at.store(dx + q * s.c + c, sum); });
      });
    }
  }
}

// Stride 2: computes the rows 2i and 2i + 1 of dx from the rows i (`low`) and i + 1 (`high`) of dy.
// Every tap of the filter hits one of the four pixels of a 2x2 block. `odd` is nullptr if there is
// no row 2i + 1.
template <class Access>
inline __attribute__((always_inline)) void dgrad_row_pair(const ConvShape& s, const Filter& f,
                                                          const float* low, const float* high,
                                                          float* even, float* odd, Access at) {
  const std::int64_t c = s.c, outputs = s.ow();
  Vec g = at.load(low), h = at.load(high);
  for (std::int64_t j = 0, at_pixel = 0; j < outputs; ++j, at_pixel += 2 * c) {
    const bool has_next = j + 1 < outputs, has_right = 2 * j + 1 < s.w;
    const Vec next_g = has_next ? at.load(low + (j + 1) * c) : zero();
    const Vec next_h = has_next ? at.load(high + (j + 1) * c) : zero();
    const auto tap = [&](Vec v, int t, Vec sum) { return fma(v, f.tap[t], sum); };
    at.store(even + at_pixel, add(zero(), tap(g, 4, zero())));
    if (has_right) at.store(even + at_pixel + c, add(zero(), tap(g, 5, tap(next_g, 3, zero()))));
    if (odd != nullptr) {
      at.store(odd + at_pixel, add(zero(), tap(g, 7, tap(h, 1, zero()))));
      const Vec right = tap(h, 2, tap(next_h, 0, zero()));
      if (has_right) at.store(odd + at_pixel + c, add(zero(), tap(g, 8, tap(next_g, 6, right))));
    }
    g = next_g;
    h = next_h;
  }
}

inline void dgrad_stride2_3x3(const ConvShape& s, const float* dy, const float* packed,
                              const float* zeros, float* dx) {
  const std::int64_t from_row = s.ow() * s.c, to_row = s.w * s.c;
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t i = 0; i < s.oh(); ++i) {
      const float* low = dy + (n * s.oh() + i) * from_row;
      const float* high = i + 1 < s.oh() ? low + from_row : zeros;
      float* even = dx + (n * s.h + 2 * i) * to_row;
      float* odd = 2 * i + 1 < s.h ? even + to_row : nullptr;
      for_vectors(s.c, [&](std::int64_t c, auto at) {
        dgrad_row_pair(s, load_filter(packed + c, s.c, at), low + c, high + c, even + c,
                       odd == nullptr ? nullptr : odd + c, at);
      });
    }
  }
}

inline void depthwise_dgrad_3x3(const ConvShape& s, const float* dy, const float* packed,
                                const float* zeros, float* dx) {
  (s.stride == 1 ? dgrad_stride1_3x3 : dgrad_stride2_3x3)(s, dy, packed, zeros, dx);
}

// --- Weight gradient.

inline __attribute__((always_inline)) void add_products(Filter& f, Vec gradient, const Column& a,
                                                        const Column& b, const Column& c) {
#pragma GCC unroll 3
  for (int kh = 0; kh < 3; ++kh) {
    f.tap[kh * 3] = fma(gradient, a.v[kh], f.tap[kh * 3]);
    f.tap[kh * 3 + 1] = fma(gradient, b.v[kh], f.tap[kh * 3 + 1]);
    f.tap[kh * 3 + 2] = fma(gradient, c.v[kh], f.tap[kh * 3 + 2]);
  }
}

template <class Access>
inline __attribute__((always_inline)) void wgrad_row_stride1(const ThreeRows& rows, const float* dy,
                                                             std::int64_t width, std::int64_t c,
                                                             Access at, Filter& f) {
  const auto step = [&](std::int64_t q, const Column& left, const Column& mid, Column& right) {
    right = q + 1 < width ? load_column(rows, (q + 1) * c, at) : zero_column();
    add_products(f, at.load(dy + q * c), left, mid, right);
  };
  Column a = zero_column(), b = load_column(rows, 0, at), d = zero_column();
  std::int64_t q = 0;
  for (; q + 3 <= width; q += 3) {
    step(q, a, b, d);
    step(q + 1, b, d, a);
    step(q + 2, d, a, b);
  }
  if (q < width) step(q, a, b, d);
  if (q + 1 < width) step(q + 1, b, d, a);
}

template <class Access>
inline __attribute__((always_inline)) void wgrad_row_stride2(const ThreeRows& rows, const float* dy,
                                                             std::int64_t width,
                                                             std::int64_t outputs, std::int64_t c,
                                                             Access at, Filter& f) {
  Column left = zero_column();
  for (std::int64_t q = 0; q < outputs; ++q) {
    const Column mid = load_column(rows, 2 * q * c, at);
    const Column right = 2 * q + 1 < width ? load_column(rows, (2 * q + 1) * c, at) : zero_column();
    add_products(f, at.load(dy + q * c), left, mid, right);
    left = right;
  }
}

// Computes all taps over the output rows [oh0, oh1) of one image for the channels [begin, end):
// out[tap][c].
inline void wgrad_block_3x3(const ConvShape& s, const Range& channels, const float* image,
                            const float* dy, const Range& output_rows, const float* zeros,
                            float* out) {
  for_vectors(channels.size(), [&](std::int64_t i, auto at) {
    const std::int64_t c = channels.begin + i;
    Filter f;
    // Unrolled, because the compiler makes a loop fill memory, from which it then reads the taps.
#pragma GCC unroll 9
    for (int t = 0; t < 9; ++t) f.tap[t] = zero();
    for (std::int64_t oh = output_rows.begin; oh < output_rows.end; ++oh) {
      const ThreeRows rows =
          from_channel(three_rows(image, s.w * s.c, s.h, oh * s.stride - 1, 1, zeros), c);
      const float* gradient = dy + oh * s.ow() * s.c + c;
      if (s.stride == 1) {
        wgrad_row_stride1(rows, gradient, s.w, s.c, at, f);
      } else {
        wgrad_row_stride2(rows, gradient, s.w, s.ow(), s.c, at, f);
      }
    }
#pragma GCC unroll 9
    for (int t = 0; t < 9; ++t) at.store(out + t * s.c + c, add(zero(), f.tap[t]));
  });
}

}  // namespace
}  // namespace es::gpu
