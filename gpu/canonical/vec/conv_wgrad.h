#pragma once
// The weight gradient of a convolution. Output channels are rows, and pixels are the k of both
// operands. Each tap reads, in place, the pixels for which it lies in the image. Windows of few
// channels are gathered instead.
#include "gpu/canonical/vec/conv.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kGatherColumns = 192;  // columns of a gathered block; a multiple of 32
// 16 more floats, so that rows do not share cache sets
constexpr std::int64_t kGatherStride = kGatherColumns + 16;
// Distance between the tiles of dy: two cache lines more than a tile, so that tiles do not share
// cache sets.
constexpr std::int64_t kTileStep = kTileRows * kDotChunk + 2 * kLineFloats;
// With so few channels the vectors of a tap would not be full, so windows are gathered.
constexpr std::int64_t kFewChannels = 16;

// The channels [begin, end) of a group, whose window is `window`.
struct WgradRows {
  std::int64_t begin, end;
  Window window;
};

// One chunk of pixels.
struct PixelChunk {
  std::int64_t k, depth;
};

inline bool reads_in_place(const ConvShape& s) {
  return group_c(s) > kFewChannels;
}

// Largest number of tiles for any range of channels of a group.
inline std::int64_t wgrad_tiles(const ConvShape& s) {
  return ceil_div(group_oc(s), kTileRows) + 1;
}

// Workspace: dy of one chunk in tiles, then the other operand if it is not read in place.
inline std::size_t conv_wgrad_workspace_floats(const ConvShape& s) {
  if (is_depthwise(s)) return depthwise_wgrad_workspace_floats(s);
  return static_cast<std::size_t>(wgrad_tiles(s) * kTileStep +
                                  (reads_in_place(s) ? 0 : kDotChunk * kGatherStride));
}

// Writes dy of a chunk into tiles by columns. Rows of dy are read completely.
inline void pack_dy(const ConvShape& s, const WgradRows& rows, const PixelChunk& chunk,
                    const float* dy, float* tiles) {
  const Part whole(kTileRows);  // kTileRows < kWidth
  for (std::int64_t k = 0; k < chunk.depth; ++k) {
    const float* from = dy + (chunk.k + k) * s.oc + rows.begin;
    float* to = tiles + k * kTileRows;
    for (std::int64_t left = rows.end - rows.begin; left > 0;) {
      const std::int64_t count = next_tile_rows(left);
      if (count == kTileRows) {
        whole.store(to, whole.load(from));
      } else {
        const Part part(count);
        part.store(to, part.load(from));
      }
      from += count;
      to += kTileStep;
      left -= count;
    }
  }
}

// A chunk of pixels as the second operand: rows of `columns` floats that begin at filter column
// `column`. Within a run the pixels are `stride` floats apart.
struct RightOperand {
  const float* b;
  std::int64_t stride, column, columns;
  const Run* runs;
  std::int64_t run_count;
};

inline void multiply_chunk(const ConvShape& s, const WgradRows& rows, const PixelChunk& chunk,
                           const float* tiles, const RightOperand& right, float* dw) {
  const std::int64_t filter_floats = taps(s) * group_c(s);
  float* row = dw + rows.begin * filter_floats + right.column;
  float* out[kTileRows];
  for (std::int64_t left = rows.end - rows.begin; left > 0;) {
    const std::int64_t count = next_tile_rows(left);
    for (std::int64_t r = 0; r < count; ++r, row += filter_floats) out[r] = row;
    for (std::int64_t j = 0; j < right.columns; j += kPanelWidth) {
      run_tile<ALayout::kColumns>(count, {.a_rows = nullptr,
                                          .a = tiles,
                                          .b = right.b + j,
                                          .b_stride = right.stride,
                                          .runs = right.runs,
                                          .run_count = right.run_count,
                                          .rows = out,
                                          .column = j,
                                          .width = smaller(kPanelWidth, right.columns - j),
                                          .first = chunk.k == 0,
                                          .bias = nullptr});
    }
    tiles += kTileStep;
    left -= count;
  }
}

// Returns the runs of a chunk's pixels for which position (i, j) of the window lies in the image.
// Offsets count from x.
inline RunList position_runs(const ConvShape& s, const Window& window, const PixelChunk& chunk,
                             std::int64_t i, std::int64_t j, Run* runs) {
  const Range cols = outputs_inside(j, s.pad, s.stride, s.w, s.ow());
  const std::int64_t step = s.stride * s.c, end = chunk.k + chunk.depth;
  RunList list{runs};
  for (std::int64_t row = chunk.k / s.ow(); row * s.ow() < end; ++row) {
    const std::int64_t n = row / s.oh(), h = row % s.oh() * s.stride + i - s.pad;
    const std::int64_t k = larger(chunk.k, row * s.ow() + cols.begin);
    const std::int64_t length = smaller(end, row * s.ow() + cols.end) - k;
    if (h < 0 || h >= s.h || length <= 0) continue;
    const std::int64_t w = (k - row * s.ow()) * s.stride + j - s.pad;
    list.append({((n * s.h + h) * s.w + w) * s.c + window.channel, k - chunk.k, length}, step);
  }
  return list;
}

inline void multiply_in_place(const ConvShape& s, const WgradRows& rows, const PixelChunk& chunk,
                              const float* x, const float* tiles, float*, float* dw) {
  Run runs[kDotChunk];
  for (std::int64_t t = 0; t < taps(s); ++t) {
    const RunList list = position_runs(s, rows.window, chunk, t / s.kw, t % s.kw, runs);
    multiply_chunk(s, rows, chunk, tiles,
                   {.b = x,
                    .stride = s.stride * s.c,
                    .column = t * group_c(s),
                    .columns = group_c(s),
                    .runs = list.runs,
                    .run_count = list.count},
                   dw);
  }
}

inline void multiply_gathered(const ConvShape& s, const WgradRows& rows, const PixelChunk& chunk,
                              const float* x, const float* tiles, float* gathered, float* dw) {
  const PixelGrid grid = forward_grid(s, x);
  const Window window = join_columns(grid, rows.window);
  const Run whole{0, 0, chunk.depth};
  for (std::int64_t column = 0; column < window.depth(); column += kGatherColumns) {
    const std::int64_t columns = smaller(kGatherColumns, window.depth() - column);
    gather(grid, window, chunk.k, chunk.k + chunk.depth, column, column + columns, gathered,
           kGatherStride);
    multiply_chunk(s, rows, chunk, tiles, {gathered, kGatherStride, column, columns, &whole, 1},
                   dw);
  }
}

inline void wgrad_group(const ConvShape& s, const WgradRows& rows, const float* x, const float* dy,
                        float* dw, float* ws) {
  const bool in_place = reads_in_place(s);
  float* right = ws + wgrad_tiles(s) * kTileStep;
  const std::int64_t pixels = s.n * s.oh() * s.ow();
  for (std::int64_t k = 0; k < pixels; k += kDotChunk) {
    const PixelChunk chunk{k, smaller(kDotChunk, pixels - k)};
    pack_dy(s, rows, chunk, dy, ws);
    (in_place ? multiply_in_place : multiply_gathered)(s, rows, chunk, x, ws, right, dw);
  }
}

inline void conv_wgrad(const ConvShape& s, std::int64_t oc_begin, std::int64_t oc_end,
                       const float* x, const float* dy, float* dw, float* ws) {
  if (is_depthwise(s)) return depthwise_wgrad(s, oc_begin, oc_end, x, dy, dw, ws);
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const std::int64_t begin = larger(oc_begin, g * group_oc(s));
    const std::int64_t end = smaller(oc_end, (g + 1) * group_oc(s));
    if (begin < end) wgrad_group(s, {begin, end, forward_window(s, g)}, x, dy, dw, ws);
  }
}

}  // namespace
}  // namespace es::gpu
