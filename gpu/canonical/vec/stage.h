#pragma once
// The memory from which the windows of a grid of pixels are read: the image itself as far as they
// lie inside, or a copy with its padding (staged).
#include "gpu/canonical/vec/gather.h"
#include "gpu/canonical/vec/tile.h"

namespace es::gpu {
namespace {

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Rows of a grid, with all columns, of some images.
struct Region {
  Range images, rows;
};

// The images whose pixels are read. The first one is image `image` of the batch, and its first row
// is the origin of row `row` of the grid.
struct Source {
  const float* x;
  std::int64_t h, w, c;
  std::int64_t image, row;
  std::int64_t stride;
  Window window;
};

inline bool needs_padding(const PixelGrid& grid, const Window& window) {
  const auto outside = [&](std::int64_t first, std::int64_t size, std::int64_t pixels,
                           std::int64_t extent) {
    return first < 0 || (pixels - 1) * grid.stride + first + size > extent;
  };
  return outside(window.top(), window.rows, grid.rows, grid.h) ||
         outside(window.left(), window.cols, grid.cols, grid.w);
}

inline Source source_in_place(const PixelGrid& grid, const Window& window) {
  return {grid.x, grid.h, grid.w, grid.c, 0, 0, grid.stride, window};
}

// Returns the number of rows or columns of the image that `pixels` pixels of a side read.
inline std::int64_t staged_side(std::int64_t pixels, std::int64_t stride, std::int64_t window) {
  return (pixels - 1) * stride + window;
}
inline std::int64_t staged_floats(const PixelGrid& grid, const Window& window,
                                  const Region& region) {
  return region.images.size() * staged_side(region.rows.size(), grid.stride, window.rows) *
         staged_side(grid.cols, grid.stride, window.cols) * grid.c;
}

// Writes one staged row: `count` floats from float `left` of an image row on, with +0 outside.
inline void stage_row(const float* row, std::int64_t row_floats, std::int64_t left,
                      std::int64_t count, float* out) {
  const std::int64_t before = smaller(count, larger(0, -left));
  const std::int64_t end = larger(before, smaller(count, row_floats - left));
  zero_floats(out, before);
  copy_floats(out + before, row + left + before, end - before);
  zero_floats(out + end, count - end);
}

// Copies what a region reads, with its padding, to `out`, which has staged_floats() floats.
inline Source stage(const PixelGrid& grid, const Window& window, const Region& region, float* out) {
  const std::int64_t height = staged_side(region.rows.size(), grid.stride, window.rows);
  const std::int64_t width = staged_side(grid.cols, grid.stride, window.cols);
  Source source{out,         height, width, grid.c, region.images.begin, region.rows.begin,
                grid.stride, window};
  source.window.row0 -= window.top();
  source.window.col0 -= window.left();
  for (std::int64_t i = 0; i < region.images.size() * height; ++i, out += width * grid.c) {
    const std::int64_t row = region.rows.begin * grid.stride + window.top() + i % height;
    if (row < 0 || row >= grid.h) {
      zero_floats(out, width * grid.c);
      continue;
    }
    const std::int64_t n = region.images.begin + i / height;
    stage_row(grid.x + (n * grid.h + row) * grid.w * grid.c, grid.w * grid.c,
              window.left() * grid.c, width * grid.c, out);
  }
  return source;
}

// --- Areas: pixels for which the same positions of the window lie inside the image.

struct Area {
  Range images, rows, cols;        // of pixels
  Range window_rows, window_cols;  // positions of the window
  std::int64_t pixels() const { return images.size() * rows.size() * cols.size(); }
  std::int64_t positions() const { return window_rows.size() * window_cols.size(); }
};

// Returns the positions i in [0, size) of one side of a window with origin + i * step in [0,
// extent).
inline Range positions_inside(std::int64_t origin, std::int64_t step, std::int64_t size,
                              std::int64_t extent) {
  const std::int64_t begin = step > 0 ? -origin : origin - extent + 1;
  const std::int64_t end = step > 0 ? extent - origin : origin + 1;
  const Range range{larger(0, begin), smaller(size, end)};
  return range.begin < range.end ? range : Range{0, 0};
}

inline Range rows_inside(const Source& s, std::int64_t row) {
  return positions_inside((row - s.row) * s.stride + s.window.row0, s.window.step, s.window.rows,
                          s.h);
}
inline Range cols_inside(const Source& s, std::int64_t col) {
  return positions_inside(col * s.stride + s.window.col0, s.window.step, s.window.cols, s.w);
}

// Calls body(part of `pixels`, its positions) for the longest parts that have the same positions.
template <class Inside, class Body>
void for_each_side_part(const Range& pixels, Inside inside, Body body) {
  for (std::int64_t begin = pixels.begin; begin < pixels.end;) {
    const Range positions = inside(begin);
    std::int64_t end = begin + 1;
    while (end < pixels.end && inside(end) == positions) ++end;
    body(Range{begin, end}, positions);
    begin = end;
  }
}

// Calls body(area) for all areas of a region with `cols` columns.
template <class Body>
void for_each_area(const Source& s, const Region& region, std::int64_t cols, Body body) {
  for_each_side_part(
      region.rows, [&](std::int64_t row) { return rows_inside(s, row); },
      [&](const Range& rows, const Range& window_rows) {
        for_each_side_part(
            Range{0, cols}, [&](std::int64_t col) { return cols_inside(s, col); },
            [&](const Range& part, const Range& window_cols) {
              body(Area{region.images, rows, part, window_rows, window_cols});
            });
      });
}

// Returns the offset of the float at the first position of an area from pixel (n, r, q); 0 if there
// is no position.
inline std::int64_t area_origin(const Source& s, const Area& area, std::int64_t n, std::int64_t r,
                                std::int64_t q) {
  if (area.positions() == 0) return 0;
  const Window& w = s.window;
  const std::int64_t row = (r - s.row) * s.stride + w.row0 + area.window_rows.begin * w.step;
  const std::int64_t col = q * s.stride + w.col0 + area.window_cols.begin * w.step;
  return (((n - s.image) * s.h + row) * s.w + col) * s.c + w.channel;
}

struct RunList {
  Run* runs;
  std::int64_t count = 0;
  // Extends the last run if k and the floats (`step` for each k) continue where it ends.
  void append(const Run& run, std::int64_t step) {
    if (count > 0) {
      Run& last = runs[count - 1];
      if (last.at + last.length == run.at && last.offset + last.length * step == run.offset) {
        last.length += run.length;
        return;
      }
    }
    runs[count++] = run;
  }
};

// Writes the runs of an area's k in [k, k + depth), relative to area_origin(); at most one for each
// k. Returns their number.
inline std::int64_t area_runs(const Source& s, const Area& area, std::int64_t k, std::int64_t depth,
                              Run* runs) {
  RunList list{runs};
  const Window& w = s.window;
  for (std::int64_t i = area.window_rows.begin; i < area.window_rows.end; ++i) {
    for (std::int64_t j = area.window_cols.begin; j < area.window_cols.end; ++j) {
      const std::int64_t first = (i * w.cols + j) * w.length;
      const std::int64_t begin = larger(k, first), end = smaller(k + depth, first + w.length);
      if (begin >= end) continue;
      const std::int64_t row = (i - area.window_rows.begin) * w.step;
      const std::int64_t col = (j - area.window_cols.begin) * w.step;
      list.append({(row * s.w + col) * s.c + begin - first, begin - k, end - begin}, 1);
    }
  }
  return list.count;
}

}  // namespace
}  // namespace es::gpu
