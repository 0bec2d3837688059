// Depthwise convolution. A thread computes one channel, or four, of a pixel or of a tap of the
// weight gradient.
#include "gpu/cuda/kernels/depthwise.h"

#include "gpu/canonical/shapes.h"
#include "gpu/cuda/kernels/divider.h"
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/kernels/walk.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

struct Sizes {
  std::int32_t h, w, oh, ow, kh, kw, stride, pad;
  std::int64_t c;
};
Sizes sizes(const ConvShape& s) {
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  return {i32(s.h),  i32(s.w),      i32(s.oh()), i32(s.ow()), i32(s.kh),
          i32(s.kw), i32(s.stride), i32(s.pad),  s.c};
}

// Writes the weights [c][tap] as [tap][c], where neighbouring channels are one access.
struct WeightsByTap {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  const float* w;
  float* by_tap;
  std::int64_t weights;
  Divider channels;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= weights) return;
    const Divider::Parts tap = channels(static_cast<std::uint32_t>(i));
    const std::int64_t taps = weights / channels.divisor();
    by_tap[i] = w[tap.rest * taps + tap.quotient];
  }
};

const float* weights_by_tap(Stream stream, const ConvShape& s, const float* w, float* by_tap) {
  const WeightsByTap kernel{w, by_tap, taps(s) * s.c, Divider(s.c)};
  launch(stream, {.x = numbered_blocks_for<WeightsByTap>(kernel.weights, kMultipliedMax)}, kernel);
  return by_tap;
}

// Adds w[j] * x[j] to a chain, for kWidth neighbouring channels of a tap.
template <int kWidth>
ES_HD void add_tap(const float* x, const float* w, Pack<kWidth>& sum) {
  const Pack<kWidth> values = load_pack<kWidth>(x), weights = load_pack<kWidth>(w);
  ES_UNROLL
  for (int j = 0; j < kWidth; ++j) sum.v[j] = fma(values.v[j], weights.v[j], sum.v[j]);
}

// The packs of an image tensor [n][rows][cols][c]; there is a thread for each.
template <int kWidth>
struct PackGrid {
  std::int64_t packs = 0;
  Divider across, cols, rows;  // packs of a pixel, pixels of a row, rows of an image

  PackGrid(std::int64_t n, std::int64_t row_count, std::int64_t col_count, std::int64_t c)
      : packs(n * row_count * col_count * (c / kWidth)),
        across(c / kWidth),
        cols(col_count),
        rows(row_count) {}

  struct Place {
    std::int64_t image, channel;
    std::int32_t row, col;
  };
  ES_HD Place at(std::int64_t pack) const {
    const Divider::Parts pixel = across(static_cast<std::uint32_t>(pack)),
                         line = cols(pixel.quotient), image = rows(line.quotient);
    return {image.quotient, std::int64_t{pixel.rest} * kWidth,
            static_cast<std::int32_t>(image.rest), static_cast<std::int32_t>(line.rest)};
  }
};

// Computes y[n][oh][ow][c]; a thread has kWidth channels.
template <int kWidth>
struct Forward {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  const float *x, *w, *bias;  // w[tap][c]
  float* y;
  Sizes s;
  PackGrid<kWidth> grid;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= grid.packs) return;
    const auto at = grid.at(i);
    const std::int32_t top = at.row * s.stride - s.pad, left = at.col * s.stride - s.pad;
    const float* from = x + at.image * s.h * s.w * s.c + at.channel;
    const float* weights = w + at.channel;
    Pack<kWidth> sum{};
    for (std::int32_t kh = larger(0, -top); kh < s.kh && top + kh < s.h; ++kh) {
      for (std::int32_t kw = larger(0, -left); kw < s.kw && left + kw < s.w; ++kw) {
        add_tap(from + (std::int64_t{top + kh} * s.w + left + kw) * s.c,
                weights + (kh * s.kw + kw) * s.c, sum);
      }
    }
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      // DOT adds its only chunk to +0, which turns -0 into +0.
      sum.v[j] = 0.0f + sum.v[j];
      if (bias != nullptr) sum.v[j] = sum.v[j] + bias[at.channel + j];
    }
    store_pack(y + i * kWidth, sum);
  }
};

// Computes dx[n][h][w][c] from the taps whose output pixel exists, in the forward order.
template <int kWidth>
struct DataGradient {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  const float *dy, *w;  // w[tap][c]
  float* dx;
  Sizes s;
  PackGrid<kWidth> grid;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= grid.packs) return;
    const auto at = grid.at(i);
    const std::int32_t row = at.row + s.pad, col = at.col + s.pad;
    const float* from = dy + at.image * s.oh * s.ow * s.c + at.channel;
    const float* weights = w + at.channel;
    Pack<kWidth> sum{};
    // The first tap of the stride phase comes first, then every stride-th tap; the output pixels
    // descend.
    for (std::int32_t kh = row % s.stride; kh < s.kh && kh <= row; kh += s.stride) {
      const std::int32_t oh = (row - kh) / s.stride;
      if (oh >= s.oh) continue;
      for (std::int32_t kw = col % s.stride; kw < s.kw && kw <= col; kw += s.stride) {
        const std::int32_t ow = (col - kw) / s.stride;
        if (ow >= s.ow) continue;
        add_tap(from + (std::int64_t{oh} * s.ow + ow) * s.c, weights + (kh * s.kw + kw) * s.c, sum);
      }
    }
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) sum.v[j] = 0.0f + sum.v[j];
    store_pack(dx + i * kWidth, sum);
  }
};

// The output positions [begin, end) of [0, count) whose tap lies in the image, along one dimension.
struct Reached {
  std::int32_t begin, end;
};
ES_HD inline Reached reached(std::int32_t tap, std::int32_t pad, std::int32_t stride,
                             std::int32_t size, std::int32_t count) {
  const std::int32_t before = pad - tap, last = size - 1 + before;
  const std::int32_t end = last < 0 ? 0 : last / stride + 1;
  return {before > 0 ? (before + stride - 1) / stride : 0, end < count ? end : count};
}

// Computes one tap of one channel over one block of output rows of an image: a chain over the
// pixels whose tap lies in the image. The result is written to ws[block][tap][c].
struct WeightBlocks {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  const float *x, *dy;
  float* blocks;
  Sizes s;
  std::int64_t results;
  std::int32_t block_rows;
  Divider channels, taps, kernel_cols, per_image;  // c, kh * kw, kw, blocks of an image

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= results) return;
    const Divider::Parts channel = channels(static_cast<std::uint32_t>(i)),
                         tap = taps(channel.quotient), at = kernel_cols(tap.rest),
                         image = per_image(tap.quotient);
    const std::int32_t kh = static_cast<std::int32_t>(at.quotient),
                       kw = static_cast<std::int32_t>(at.rest);
    const std::int32_t first = static_cast<std::int32_t>(image.rest) * block_rows;
    const std::int32_t last = first + block_rows < s.oh ? first + block_rows : s.oh;
    const float* pixels = x + std::int64_t{image.quotient} * s.h * s.w * s.c + channel.rest;
    const float* gradients = dy + std::int64_t{image.quotient} * s.oh * s.ow * s.c + channel.rest;
    const Reached rows = reached(kh, s.pad, s.stride, s.h, last);
    const Reached cols = reached(kw, s.pad, s.stride, s.w, s.ow);
    struct Pair {
      float gradient, pixel;
    };
    float sum = 0.0f;
    for (std::int32_t oh = larger(first, rows.begin); oh < rows.end; ++oh) {
      const float* const row = pixels + std::int64_t{oh * s.stride + kh - s.pad} * s.w * s.c;
      const float* const line = gradients + std::int64_t{oh} * s.ow * s.c;
      walk_run<8>(
          cols.end - cols.begin,
          [&](std::int64_t r) {
            const std::int64_t ow = cols.begin + r;
            return Pair{line[ow * s.c], row[(ow * s.stride + kw - s.pad) * s.c]};
          },
          [&](const Pair& pair) { sum = fma(pair.gradient, pair.pixel, sum); });
    }
    blocks[i] = 0.0f + sum;
  }
};

// Sums runs of 64 rows [tap][c], each a chain from its first element. The last launch writes
// dw[c][tap].
struct SumRuns {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  const float* rows;
  float* out;
  std::int64_t row_count, results;
  Divider cols, channels;  // taps * c, the floats of a row; c
  bool last;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= results) return;
    const Divider::Parts run = cols(static_cast<std::uint32_t>(i));
    const std::int64_t first = std::int64_t{run.quotient} * kColumnRun;
    const std::int64_t end = smaller(row_count, first + kColumnRun);
    const float* p = rows + run.rest;
    float sum = p[first * cols.divisor()];
    walk_run<16>(
        end - first - 1, [&](std::int64_t row) { return p[(first + 1 + row) * cols.divisor()]; },
        [&](float value) { sum = sum + value; });
    const Divider::Parts tap = channels(run.rest);
    const std::uint32_t taps = cols.divisor() / channels.divisor();
    out[last ? std::int64_t{tap.rest} * taps + tap.quotient : i] = sum;
  }
};

}  // namespace

std::size_t depthwise_weights_floats(const ConvShape& s) {
  return static_cast<std::size_t>(taps(s) * s.c);
}

void depthwise_fwd(Stream stream, const ConvShape& s, const float* x, const float* w,
                   const float* bias, float* y, float* ws) {
  const float* const by_tap = weights_by_tap(stream, s, w, ws);
  with_pack_width(
      s.c,
      [&](auto width) {
        const Forward<width> kernel{x, by_tap, bias, y, sizes(s), {s.n, s.oh(), s.ow(), s.c}};
        launch(stream,
               {.x = numbered_blocks_for<Forward<width>>(kernel.grid.packs, kMultipliedMax)},
               kernel);
      },
      x, y, by_tap);
}

void depthwise_dgrad(Stream stream, const ConvShape& s, const float* dy, const float* w, float* dx,
                     float* ws) {
  const float* const by_tap = weights_by_tap(stream, s, w, ws);
  with_pack_width(
      s.c,
      [&](auto width) {
        const DataGradient<width> kernel{dy, by_tap, dx, sizes(s), {s.n, s.h, s.w, s.c}};
        launch(stream,
               {.x = numbered_blocks_for<DataGradient<width>>(kernel.grid.packs, kMultipliedMax)},
               kernel);
      },
      dy, dx, by_tap);
}

// The workspace has the block results and the sums of their runs. The two areas take turns as
// source and target.
std::size_t depthwise_wgrad_workspace_floats(const ConvShape& s) {
  const std::int64_t blocks = depthwise_blocks(s);
  return static_cast<std::size_t>((blocks + ceil_div(blocks, kColumnRun)) * taps(s) * s.c);
}

void depthwise_wgrad(Stream stream, const ConvShape& s, const float* x, const float* dy, float* dw,
                     float* ws) {
  const std::int64_t cols = taps(s) * s.c, rows = depthwise_block_rows(s);
  std::int64_t count = depthwise_blocks(s);
  const WeightBlocks blocks{x,
                            dy,
                            ws,
                            sizes(s),
                            count * cols,
                            static_cast<std::int32_t>(rows),
                            Divider(s.c),
                            Divider(taps(s)),
                            Divider(s.kw),
                            Divider(ceil_div(s.oh(), rows))};
  launch(stream, {.x = numbered_blocks_for<WeightBlocks>(blocks.results, kMultipliedMax)}, blocks);
  float *from = ws, *to = ws + count * cols;
  // There is at least one launch, because the last one also changes the order to dw[c][tap].
  for (bool last = false; !last; count = ceil_div(count, kColumnRun)) {
    last = count <= kColumnRun;
    const SumRuns sums{from,          last ? dw : to, count, ceil_div(count, kColumnRun) * cols,
                       Divider(cols), Divider(s.c),   last};
    launch(stream, {.x = numbered_blocks_for<SumRuns>(sums.results, kMultipliedMax)}, sums);
    float* const read = from;
    from = to;
    to = read;
  }
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
