#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/shapes.h"

namespace es::gpu::scalar {

void max_pool_fwd(const PoolShape& s, const float* x, float* y, std::uint8_t* argmax) {
  for (std::int64_t i = 0; i < s.n * s.oh() * s.ow(); ++i, y += s.c, argmax += s.c) {
    const PoolWindow window = pool_window(s, i);
    for (std::int64_t c = 0; c < s.c; ++c) {
      // The first value is taken without a comparison. Compared with a start value of -infinity, a
      // window that contains nothing but -infinity would have no winner.
      bool first = true;
      for (std::int64_t kh = window.kh0; kh < window.kh1; ++kh) {
        for (std::int64_t kw = window.kw0; kw < window.kw1; ++kw) {
          const float value = x[window.cell(s, kh, kw) + c];
          if (!first && !takes_over(y[c], value)) continue;
          first = false;
          y[c] = value;
          argmax[c] = static_cast<std::uint8_t>(kh * s.kw + kw);
        }
      }
    }
  }
}

void max_pool_bwd(const PoolShape& s, const float* dy, const std::uint8_t* argmax, float* dx) {
  for (std::int64_t i = 0; i < s.n * s.h * s.w; ++i, dx += s.c) {
    const PoolCover cover = pool_cover(s, i / s.w / s.h, i / s.w % s.h, i % s.w);
    for (std::int64_t c = 0; c < s.c; ++c) dx[c] = 0.0f;
    for (std::int64_t oh = cover.oh0; oh < cover.oh1; ++oh) {
      for (std::int64_t ow = cover.ow0; ow < cover.ow1; ++ow) {
        const std::int64_t window = cover.window(s, oh, ow), tap = cover.tap(s, oh, ow);
        for (std::int64_t c = 0; c < s.c; ++c) {
          // The windows that contain the cell are visited in ascending order, which is the order of
          // the sum. The loop goes over cells of dx and not over windows, so no two threads write
          // the same cell.
          if (argmax[window * s.c + c] == tap) dx[c] = dx[c] + dy[window * s.c + c];
        }
      }
    }
  }
}

void avg_pool_fwd(const PoolShape& s, const float* x, float* y) {
  for (std::int64_t i = 0; i < s.n * s.oh() * s.ow(); ++i, y += s.c) {
    const PoolWindow window = pool_window(s, i);
    for (std::int64_t c = 0; c < s.c; ++c) y[c] = 0.0f;
    for (std::int64_t kh = window.kh0; kh < window.kh1; ++kh) {
      for (std::int64_t kw = window.kw0; kw < window.kw1; ++kw) {
        const float* cell = x + window.cell(s, kh, kw);
        for (std::int64_t c = 0; c < s.c; ++c) y[c] = y[c] + cell[c];
      }
    }
    for (std::int64_t c = 0; c < s.c; ++c) y[c] = y[c] * recip(window.cells());
  }
}

void avg_pool_bwd(const PoolShape& s, const float* dy, float* dx) {
  for (std::int64_t i = 0; i < s.n * s.h * s.w; ++i, dx += s.c) {
    const PoolCover cover = pool_cover(s, i / s.w / s.h, i / s.w % s.h, i % s.w);
    for (std::int64_t c = 0; c < s.c; ++c) dx[c] = 0.0f;
    for (std::int64_t oh = cover.oh0; oh < cover.oh1; ++oh) {
      for (std::int64_t ow = cover.ow0; ow < cover.ow1; ++ow) {
        const std::int64_t window = cover.window(s, oh, ow);
        // At the border a window may have fewer cells, so each window has a share of its own.
        const float share = recip(pool_window(s, window).cells());
        for (std::int64_t c = 0; c < s.c; ++c) dx[c] = dx[c] + dy[window * s.c + c] * share;
      }
    }
  }
}

std::size_t global_avg_pool_workspace_floats(std::int64_t hw, std::int64_t c) {
  return colsum_workspace_floats(hw, c);
}

void global_avg_pool_fwd(std::int64_t n, std::int64_t hw, std::int64_t c, const float* x, float* y,
                         float* ws) {
  for (std::int64_t i = 0; i < n; ++i, y += c) {
    // The pixels of an image are the rows of a COLSUM.
    colsum_runs(hw, c, {0, run_count(hw), 0, c}, x + i * hw * c, ws);
    colsum_finish(hw, c, 0, c, ws, y);
    for (std::int64_t j = 0; j < c; ++j) y[j] = y[j] * recip(hw);
  }
}

void global_avg_pool_bwd(std::int64_t n, std::int64_t hw, std::int64_t c, const float* dy,
                         float* dx) {
  for (std::int64_t i = 0; i < n; ++i, dy += c) {
    for (std::int64_t r = 0; r < hw; ++r, dx += c) {
      for (std::int64_t j = 0; j < c; ++j) dx[j] = dy[j] * recip(hw);
    }
  }
}

void adaptive_avg_pool_fwd(const AdaptivePoolShape& s, const float* x, float* y) {
  for (std::int64_t i = 0; i < s.n * s.oh * s.ow; ++i, y += s.c) {
    const float* image = x + i / (s.oh * s.ow) * s.h * s.w * s.c;
    const AdaptiveRange rows = adaptive_range(s.h, s.oh, i / s.ow % s.oh);
    const AdaptiveRange cols = adaptive_range(s.w, s.ow, i % s.ow);
    for (std::int64_t c = 0; c < s.c; ++c) y[c] = 0.0f;
    for (std::int64_t h = rows.begin; h < rows.end; ++h) {
      for (std::int64_t w = cols.begin; w < cols.end; ++w) {
        const float* cell = image + (h * s.w + w) * s.c;
        for (std::int64_t c = 0; c < s.c; ++c) y[c] = y[c] + cell[c];
      }
    }
    const float share = recip((rows.end - rows.begin) * (cols.end - cols.begin));
    // The sum is multiplied by recip(n) and not divided by n, as everywhere in the canonical
    // arithmetic.
    for (std::int64_t c = 0; c < s.c; ++c) y[c] = y[c] * share;
  }
}

void adaptive_avg_pool_bwd(const AdaptivePoolShape& s, const float* dy, float* dx) {
  for (std::int64_t i = 0; i < s.n * s.h * s.w; ++i, dx += s.c) {
    const float* image = dy + i / (s.h * s.w) * s.oh * s.ow * s.c;
    const AdaptiveRange rows = adaptive_cover(s.h, s.oh, i / s.w % s.h);
    const AdaptiveRange cols = adaptive_cover(s.w, s.ow, i % s.w);
    for (std::int64_t c = 0; c < s.c; ++c) dx[c] = 0.0f;
    for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
      const AdaptiveRange h = adaptive_range(s.h, s.oh, oh);
      for (std::int64_t ow = cols.begin; ow < cols.end; ++ow) {
        const AdaptiveRange w = adaptive_range(s.w, s.ow, ow);
        const float share = recip((h.end - h.begin) * (w.end - w.begin));
        const float* gradient = image + (oh * s.ow + ow) * s.c;
        for (std::int64_t c = 0; c < s.c; ++c) dx[c] = dx[c] + gradient[c] * share;
      }
    }
  }
}

}  // namespace es::gpu::scalar
