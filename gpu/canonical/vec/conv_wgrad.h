#pragma once
// The weight gradient of a convolution. Output channels are rows, and pixels are the k of both
// operands. Each tap reads, in place, the pixels for which it lies in the image. Windows of few
// channels are gathered instead.
#include "gpu/canonical/vec/conv.h"
#include "gpu/canonical/vec/gemm.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kGatherColumns = 192;  // columns of a gathered block; a multiple of 32
// A gradient of this number of weights does not stay in the caches until it is read again.
constexpr std::int64_t kStreamedWeights = 2 * 1024 * 1024;

// The channels [begin, end) of a group, whose window is `window`.
struct WgradRows {
  std::int64_t begin, end;
  Window window;
};

// One chunk of pixels.
struct PixelChunk {
  std::int64_t k, depth;
};

// With few channels the vectors of a tap would not be full, so windows are gathered.
inline bool reads_in_place(const ConvShape& s) {
  return 3 * padded_columns(group_c(s)) <= 4 * group_c(s);
}

// Returns the most rows of a tile of dy.
inline std::int64_t dy_rows(const ConvShape& s) {
  return reads_in_place(s) ? most_tile_rows(group_c(s)) : kTileRows;
}
// Returns the distance between the tiles of dy: two cache lines more than a tile, so that tiles do
// not share cache sets.
inline std::int64_t tile_step(const ConvShape& s) {
  return dy_rows(s) * kDotChunk + 2 * kLineFloats;
}

// Returns the distance between the rows of gathered blocks. They are whole cache lines. Wide rows
// get one more, so that they do not share cache sets; narrow rows of a chunk fit the first-level
// cache or nearly so.
inline std::int64_t gather_stride(const ConvShape& s) {
  const std::int64_t columns = smaller(taps(s) * group_c(s), kGatherColumns);
  return round_up(columns, kLineFloats) + (columns > kPanelWidth ? kLineFloats : 0);
}

inline bool wgrad_is_product(const ConvShape& s) {
  return s.kh == 1 && s.kw == 1 && s.stride == 1 && s.pad == 0 && s.groups == 1;
}
inline GemmShape wgrad_product(const ConvShape& s, std::int64_t channels) {
  return {.m = channels,
          .n = s.c,
          .k = s.n * s.h * s.w,
          .a_row = 1,
          .a_col = s.oc,
          .b_row = s.c,
          .b_col = 1,
          .c_row = s.c,
          .c_col = 1};
}
// Any range of channels may be computed. The plan of a product changes only where the number of its
// tiles does.
inline std::size_t wgrad_product_floats(const ConvShape& s) {
  std::size_t most = gemm_workspace_floats(wgrad_product(s, s.oc));
  for (std::int64_t channels = 1; channels < s.oc; channels += kTileRows) {
    const std::size_t floats = gemm_workspace_floats(wgrad_product(s, channels));
    most = floats > most ? floats : most;
  }
  return most;
}

// Returns whether the gradient is written past the caches: it is large, all pixels are one chunk,
// so each of its elements is written once, and its panels are whole and aligned. Otherwise the
// processor would read what it overwrites from memory.
inline bool streams_wgrad(const ConvShape& s, const float* dw) {
  return weight_floats(s) >= kStreamedWeights && s.n * s.oh() * s.ow() <= kDotChunk &&
         reads_in_place(s) && group_c(s) % kPanelWidth == 0 &&
         reinterpret_cast<std::uintptr_t>(dw) % sizeof(Vec) == 0;
}

// Largest number of tiles for any range of channels of a group.
inline std::int64_t wgrad_tiles(const ConvShape& s) {
  return ceil_div(group_oc(s), dy_rows(s)) + 1;
}

// Workspace: dy of one chunk in tiles, then the other operand if it is not read in place.
inline std::size_t conv_wgrad_workspace_floats(const ConvShape& s) {
  if (is_depthwise(s)) return depthwise_wgrad_workspace_floats(s);
  if (wgrad_is_product(s)) return wgrad_product_floats(s);
  return static_cast<std::size_t>(wgrad_tiles(s) * tile_step(s) +
                                  (reads_in_place(s) ? 0 : kDotChunk * gather_stride(s)));
}

// Writes dy of a chunk into tiles by columns. Rows of dy are read completely.
inline void pack_dy(const ConvShape& s, const WgradRows& rows, const PixelChunk& chunk,
                    const float* dy, float* tiles) {
  static_assert(kNarrowTileRows <= kWidth);
  const std::int64_t most = dy_rows(s), step = tile_step(s);
  const Part whole(most);
  for (std::int64_t k = 0; k < chunk.depth; ++k) {
    const float* from = dy + (chunk.k + k) * s.oc + rows.begin;
    float* to = tiles + k * most;
    for (std::int64_t left = rows.end - rows.begin; left > 0;) {
      const std::int64_t count = next_tile_rows(left, most);
      if (count == most) {
        whole.store(to, whole.load(from));
      } else {
        copy_floats(to, from, count);
      }
      from += count;
      to += step;
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
  bool stream = false;  // write the results past the caches
};

inline void multiply_chunk(const ConvShape& s, const WgradRows& rows, const PixelChunk& chunk,
                           const float* tiles, const RightOperand& right, float* dw) {
  const std::int64_t filter_floats = taps(s) * group_c(s);
  float* row = dw + rows.begin * filter_floats + right.column;
  const std::int64_t most = dy_rows(s), step = tile_step(s);
  float* out[kNarrowTileRows];
  for (std::int64_t left = rows.end - rows.begin; left > 0;) {
    const std::int64_t count = next_tile_rows(left, most);
    for (std::int64_t r = 0; r < count; ++r, row += filter_floats) out[r] = row;
    for (std::int64_t j = 0; j < right.columns; j += kPanelWidth) {
      run_tile<ALayout::kColumns>(count, {.a_rows = nullptr,
                                          .a = tiles,
                                          .a_stride = most,
                                          .b = right.b + j,
                                          .b_stride = right.stride,
                                          .runs = right.runs,
                                          .run_count = right.run_count,
                                          .rows = out,
                                          .column = j,
                                          .width = smaller(kPanelWidth, right.columns - j),
                                          .first = chunk.k == 0,
                                          .bias = nullptr,
                                          .stream = right.stream});
    }
    tiles += step;
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
                    .run_count = list.count,
                    .stream = streams_wgrad(s, dw)},
                   dw);
  }
}

inline void multiply_gathered(const ConvShape& s, const WgradRows& rows, const PixelChunk& chunk,
                              const float* x, const float* tiles, float* gathered, float* dw) {
  const PixelGrid grid = forward_grid(s, x);
  const Window window = join_columns(grid, rows.window);
  const Run whole{0, 0, chunk.depth};
  const std::int64_t stride = gather_stride(s);
  for (std::int64_t column = 0; column < window.depth(); column += kGatherColumns) {
    const std::int64_t columns = smaller(kGatherColumns, window.depth() - column);
    gather(grid, window, chunk.k, chunk.k + chunk.depth, column, column + columns, gathered,
           stride);
    multiply_chunk(s, rows, chunk, tiles, {gathered, stride, column, columns, &whole, 1}, dw);
  }
}

// If one block holds the windows, dy is read once, so it does not pay to arrange it in tiles, which
// read it in place. A tile may begin its second vector before the end of its first one, so it needs
// a whole vector.
inline bool reads_dy_in_place(const ConvShape& s) {
  const std::int64_t columns = taps(s) * group_c(s);
  return !reads_in_place(s) && columns >= kWidth && columns <= kGatherColumns;
}

inline void multiply_narrow(const ConvShape& s, const WgradRows& rows, const PixelChunk& chunk,
                            const float* x, const float* dy, float* gathered, float* dw) {
  const PixelGrid grid = forward_grid(s, x);
  const Window window = join_columns(grid, rows.window);
  const std::int64_t stride = gather_stride(s), columns = window.depth();
  gather(grid, window, chunk.k, chunk.k + chunk.depth, 0, columns, gathered, stride);
  for (std::int64_t row = rows.begin, count; row < rows.end; row += count) {
    count = next_tile_rows(rows.end - row);
    for (std::int64_t j = 0, width; j < columns; j += width) {
      width = next_panel(columns - j);
      run_gemm_tile(ASide::kColumns, count,
                    {.a = dy + chunk.k * s.oc + row,
                     .a_stride = s.oc,
                     .b = gathered + j,
                     .b_stride = stride,
                     .width = width,
                     .depth = chunk.depth,
                     .c = dw + row * columns + j,
                     .c_stride = columns,
                     .start = nullptr,
                     .start_stride = 0,
                     .add = chunk.k != 0,
                     .bias = nullptr},
                    {});
    }
  }
}

inline void wgrad_chunk(const ConvShape& s, const WgradRows& rows, const PixelChunk& chunk,
                        const float* x, const float* dy, float* dw, float* ws) {
  float* right = ws + wgrad_tiles(s) * tile_step(s);
  if (reads_dy_in_place(s)) return multiply_narrow(s, rows, chunk, x, dy, right, dw);
  pack_dy(s, rows, chunk, dy, ws);
  const auto multiply = reads_in_place(s) ? multiply_in_place : multiply_gathered;
  multiply(s, rows, chunk, x, ws, right, dw);
}

inline void conv_wgrad(const ConvShape& s, std::int64_t oc_begin, std::int64_t oc_end,
                       const float* x, const float* dy, float* dw, float* ws) {
  if (is_depthwise(s)) return depthwise_wgrad(s, oc_begin, oc_end, x, dy, dw, ws);
  if (wgrad_is_product(s)) {
    if (oc_begin == oc_end) return;
    return gemm(wgrad_product(s, oc_end - oc_begin), dy + oc_begin, x, nullptr, dw + oc_begin * s.c,
                ws);
  }
  const std::int64_t pixels = s.n * s.oh() * s.ow();
  for (std::int64_t k = 0; k < pixels; k += kDotChunk) {
    const PixelChunk chunk{k, smaller(kDotChunk, pixels - k)};
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const std::int64_t begin = larger(oc_begin, g * group_oc(s));
      const std::int64_t end = smaller(oc_end, (g + 1) * group_oc(s));
      if (begin < end) wgrad_chunk(s, {begin, end, forward_window(s, g)}, chunk, x, dy, dw, ws);
    }
  }
  // Such stores are weakly ordered, see gemm.h.
  if (streams_wgrad(s, dw)) stream_fence();
}

}  // namespace
}  // namespace es::gpu
