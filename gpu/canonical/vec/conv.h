#pragma once
#include "gpu/canonical/shapes.h"
#include "gpu/canonical/vec/depthwise.h"
#include "gpu/canonical/vec/gather.h"
#include "gpu/canonical/vec/pack.h"

namespace es::gpu {
namespace {

// --- Forward and data gradient: pixels are rows, weights are packed panels.

// What an output pixel of group g sees in x: k = (kh, kw, c). Without groups a filter row is one
// run of kw * c floats.
inline Window forward_window(const ConvShape& s, std::int64_t g) {
  const bool whole_rows = s.groups == 1;
  return {.rows = s.kh,
          .cols = whole_rows ? 1 : s.kw,
          .length = whole_rows ? s.kw * s.c : group_c(s),
          .row0 = -s.pad,
          .col0 = -s.pad,
          .step = 1,
          .channel = g * group_c(s)};
}

inline PixelGrid forward_grid(const ConvShape& s, const float* x) {
  return {.x = x, .h = s.h, .w = s.w, .c = s.c, .rows = s.oh(), .cols = s.ow(), .stride = s.stride};
}

// A product of gathered pixels and packed weights: all pixels of a grid times `columns` columns.
struct PixelProduct {
  PixelGrid grid;
  Window window;
  std::int64_t images;
  std::int64_t columns;
  const float* packed;  // [chunk][panel][k][column]
  // Where the result of pixel (n, r, q) begins: out + n * image_step + r * row_step + q * col_step.
  float* out;
  std::int64_t image_step, row_step, col_step;
};

inline void result_rows(const PixelProduct& p, const Part1D& pixels, float** rows) {
  for (std::int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    const std::int64_t q = pixel % p.grid.cols, r = pixel / p.grid.cols % p.grid.rows;
    const std::int64_t n = pixel / p.grid.cols / p.grid.rows;
    *rows++ = p.out + n * p.image_step + r * p.row_step + q * p.col_step;
  }
}

// One chunk of K for some pixels. They are gathered a tile at a time, or several when the chunk is
// short, so that what was gathered is multiplied while it is in the first-level cache.
inline void multiply_pixel_chunk(const PixelProduct& p, const Part1D& pixels, std::int64_t k,
                                 std::int64_t depth, float* const* rows, float* a_block) {
  const std::int64_t group_rows = kTileRows * smaller(kBlockRows / kTileRows, kDotChunk / depth);
  for (std::int64_t i = 0; i < part_count(pixels.size(), group_rows); ++i) {
    const Part1D group = part(pixels.size(), group_rows, i);
    gather(p.grid, p.window, pixels.begin + group.begin, pixels.begin + group.end, k, k + depth,
           a_block, kRowBlockStride);
    multiply_block<ALayout::kRows>({.a = a_block,
                                    .row_count = group.size(),
                                    .b = p.packed + k * padded_columns(p.columns),
                                    .panel_step = depth * kPanelWidth,
                                    .b_stride = 0,
                                    .columns = p.columns,
                                    .depth = depth,
                                    .rows = rows + group.begin,
                                    .first = k == 0});
  }
}

// A block of pixels goes through all chunks before the next one, so its results stay in the
// second-level cache, and a chunk of weights is used for the whole block.
inline void multiply_pixels(const PixelProduct& p, float* a_block) {
  const std::int64_t pixel_count = p.images * p.grid.rows * p.grid.cols;
  const std::int64_t depth_all = p.window.depth();
  float* rows[kBlockRows];
  for (std::int64_t i = 0; i < part_count(pixel_count, kBlockRows); ++i) {
    const Part1D pixels = part(pixel_count, kBlockRows, i);
    result_rows(p, pixels, rows);
    for (std::int64_t k = 0; k < depth_all; k += kDotChunk) {
      multiply_pixel_chunk(p, pixels, k, smaller(kDotChunk, depth_all - k), rows, a_block);
    }
  }
}

inline std::size_t conv_fwd_packed_floats(const ConvShape& s) {
  if (is_depthwise(s)) return static_cast<std::size_t>(weight_floats(s));
  return static_cast<std::size_t>(s.groups * taps(s) * group_c(s) * padded_columns(group_oc(s)));
}

inline void conv_fwd_pack(const ConvShape& s, const float* w, float* packed) {
  if (is_depthwise(s)) return depthwise_pack(s, w, packed);
  const std::int64_t depth_all = taps(s) * group_c(s), columns = group_oc(s);
  for (std::int64_t g = 0; g < s.groups; ++g, w += depth_all * columns) {
    for (std::int64_t k = 0; k < depth_all; k += kDotChunk) {
      const std::int64_t depth = smaller(kDotChunk, depth_all - k);
      pack_panels(depth, columns, w + k, 1, depth_all, packed);
      packed += depth * padded_columns(columns);
    }
  }
}

inline std::size_t conv_fwd_workspace_floats(const ConvShape&) {
  return static_cast<std::size_t>(kBlockFloats);
}

inline void conv_fwd(const ConvShape& s, const float* x, const float* packed, const float* bias,
                     float* y, float* ws) {
  if (is_depthwise(s)) return depthwise_fwd(s, x, packed, bias, y);
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const std::int64_t group_floats = taps(s) * group_c(s) * padded_columns(group_oc(s));
    multiply_pixels({.grid = forward_grid(s, x),
                     .window = forward_window(s, g),
                     .images = s.n,
                     .columns = group_oc(s),
                     .packed = packed + g * group_floats,
                     .out = y + g * group_oc(s),
                     .image_step = s.oh() * s.ow() * s.oc,
                     .row_step = s.ow() * s.oc,
                     .col_step = s.oc},
                    ws);
  }
  if (bias == nullptr) return;
  for (std::int64_t pixel = 0; pixel < s.n * s.oh() * s.ow(); ++pixel, y += s.oc) {
    for_vectors(s.oc, [=](std::int64_t o, auto at) {
      at.store(y + o, add(at.load(y + o), at.load(bias + o)));
    });
  }
}

// The input pixels whose row and column leave remainders `row` and `col` by the stride: the same
// taps hit all of them, so they form a convolution of stride 1 over dy.
struct StridePhase {
  std::int64_t row, col;
  std::int64_t rows, cols;          // grid of pixels of this phase
  std::int64_t kh0, kw0;            // first tap that hits; the next ones follow by the stride
  std::int64_t tap_rows, tap_cols;  // taps that hit
};

inline StridePhase stride_phase(const ConvShape& s, std::int64_t row, std::int64_t col) {
  const auto taps_from = [&](std::int64_t first, std::int64_t size) {
    return first < size ? ceil_div(size - first, s.stride) : 0;
  };
  const std::int64_t kh0 = (row + s.pad) % s.stride, kw0 = (col + s.pad) % s.stride;
  return {.row = row,
          .col = col,
          .rows = larger(0, ceil_div(s.h - row, s.stride)),
          .cols = larger(0, ceil_div(s.w - col, s.stride)),
          .kh0 = kh0,
          .kw0 = kw0,
          .tap_rows = taps_from(kh0, s.kh),
          .tap_cols = taps_from(kw0, s.kw)};
}

// Calls body(phase, offset of its packed weights) for each phase.
template <class Body>
void for_each_phase(const ConvShape& s, Body body) {
  std::int64_t offset = 0;
  for (std::int64_t row = 0; row < s.stride; ++row) {
    for (std::int64_t col = 0; col < s.stride; ++col) {
      const StridePhase phase = stride_phase(s, row, col);
      body(phase, offset);
      offset +=
          s.groups * phase.tap_rows * phase.tap_cols * group_oc(s) * padded_columns(group_c(s));
    }
  }
}

inline std::size_t conv_dgrad_packed_floats(const ConvShape& s) {
  if (is_depthwise(s)) return static_cast<std::size_t>(weight_floats(s));
  return static_cast<std::size_t>(taps(s) * s.oc * padded_columns(group_c(s)));
}

// [phase][group][chunk][panel][k = (kh, kw, oc)][c]
inline void conv_dgrad_pack(const ConvShape& s, const float* w, float* packed) {
  if (is_depthwise(s)) return depthwise_pack(s, w, packed);
  const std::int64_t ocg = group_oc(s), cg = group_c(s);
  for_each_phase(s, [&](const StridePhase& phase, std::int64_t offset) {
    const std::int64_t depth_all = phase.tap_rows * phase.tap_cols * ocg;
    float* out = packed + offset;
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const auto weight_row = [&](std::int64_t k) {
        const std::int64_t hit = k / ocg, oc = g * ocg + k % ocg;
        const std::int64_t kh = phase.kh0 + hit / phase.tap_cols * s.stride;
        const std::int64_t kw = phase.kw0 + hit % phase.tap_cols * s.stride;
        return w + (oc * taps(s) + kh * s.kw + kw) * cg;
      };
      for (std::int64_t k = 0; k < depth_all; k += kDotChunk) {
        const std::int64_t depth = smaller(kDotChunk, depth_all - k);
        pack_rows(
            depth, cg, [&](std::int64_t i) { return weight_row(k + i); }, out);
        out += depth * padded_columns(cg);
      }
    }
  });
}

inline std::size_t conv_dgrad_workspace_floats(const ConvShape&) {
  return static_cast<std::size_t>(kBlockFloats);
}

inline void zero_phase(const ConvShape& s, const StridePhase& phase, float* dx) {
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t h = phase.row; h < s.h; h += s.stride) {
      for (std::int64_t w = phase.col; w < s.w; w += s.stride) {
        zero_floats(dx + ((n * s.h + h) * s.w + w) * s.c, s.c);
      }
    }
  }
}

// `packed` holds the weights of this phase and group.
inline PixelProduct phase_product(const ConvShape& s, const StridePhase& phase, std::int64_t g,
                                  const float* dy, const float* packed, float* dx) {
  return {.grid = {.x = dy,
                   .h = s.oh(),
                   .w = s.ow(),
                   .c = s.oc,
                   .rows = phase.rows,
                   .cols = phase.cols,
                   .stride = 1},
          .window = {.rows = phase.tap_rows,
                     .cols = phase.tap_cols,
                     .length = group_oc(s),
                     .row0 = (phase.row + s.pad - phase.kh0) / s.stride,
                     .col0 = (phase.col + s.pad - phase.kw0) / s.stride,
                     .step = -1,  // the next tap hits the output before
                     .channel = g * group_oc(s)},
          .images = s.n,
          .columns = group_c(s),
          .packed = packed,
          .out = dx + (phase.row * s.w + phase.col) * s.c + g * group_c(s),
          .image_step = s.h * s.w * s.c,
          .row_step = s.stride * s.w * s.c,
          .col_step = s.stride * s.c};
}

inline void conv_dgrad(const ConvShape& s, const float* dy, const float* packed, float* dx,
                       float* ws) {
  if (is_depthwise(s)) return depthwise_dgrad(s, dy, packed, dx);
  for_each_phase(s, [&](const StridePhase& phase, std::int64_t offset) {
    const std::int64_t hits = phase.tap_rows * phase.tap_cols;
    if (hits == 0) return zero_phase(s, phase, dx);
    const std::int64_t group_floats = hits * group_oc(s) * padded_columns(group_c(s));
    for (std::int64_t g = 0; g < s.groups; ++g) {
      multiply_pixels(phase_product(s, phase, g, dy, packed + offset + g * group_floats, dx), ws);
    }
  });
}

// --- Weight gradient: output channels are rows, gathered pixels are the k of both operands.

constexpr std::int64_t kGatherColumns = 192;  // columns of a gathered block, a multiple of 32
constexpr std::int64_t kGatherStride = kGatherColumns + 16;  // avoids shared cache sets

// dy of one chunk, packed in blocks of kBlockRows channels.
inline std::int64_t wgrad_dy_floats(const ConvShape& s) {
  return part_count(group_oc(s), kBlockRows) * kBlockFloats;
}

inline std::size_t conv_wgrad_workspace_floats(const ConvShape& s) {
  if (is_depthwise(s)) return depthwise_wgrad_workspace_floats(s);
  return static_cast<std::size_t>(wgrad_dy_floats(s) + kDotChunk * kGatherStride);
}

// One chunk of pixels [k, k + depth) of the weight gradient of group g.
struct WgradChunk {
  std::int64_t g, k, depth;
  const float* dy_blocks;  // packed
  const float* gathered;   // columns [j, j + columns) of x as the window sees it
  std::int64_t j, columns;
};

inline void pack_dy(const ConvShape& s, const WgradChunk& chunk, const float* dy, float* blocks) {
  const std::int64_t first = chunk.g * group_oc(s);
  for (std::int64_t i = 0; i < part_count(group_oc(s), kBlockRows); ++i) {
    const Part1D channels = part(group_oc(s), kBlockRows, i);
    pack_tiles(channels.size(), chunk.depth, dy + chunk.k * s.oc + first + channels.begin, 1, s.oc,
               blocks + i * kBlockFloats);
  }
}

inline void multiply_gathered(const ConvShape& s, const WgradChunk& chunk, float* dw) {
  const std::int64_t filter_floats = taps(s) * group_c(s);
  float* rows[kBlockRows];
  for (std::int64_t i = 0; i < part_count(group_oc(s), kBlockRows); ++i) {
    const Part1D channels = part(group_oc(s), kBlockRows, i);
    for (std::int64_t r = 0; r < channels.size(); ++r) {
      rows[r] = dw + (chunk.g * group_oc(s) + channels.begin + r) * filter_floats + chunk.j;
    }
    multiply_block<ALayout::kColumns>({.a = chunk.dy_blocks + i * kBlockFloats,
                                       .row_count = channels.size(),
                                       .b = chunk.gathered,
                                       .panel_step = kPanelWidth,
                                       .b_stride = kGatherStride,
                                       .columns = chunk.columns,
                                       .depth = chunk.depth,
                                       .rows = rows,
                                       .first = chunk.k == 0});
  }
}

inline void wgrad_chunk(const ConvShape& s, std::int64_t g, std::int64_t k, std::int64_t depth,
                        const float* x, const float* dy, float* dw, float* ws) {
  const Window window = forward_window(s, g);
  float* gathered = ws + wgrad_dy_floats(s);
  WgradChunk chunk{
      .g = g, .k = k, .depth = depth, .dy_blocks = ws, .gathered = gathered, .j = 0, .columns = 0};
  pack_dy(s, chunk, dy, ws);
  for (chunk.j = 0; chunk.j < window.depth(); chunk.j += kGatherColumns) {
    chunk.columns = smaller(kGatherColumns, window.depth() - chunk.j);
    gather(forward_grid(s, x), window, k, k + depth, chunk.j, chunk.j + chunk.columns, gathered,
           kGatherStride);
    multiply_gathered(s, chunk, dw);
  }
}

inline void conv_wgrad(const ConvShape& s, const float* x, const float* dy, float* dw, float* ws) {
  if (is_depthwise(s)) return depthwise_wgrad(s, x, dy, dw, ws);
  const std::int64_t pixels = s.n * s.oh() * s.ow();
  for (std::int64_t g = 0; g < s.groups; ++g) {
    for (std::int64_t k = 0; k < pixels; k += kDotChunk) {
      wgrad_chunk(s, g, k, smaller(kDotChunk, pixels - k), x, dy, dw, ws);
    }
  }
}

}  // namespace
}  // namespace es::gpu
