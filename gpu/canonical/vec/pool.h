#pragma once
// Vectors run over channels.
#include "gpu/canonical/shapes.h"
#include "gpu/canonical/vec/lanes.h"
#include "gpu/canonical/vec/norm.h"

namespace es::gpu {
namespace {

// `count` lanes as bytes, and back.
inline void store_bytes(std::uint8_t* p, IntVec v, std::int64_t count) {
  std::int32_t lanes[kWidth];
  store_ints(lanes, v);
  for (std::int64_t i = 0; i < count; ++i) p[i] = static_cast<std::uint8_t>(lanes[i]);
}
inline IntVec load_bytes(const std::uint8_t* p, std::int64_t count) {
  std::int32_t lanes[kWidth] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load_ints(lanes);
}

inline void max_pool_fwd(const PoolShape& s, const float* x, float* y, std::uint8_t* argmax) {
  for (std::int64_t i = 0; i < s.n * s.oh() * s.ow(); ++i, y += s.c, argmax += s.c) {
    const PoolWindow window = pool_window(s, i);
    const std::int64_t first = window.kh0 * s.kw + window.kw0;
    for_vectors(s.c, [&](std::int64_t c, auto at) {
      Vec best = at.load(x + window.cell(s, window.kh0, window.kw0) + c);
      IntVec winner = set_int(static_cast<std::int32_t>(first));
      for (std::int64_t kh = window.kh0; kh < window.kh1; ++kh) {
        for (std::int64_t kw = window.kw0; kw < window.kw1; ++kw) {
          const Vec value = at.load(x + window.cell(s, kh, kw) + c);
          const IntVec tap = set_int(static_cast<std::int32_t>(kh * s.kw + kw));
          winner = select_if_less(best, value, tap, winner);
          best = larger_of(best, value);
        }
      }
      at.store(y + c, best);
      store_bytes(argmax + c, winner, at.count());
    });
  }
}

inline void max_pool_bwd(const PoolShape& s, const float* dy, const std::uint8_t* argmax,
                         float* dx) {
  for (std::int64_t i = 0; i < s.n * s.h * s.w; ++i, dx += s.c) {
    const PoolCover cover = pool_cover(s, i);
    for_vectors(s.c, [&](std::int64_t c, auto at) {
      Vec sum = zero();
      for (std::int64_t oh = cover.oh0; oh < cover.oh1; ++oh) {
        for (std::int64_t ow = cover.ow0; ow < cover.ow1; ++ow) {
          const std::int64_t from = cover.window(s, oh, ow) * s.c + c;
          const IntVec tap = set_int(static_cast<std::int32_t>(cover.tap(s, oh, ow)));
          const IntVec winner = load_bytes(argmax + from, at.count());
          // A window that another cell won adds +0, which changes no sum that began with +0.
          sum = add(sum, keep_if_equal(at.load(dy + from), winner, tap));
        }
      }
      at.store(dx + c, sum);
    });
  }
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
  for (std::int64_t i = 0; i < s.n * s.h * s.w; ++i, dx += s.c) {
    const PoolCover cover = pool_cover(s, i);
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
  }
}

inline std::size_t global_avg_pool_workspace_floats(std::int64_t hw, std::int64_t c) {
  return colsum_workspace_floats(hw, c);
}

inline void global_avg_pool_fwd(std::int64_t n, std::int64_t hw, std::int64_t c, const float* x,
                                float* y, float* ws) {
  const Vec share = set(recip(hw));
  for (std::int64_t i = 0; i < n; ++i, y += c) {
    colsum(hw, c, x + i * hw * c, y, ws);
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

}  // namespace
}  // namespace es::gpu
