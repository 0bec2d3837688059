// Pooling and the gradient of upsampling, with a thread for each output cell and pack of channels.
#include "gpu/canonical/shapes.h"
#include "gpu/cuda/kernels/cells.h"
#include "gpu/cuda/kernels/columns.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

template <int kWidth>
struct alignas(kWidth) Bytes {
  std::uint8_t v[kWidth];
};

// The image, row and column of a cell in images of one size.
struct Place {
  std::int64_t image, row, col;
};
ES_HD inline Place place_of(std::uint32_t cell, std::int64_t h, std::int64_t w) {
  const auto width = static_cast<std::uint32_t>(w), height = static_cast<std::uint32_t>(h);
  const std::uint32_t line = cell / width;
  return {line / height, line % height, cell % width};
}

// --- Maximum.
struct MaxPoolForward {
  PoolShape s;
  std::int64_t oh, ow;
  const float* x;
  float* y;
  std::uint8_t* argmax;

  template <int kWidth>
  ES_HD void run(std::uint32_t window, std::uint32_t channel) const {
    const Place place = place_of(window, oh, ow);
    const PoolWindow at = pool_window(s, place.image, place.row, place.col);
    Pack<kWidth> best = {};
    Bytes<kWidth> winner = {};
    for (std::int64_t kh = at.kh0; kh < at.kh1; ++kh) {
      for (std::int64_t kw = at.kw0; kw < at.kw1; ++kw) {
        const bool first = kh == at.kh0 && kw == at.kw0;
        const auto v = load_pack<kWidth>(x + at.cell(s, kh, kw) + channel);
        ES_UNROLL
        for (int j = 0; j < kWidth; ++j) {
          if (!first && !takes_over(best.v[j], v.v[j])) continue;
          best.v[j] = v.v[j];
          winner.v[j] = static_cast<std::uint8_t>(kh * s.kw + kw);
        }
      }
    }
    const std::int64_t to = static_cast<std::int64_t>(window) * s.c + channel;
    store_pack(y + to, best);
    *reinterpret_cast<Bytes<kWidth>*>(argmax + to) = winner;
  }
};

void max_pool_fwd(Stream stream, const PoolShape& s, const float* x, float* y,
                  std::uint8_t* argmax) {
  const std::int64_t oh = s.oh(), ow = s.ow();
  for_cells(stream, s.n * oh * ow, s.c, MaxPoolForward{s, oh, ow, x, y, argmax}, x, y, argmax);
}

// Computes the chain over the windows that contain a cell of x, in their order, and stores it in
// dx: add(cover, oh, ow, from, sum) is called with `from`, the offset of the window's dy.
template <int kWidth, class Add>
ES_HD inline void sum_windows(const PoolShape& s, std::uint32_t cell, std::uint32_t channel,
                              float* dx, Add add) {
  const Place at = place_of(cell, s.h, s.w);
  const PoolCover cover = pool_cover(s, at.image, at.row, at.col);
  Pack<kWidth> sum = {};
  for (std::int64_t oh = cover.oh0; oh < cover.oh1; ++oh) {
    for (std::int64_t ow = cover.ow0; ow < cover.ow1; ++ow)
      add(cover, oh, ow, cover.window(s, oh, ow) * s.c + channel, sum);
  }
  store_pack(dx + static_cast<std::int64_t>(cell) * s.c + channel, sum);
}

struct MaxPoolBackward {
  PoolShape s;
  const float* dy;
  const std::uint8_t* argmax;
  float* dx;

  template <int kWidth>
  ES_HD void run(std::uint32_t cell, std::uint32_t channel) const {
    sum_windows<kWidth>(s, cell, channel, dx,
                        [&](const PoolCover& cover, std::int64_t oh, std::int64_t ow,
                            std::int64_t from, Pack<kWidth>& sum) {
                          const std::int64_t tap = cover.tap(s, oh, ow);
                          const auto winner =
                              *reinterpret_cast<const Bytes<kWidth>*>(argmax + from);
                          const auto v = load_pack<kWidth>(dy + from);
                          ES_UNROLL
                          for (int j = 0; j < kWidth; ++j) {
                            // A window that another cell has won adds nothing. Adding +0 would give
                            // the same bits, since the sum began with +0.
                            if (winner.v[j] == tap) sum.v[j] = sum.v[j] + v.v[j];
                          }
                        });
  }
};

void max_pool_bwd(Stream stream, const PoolShape& s, const float* dy, const std::uint8_t* argmax,
                  float* dx) {
  for_cells(stream, s.n * s.h * s.w, s.c, MaxPoolBackward{s, dy, argmax, dx}, dy, argmax, dx);
}

// --- Averages.
//
// sum += v * share.
template <int kWidth>
ES_HD inline void add_share(Pack<kWidth>& sum, const Pack<kWidth>& v, float share) {
  ES_UNROLL
  for (int j = 0; j < kWidth; ++j) sum.v[j] = sum.v[j] + v.v[j] * share;
}
// Returns the chain of additions over a rectangle of cells of an image [h][w][c], times
// recip(cells).
template <int kWidth>
ES_HD inline Pack<kWidth> mean_of(const AdaptiveRange& rows, const AdaptiveRange& cols,
                                  std::int64_t w, std::int64_t c, const float* image) {
  Pack<kWidth> sum = {};
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t col = cols.begin; col < cols.end; ++col) {
      const auto v = load_pack<kWidth>(image + (row * w + col) * c);
      ES_UNROLL
      for (int j = 0; j < kWidth; ++j) sum.v[j] = sum.v[j] + v.v[j];
    }
  }
  const float share = recip((rows.end - rows.begin) * (cols.end - cols.begin));
  ES_UNROLL
  for (int j = 0; j < kWidth; ++j) sum.v[j] = sum.v[j] * share;
  return sum;
}

struct AvgPoolForward {
  PoolShape s;
  std::int64_t oh, ow;
  const float* x;
  float* y;

  template <int kWidth>
  ES_HD void run(std::uint32_t window, std::uint32_t channel) const {
    const Place place = place_of(window, oh, ow);
    const PoolWindow at = pool_window(s, place.image, place.row, place.col);
    const float* const image = x + at.n * s.h * s.w * s.c + channel;
    store_pack(y + static_cast<std::int64_t>(window) * s.c + channel,
               mean_of<kWidth>({at.top + at.kh0, at.top + at.kh1},
                               {at.left + at.kw0, at.left + at.kw1}, s.w, s.c, image));
  }
};

void avg_pool_fwd(Stream stream, const PoolShape& s, const float* x, float* y) {
  const std::int64_t oh = s.oh(), ow = s.ow();
  for_cells(stream, s.n * oh * ow, s.c, AvgPoolForward{s, oh, ow, x, y}, x, y);
}

struct AvgPoolBackward {
  PoolShape s;
  const float* dy;
  float* dx;

  template <int kWidth>
  ES_HD void run(std::uint32_t cell, std::uint32_t channel) const {
    sum_windows<kWidth>(s, cell, channel, dx,
                        [&](const PoolCover&, std::int64_t oh, std::int64_t ow, std::int64_t from,
                            Pack<kWidth>& sum) {
                          add_share(sum, load_pack<kWidth>(dy + from),
                                    recip(pool_window(s, 0, oh, ow).cells()));
                        });
  }
};

void avg_pool_bwd(Stream stream, const PoolShape& s, const float* dy, float* dx) {
  for_cells(stream, s.n * s.h * s.w, s.c, AvgPoolBackward{s, dy, dx}, dy, dx);
}

std::size_t global_avg_pool_workspace_floats(std::int64_t n, std::int64_t hw, std::int64_t c) {
  return static_cast<std::size_t>(n * level_rows(hw) * c);
}

void global_avg_pool_fwd(Stream stream, std::int64_t n, std::int64_t hw, std::int64_t c,
                         const float* x, float* y, float* ws) {
  sum_columns(stream, n, hw, c, recip(hw), x, y, ws);
}

struct GlobalAvgPoolBackward {
  std::int64_t hw, c;
  const float* dy;
  float* dx;

  template <int kWidth>
  ES_HD void run(std::uint32_t cell, std::uint32_t channel) const {
    const std::int64_t image = cell / static_cast<std::uint32_t>(hw);
    auto v = load_pack<kWidth>(dy + image * c + channel);
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) v.v[j] = v.v[j] * recip(hw);
    store_pack(dx + static_cast<std::int64_t>(cell) * c + channel, v);
  }
};

void global_avg_pool_bwd(Stream stream, std::int64_t n, std::int64_t hw, std::int64_t c,
                         const float* dy, float* dx) {
  for_cells(stream, n * hw, c, GlobalAvgPoolBackward{hw, c, dy, dx}, dy, dx);
}

struct AdaptiveForward {
  AdaptivePoolShape s;
  const float* x;
  float* y;

  template <int kWidth>
  ES_HD void run(std::uint32_t cell, std::uint32_t channel) const {
    const Place at = place_of(cell, s.oh, s.ow);
    const float* const image = x + at.image * s.h * s.w * s.c + channel;
    store_pack(y + static_cast<std::int64_t>(cell) * s.c + channel,
               mean_of<kWidth>(adaptive_range(s.h, s.oh, at.row), adaptive_range(s.w, s.ow, at.col),
                               s.w, s.c, image));
  }
};

void adaptive_avg_pool_fwd(Stream stream, const AdaptivePoolShape& s, const float* x, float* y) {
  for_cells(stream, s.n * s.oh * s.ow, s.c, AdaptiveForward{s, x, y}, x, y);
}

struct AdaptiveBackward {
  AdaptivePoolShape s;
  const float* dy;
  float* dx;

  template <int kWidth>
  ES_HD void run(std::uint32_t cell, std::uint32_t channel) const {
    const Place at = place_of(cell, s.h, s.w);
    const float* const image = dy + at.image * s.oh * s.ow * s.c + channel;
    const AdaptiveRange rows = adaptive_cover(s.h, s.oh, at.row);
    const AdaptiveRange cols = adaptive_cover(s.w, s.ow, at.col);
    Pack<kWidth> sum = {};
    for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
      const AdaptiveRange h = adaptive_range(s.h, s.oh, oh);
      for (std::int64_t ow = cols.begin; ow < cols.end; ++ow) {
        const AdaptiveRange w = adaptive_range(s.w, s.ow, ow);
        add_share(sum, load_pack<kWidth>(image + (oh * s.ow + ow) * s.c),
                  recip((h.end - h.begin) * (w.end - w.begin)));
      }
    }
    store_pack(dx + static_cast<std::int64_t>(cell) * s.c + channel, sum);
  }
};

void adaptive_avg_pool_bwd(Stream stream, const AdaptivePoolShape& s, const float* dy, float* dx) {
  for_cells(stream, s.n * s.h * s.w, s.c, AdaptiveBackward{s, dy, dx}, dy, dx);
}

// --- The gradient of nearest-neighbour upsampling.
struct UpsampleBackward {
  std::int64_t w, c;
  const float* dy;
  float* dx;

  template <int kWidth>
  ES_HD void run(std::uint32_t cell, std::uint32_t channel) const {
    // Images and rows count as one dimension: two rows of dy belong to each row of dx.
    const std::uint32_t row = cell / static_cast<std::uint32_t>(w);
    const std::int64_t col = cell - row * w, line = 2 * w * c;
    const float* const from = dy + 2 * row * line + 2 * col * c + channel;
    const auto first = load_pack<kWidth>(from), second = load_pack<kWidth>(from + c);
    const auto third = load_pack<kWidth>(from + line), fourth = load_pack<kWidth>(from + line + c);
    Pack<kWidth> sum;
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      // The chain begins with +0, so four times -0 give +0.
      sum.v[j] = (((0.0f + first.v[j]) + second.v[j]) + third.v[j]) + fourth.v[j];
    }
    store_pack(dx + static_cast<std::int64_t>(cell) * c + channel, sum);
  }
};

void upsample2_bwd(Stream stream, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c,
                   const float* dy, float* dx) {
  for_cells(stream, n * h * w, c, UpsampleBackward{w, c, dy, dx}, dy, dx);
}

}  // namespace

void add_pool(DeviceKernels& kernels) {
  kernels.max_pool_fwd = max_pool_fwd;
  kernels.max_pool_bwd = max_pool_bwd;
  kernels.avg_pool_fwd = avg_pool_fwd;
  kernels.avg_pool_bwd = avg_pool_bwd;
  kernels.global_avg_pool_workspace_floats = global_avg_pool_workspace_floats;
  kernels.global_avg_pool_fwd = global_avg_pool_fwd;
  kernels.global_avg_pool_bwd = global_avg_pool_bwd;
  kernels.adaptive_avg_pool_fwd = adaptive_avg_pool_fwd;
  kernels.adaptive_avg_pool_bwd = adaptive_avg_pool_bwd;
  kernels.upsample2_bwd = upsample2_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
