#pragma once
// A convolution as a dense product. The operand that has one row for each output pixel and one
// column for each k is never stored completely. This file describes pixels and their windows.
// gather() writes a block of that operand where it cannot be read in place (stage.h).
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

// An NHWC tensor and a grid of pixels with windows in it: pixel (n, r, q) has its origin at row r *
// stride and column q * stride of image n.
struct PixelGrid {
  const float* x;
  std::int64_t h, w, c;
  std::int64_t rows, cols;  // of the grid
  std::int64_t stride;
};

// The window of a pixel. k = (i, j, e) with i < rows, j < cols, e < length is the float `channel +
// e` at the position (row0 + i * step, col0 + j * step) from the pixel's origin. Positions outside
// the image are +0.
struct Window {
  std::int64_t rows, cols, length;
  std::int64_t row0, col0, step;  // step is 1 or -1
  std::int64_t channel;
  std::int64_t depth() const { return rows * cols * length; }
  // The first row, and the first column, that the window reaches.
  std::int64_t top() const { return step > 0 ? row0 : row0 - (rows - 1); }
  std::int64_t left() const { return step > 0 ? col0 : col0 - (cols - 1); }
};

// Returns the same k with the columns of a row as one position, because their floats are contiguous
// in memory.
inline Window join_columns(const PixelGrid& grid, const Window& w) {
  if (w.step != 1 || w.length != grid.c) return w;
  return {w.rows, 1, w.cols * w.length, w.row0, w.col0, w.step, w.channel};
}

// The part of one position of a window that lies in the wanted range of k.
struct Segment {
  std::int64_t row, offset;   // row from the origin; floats from the start of the origin's column
  std::int64_t begin, count;  // column of the destination; floats
};

inline Segment segment(const PixelGrid& grid, const Window& window, std::int64_t k,
                       std::int64_t begin, std::int64_t end) {
  const std::int64_t position = k / window.length, skip = k % window.length;
  const std::int64_t col = window.col0 + position % window.cols * window.step;
  return {.row = window.row0 + position / window.cols * window.step,
          .offset = col * grid.c + window.channel + skip,
          .begin = k - begin,
          .count = smaller(window.length - skip, end - k)};
}

// Gathers a segment of one pixel that may reach beyond the left or right edge of the image.
inline void gather_clipped(const float* row, std::int64_t row_floats, std::int64_t at,
                           std::int64_t count, float* out) {
  const std::int64_t low = smaller(count, larger(0, -at));
  const std::int64_t high = larger(low, smaller(count, row_floats - at));
  zero_floats(out, low);
  copy_floats(out + low, row + at + low, high - low);
  zero_floats(out + high, count - high);
}

// Copies `count` floats for each of `pixels` pixels.
inline void gather_inside(std::int64_t pixels, std::int64_t count, const float* from,
                          std::int64_t from_stride, float* out, std::int64_t out_stride) {
  const std::int64_t whole = count / kWidth * kWidth;
  const Part rest(count - whole);
  for (std::int64_t q = 0; q < pixels; ++q, from += from_stride, out += out_stride) {
    for (std::int64_t i = 0; i < whole; i += kWidth) store(out + i, load(from + i));
    if (whole < count) rest.store(out + whole, rest.load(from + whole));
  }
}

// Gathers one segment of the pixels [first, last) of one grid row. `row` is the row of the image,
// or nullptr outside.
inline void gather_row(const PixelGrid& grid, const Segment& s, const float* row,
                       std::int64_t first, std::int64_t last, float* out, std::int64_t out_stride) {
  const std::int64_t step = grid.stride * grid.c, row_floats = grid.w * grid.c;
  const auto at = [&](std::int64_t q) { return q * step + s.offset; };
  std::int64_t q = first;
  const auto clipped_until = [&](std::int64_t end) {
    for (; q < end; ++q, out += out_stride) gather_clipped(row, row_floats, at(q), s.count, out);
  };
  if (row == nullptr) {
    for (; q < last; ++q, out += out_stride) zero_floats(out, s.count);
    return;
  }
  // The segments of the pixels [low, high) lie completely inside the row.
  const std::int64_t room = row_floats - s.count - s.offset;
  const std::int64_t low =
      smaller(last, larger(first, s.offset < 0 ? ceil_div(-s.offset, step) : 0));
  const std::int64_t high = smaller(last, larger(low, room < 0 ? 0 : room / step + 1));
  clipped_until(low);
  if (q < high) {
    gather_inside(high - low, s.count, row + at(low), step, out, out_stride);
    out += (high - low) * out_stride;
    q = high;
  }
  clipped_until(last);
}

// Row p - first_pixel of `out` receives the k in [k_begin, k_end) of pixel p, for the pixels
// [first_pixel, last_pixel), counted over the whole batch.
inline void gather(const PixelGrid& grid, const Window& window, std::int64_t first_pixel,
                   std::int64_t last_pixel, std::int64_t k_begin, std::int64_t k_end, float* out,
                   std::int64_t out_stride) {
  for (std::int64_t k = k_begin; k < k_end;) {
    const Segment s = segment(grid, window, k, k_begin, k_end);
    for (std::int64_t pixel = first_pixel; pixel < last_pixel;) {
      const std::int64_t grid_row = pixel / grid.cols, q = pixel % grid.cols;
      const std::int64_t count = smaller(grid.cols - q, last_pixel - pixel);
      const std::int64_t n = grid_row / grid.rows;
      const std::int64_t row = grid_row % grid.rows * grid.stride + s.row;
      const bool inside = row >= 0 && row < grid.h;
      gather_row(grid, s, inside ? grid.x + (n * grid.h + row) * grid.w * grid.c : nullptr, q,
                 q + count, out + (pixel - first_pixel) * out_stride + s.begin, out_stride);
      pixel += count;
    }
    k += s.count;
  }
}

}  // namespace
}  // namespace es::gpu
