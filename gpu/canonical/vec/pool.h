#pragma once
// Pooling. Vectors run over channels.
#include "gpu/canonical/shapes.h"
#include "gpu/canonical/vec/lanes.h"
#include "gpu/canonical/vec/norm.h"

namespace es::gpu {
namespace {

// Converts `count` lanes to bytes, and back.
inline void store_bytes(std::uint8_t* p, IntVec v, std::int64_t count) {
  if (count == kWidth) return store_bytes(p, v);
  std::int32_t lanes[kWidth];
  store_ints(lanes, v);
  for (std::int64_t i = 0; i < count; ++i) p[i] = static_cast<std::uint8_t>(lanes[i]);
}
inline IntVec load_bytes(const std::uint8_t* p, std::int64_t count) {
  if (count == kWidth) return load_bytes(p);
  std::int32_t lanes[kWidth] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load_ints(lanes);
}

inline void max_pool_fwd(const PoolShape& s, const float* x, float* y, std::uint8_t* argmax) {
  for (std::int64_t i = 0; i < s.n * s.oh() * s.ow(); ++i, y += s.c, argmax += s.c) {
    const PoolWindow window = pool_window(s, i);
    const std::int64_t first = window.kh0 * s.kw + window.kw0;
    for_vectors(s.c, [&](std::int64_t c, auto at) {
      // The first cell is the winner to begin with and is compared with itself once, which changes
      // nothing.
      Vec best = at.load(x + window.cell(s, window.kh0, window.kw0) + c);
      IntVec winner = set_int(static_cast<std::int32_t>(first));
      for (std::int64_t kh = window.kh0; kh < window.kh1; ++kh) {
        for (std::int64_t kw = window.kw0; kw < window.kw1; ++kw) {
          const Vec value = at.load(x + window.cell(s, kh, kw) + c);
          const IntVec tap = set_int(static_cast<std::int32_t>(kh * s.kw + kw));
          const Test better = takes_over(best, value);
          winner = select(better, tap, winner);
          best = select(better, value, best);
        }
      }
      at.store(y + c, best);
      store_bytes(argmax + c, winner, at.count());
    });
  }
}

// Calls body(cover) for every input cell.
template <class Body>
inline __attribute__((always_inline)) void for_each_cell(const PoolShape& s, Body body) {
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t h = 0; h < s.h; ++h) {
      for (std::int64_t w = 0; w < s.w; ++w) body(pool_cover(s, n, h, w));
    }
  }
}

// Adds dy of one window to the cells that won it. A window that another cell won adds +0, which
// changes no sum that began with +0.
inline void add_won(std::int64_t channels, const float* dy, const std::uint8_t* argmax,
                    std::int64_t tap, bool first, float* dx) {
  const IntVec wanted = set_int(static_cast<std::int32_t>(tap));
  for_vectors(channels, [&](std::int64_t c, auto at) {
    const IntVec winner = load_bytes(argmax + c, at.count());
    const Vec sum = first ? zero() : at.load(dx + c);
    at.store(dx + c, add(sum, keep_if_equal(at.load(dy + c), winner, wanted)));
  });
}

inline void max_pool_bwd(const PoolShape& s, const float* dy, const std::uint8_t* argmax,
                         float* dx) {
  for_each_cell(s, [&](const PoolCover& cover) {
    bool first = true;
    for (std::int64_t oh = cover.oh0; oh < cover.oh1; ++oh) {
      for (std::int64_t ow = cover.ow0; ow < cover.ow1; ++ow, first = false) {
        const std::int64_t from = cover.window(s, oh, ow) * s.c;
        add_won(s.c, dy + from, argmax + from, cover.tap(s, oh, ow), first, dx);
      }
    }
    // No window contains this cell, for example if the stride is larger than the window.
    if (first) zero_floats(dx, s.c);
    dx += s.c;
  });
}

inline void avg_pool_fwd(const PoolShape& s, const float* x, float* y) {
  for (std::int64_t i = 0; i < s.n * s.oh() * s.ow(); ++i, y += s.c) {
    const PoolWindow window = pool_window(s, i);
    const Vec share = set(recip(window.cells()));
    for_vectors(s.c, [&](std::int64_t c, auto at) {
      Vec sum = zero();
      for (std::int64_t kh = window.kh0; kh < window.kh1; ++kh) {
        for (std::int64_t kw = window.kw0; kw < window.kw1; ++kw) {
          sum = add(sum, at.load(x + window.cell(s, kh, kw) + c));
        }
      }
      at.store(y + c, mul(sum, share));
    });
  }
}

inline void avg_pool_bwd(const PoolShape& s, const float* dy, float* dx) {
  for_each_cell(s, [&](const PoolCover& cover) {
    zero_floats(dx, s.c);
    for (std::int64_t oh = cover.oh0; oh < cover.oh1; ++oh) {
      for (std::int64_t ow = cover.ow0; ow < cover.ow1; ++ow) {
        const std::int64_t window = cover.window(s, oh, ow);
        const Vec share = set(recip(pool_window(s, window).cells()));
        for_vectors(s.c, [&](std::int64_t c, auto at) {
          const Vec part = mul(at.load(dy + window * s.c + c), share);
          at.store(dx + c, add(at.load(dx + c), part));
        });
      }
    }
    dx += s.c;
  });
}

inline std::size_t global_avg_pool_workspace_floats(std::int64_t hw, std::int64_t c) {
  return colsum_workspace_floats(hw, c);
}

inline void global_avg_pool_fwd(std::int64_t n, std::int64_t hw, std::int64_t c, const float* x,
                                float* y, float* ws) {
  const Vec share = set(recip(hw));
  for (std::int64_t i = 0; i < n; ++i, y += c) {
    colsum_runs(hw, c, {0, run_count(hw), 0, c}, x + i * hw * c, ws);
    colsum_finish(hw, c, 0, c, ws, y);
    for_vectors(c, [&](std::int64_t j, auto at) { at.store(y + j, mul(at.load(y + j), share)); });
  }
}

inline void global_avg_pool_bwd(std::int64_t n, std::int64_t hw, std::int64_t c, const float* dy,
                                float* dx) {
  const Vec share = set(recip(hw));
  for (std::int64_t i = 0; i < n * hw; ++i, dx += c) {
    const float* from = dy + i / hw * c;
    for_vectors(c,
                [&](std::int64_t j, auto at) { at.store(dx + j, mul(at.load(from + j), share)); });
  }
}

inline void adaptive_avg_pool_fwd(const AdaptivePoolShape& s, const float* x, float* y) {
  for (std::int64_t i = 0; i < s.n * s.oh * s.ow; ++i, y += s.c) {
    const float* image = x + i / (s.oh * s.ow) * s.h * s.w * s.c;
    const AdaptiveRange rows = adaptive_range(s.h, s.oh, i / s.ow % s.oh);
    const AdaptiveRange cols = adaptive_range(s.w, s.ow, i % s.ow);
    const Vec share = set(recip((rows.end - rows.begin) * (cols.end - cols.begin)));
    for_vectors(s.c, [&](std::int64_t c, auto at) {
      Vec sum = zero();
      for (std::int64_t h = rows.begin; h < rows.end; ++h) {
        for (std::int64_t w = cols.begin; w < cols.end; ++w) {
          sum = add(sum, at.load(image + (h * s.w + w) * s.c + c));
        }
      }
      at.store(y + c, mul(sum, share));
    });
  }
}

inline void adaptive_avg_pool_bwd(const AdaptivePoolShape& s, const float* dy, float* dx) {
  for (std::int64_t i = 0; i < s.n * s.h * s.w; ++i, dx += s.c) {
    const float* image = dy + i / (s.h * s.w) * s.oh * s.ow * s.c;
    const AdaptiveRange rows = adaptive_cover(s.h, s.oh, i / s.w % s.h);
    const AdaptiveRange cols = adaptive_cover(s.w, s.ow, i % s.w);
    zero_floats(dx, s.c);
    for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
      const AdaptiveRange h = adaptive_range(s.h, s.oh, oh);
      for (std::int64_t ow = cols.begin; ow < cols.end; ++ow) {
        const AdaptiveRange w = adaptive_range(s.w, s.ow, ow);
        const Vec share = set(recip((h.end - h.begin) * (w.end - w.begin)));
        const float* gradient = image + (oh * s.ow + ow) * s.c;
        for_vectors(s.c, [&](std::int64_t c, auto at) {
          at.store(dx + c, add(at.load(dx + c), mul(at.load(gradient + c), share)));
        });
      }
    }
  }
}

}  // namespace
}  // namespace es::gpu
