#pragma once
// The product that the forward pass and the data gradient of a convolution use. Pixels are rows and
// are read in place (stage.h). Weights are packed into panels, one slice at a time.
//
// Pixels are processed in areas for which the same taps lie in the image, so that products with the
// padding are left out. Areas of few pixels would make small tiles. Where that costs more than it
// saves, pixels are staged with their padding instead.
#include "gpu/canonical/vec/pack.h"
#include "gpu/canonical/vec/stage.h"

namespace es::gpu {
namespace {

// Floats of packed weights: they stay in the second-level cache while all pixels of a region pass.
constexpr std::int64_t kSliceFloats = kSecondLevelFloats / 4;
constexpr std::int64_t kSliceChunks = 4;  // chunks of K in a slice
// Floats between panels, so that a row that is packed into all of them does not use the same cache
// sets.
constexpr std::int64_t kPanelGap = 2 * kLineFloats;
// Floats that a region reads. The small region is read once and stays in the second-level cache.
// The large region is read once for each slice of the weights; more pixels mean less packing.
constexpr std::int64_t kRegionFloats = kSecondLevelFloats / 4;
constexpr std::int64_t kLargeRegionFloats = 1024 * 1024;

// All pixels of a grid times `columns` columns, for each of the groups of channels.
struct PixelProduct {
  PixelGrid grid;
  Window window;  // of the first group
  std::int64_t images, columns, groups;
  std::int64_t in_group_step, out_group_step;  // floats of a pixel from a group to the next one
  const float* bias;                           // by column, or nullptr
  // The result of pixel (n, r, q) begins at out + n * image_step + r * row_step + q * col_step.
  float* out;
  std::int64_t image_step, row_step, col_step;
};

// Floats of one packed chunk of `depth` k; a multiple of a cache line.
inline std::int64_t packed_chunk_floats(std::int64_t depth, std::int64_t columns) {
  return round_up(depth * padded_columns(columns), kLineFloats) +
         ceil_div(columns, kPanelWidth) * kPanelGap;
}

// The division of the product: regions of pixels, and slices of weights of at most `slice_columns`
// columns and `slice_depth` k.
struct ProductPlan {
  std::int64_t slice_columns, slice_depth, packed_floats;
  bool one_slice;
  std::int64_t region_images, region_rows;  // region_rows covers the grid, or region_images is 1
  std::int64_t staged_floats;               // 0: pixels are read in place
};

// Chooses the images and rows of a region that reads at most `floats` floats, but at least a row of
// one image.
inline void plan_regions(const PixelProduct& p, std::int64_t floats, ProductPlan& plan) {
  const auto fits = [&](std::int64_t images, std::int64_t rows) {
    return staged_floats(p.grid, p.window, {{0, images}, {0, rows}}) <= floats;
  };
  plan.region_images = 1;
  plan.region_rows = p.grid.rows;
  while (plan.region_rows > 1 && !fits(1, plan.region_rows)) {
    plan.region_rows = ceil_div(plan.region_rows, 2);
  }
  if (plan.region_rows < p.grid.rows) return;
  while (plan.region_images < p.images && fits(plan.region_images + 1, p.grid.rows)) {
    ++plan.region_images;
  }
  plan.region_images = ceil_div(p.images, ceil_div(p.images, plan.region_images));
}

// Returns the cost of tiles of `pixels` rows in units of a row. Fewer than four rows take as long
// as four.
inline std::int64_t tile_cost(std::int64_t pixels) {
  return pixels / kTileRows * kTileRows +
         (pixels % kTileRows == 0 ? 0 : larger(4, pixels % kTileRows));
}

// Returns whether areas cost less than all pixels of a region with their padding.
inline bool areas_pay(const PixelProduct& p, const Region& region) {
  std::int64_t cost = 0;
  for_each_area(source_in_place(p.grid, p.window), region, p.grid.cols,
                [&](const Area& area) { cost += tile_cost(area.pixels()) * area.positions(); });
  const std::int64_t pixels = region.images.size() * region.rows.size() * p.grid.cols;
  return cost < tile_cost(pixels) * p.window.rows * p.window.cols;
}

inline ProductPlan product_plan(const PixelProduct& p) {
  const std::int64_t depth = p.window.depth();
  ProductPlan plan{};
  const std::int64_t most = kSliceFloats / smaller(depth, kDotChunk) / kPanelWidth * kPanelWidth;
  plan.slice_columns = smaller(p.columns, most);
  const std::int64_t chunk_floats = kDotChunk * padded_columns(plan.slice_columns);
  const std::int64_t chunks = smaller(kSliceChunks, larger(1, kSliceFloats / chunk_floats));
  plan.slice_depth = smaller(depth, chunks * kDotChunk);
  plan.packed_floats = ceil_div(plan.slice_depth, kDotChunk) *
                       packed_chunk_floats(smaller(depth, kDotChunk), plan.slice_columns);
  plan.one_slice = plan.slice_columns == p.columns && plan.slice_depth == depth;
  plan_regions(p, plan.one_slice ? kRegionFloats : kLargeRegionFloats, plan);
  const Region region{{0, plan.region_images}, {0, plan.region_rows}};
  if (needs_padding(p.grid, p.window) && !areas_pay(p, region)) {
    plan.staged_floats = staged_floats(p.grid, p.window, region);
  }
  return plan;
}

inline std::int64_t product_workspace_floats(const PixelProduct& p) {
  const ProductPlan plan = product_plan(p);
  return plan.packed_floats + plan.staged_floats;
}

// A slice of the weights in panels, [chunk][panel][k][column]: the k in [k, k + depth) and the
// columns [column, column + columns).
struct WeightSlice {
  std::int64_t k, depth, column, columns;
  const float* packed;
  std::int64_t chunk_count() const { return ceil_div(depth, kDotChunk); }
  std::int64_t chunk_depth(std::int64_t chunk) const {
    return smaller(kDotChunk, depth - chunk * kDotChunk);
  }
  std::int64_t chunk_offset(std::int64_t chunk) const {
    return chunk * packed_chunk_floats(kDotChunk, columns);
  }
};

// The runs of each chunk of a slice.
struct SliceRuns {
  Run runs[kSliceChunks][kDotChunk];
  std::int64_t count[kSliceChunks];
};

inline void find_runs(const Source& source, const Area& area, const WeightSlice& slice,
                      SliceRuns& out) {
  for (std::int64_t i = 0; i < slice.chunk_count(); ++i) {
    out.count[i] =
        area_runs(source, area, slice.k + i * kDotChunk, slice.chunk_depth(i), out.runs[i]);
  }
}

// The rows of a tile: the addresses of its pixels and of their results.
struct TileRows {
  const float* in[kNarrowTileRows];
  float* out[kNarrowTileRows];
};

// Iterates over the pixels of an area.
class PixelCursor {
 public:
  PixelCursor(const PixelProduct& p, const Source& source, const Area& area)
      : p_(p), source_(source), area_(area), n_(area.images.begin), r_(area.rows.begin) {
    start_row();
  }

  void next(std::int64_t count, TileRows& rows) {
    for (std::int64_t i = 0; i < count; ++i) {
      rows.in[i] = in_;
      rows.out[i] = out_;
      in_ += in_step_;
      out_ += p_.col_step;
      if (++q_ < area_.cols.end) continue;
      if (++r_ == area_.rows.end) {
        r_ = area_.rows.begin;
        ++n_;
      }
      if (n_ < area_.images.end) start_row();
    }
  }

 private:
  void start_row() {
    q_ = area_.cols.begin;
    in_step_ = area_.positions() == 0 ? 0 : source_.stride * source_.c;
    in_ = source_.x + area_origin(source_, area_, n_, r_, q_);
    out_ = p_.out + n_ * p_.image_step + r_ * p_.row_step + q_ * p_.col_step;
  }

  const PixelProduct& p_;
  const Source& source_;
  const Area& area_;
  std::int64_t n_, r_, q_ = 0, in_step_ = 0;
  const float* in_ = nullptr;
  float* out_ = nullptr;
};

// Multiplies one tile of pixels by a slice. The chunks of K are added to the result in ascending
// order.
inline void multiply_rows(const PixelProduct& p, const WeightSlice& slice, const SliceRuns& runs,
                          std::int64_t row_count, const TileRows& rows) {
  for (std::int64_t i = 0; i < slice.chunk_count(); ++i) {
    const std::int64_t depth = slice.chunk_depth(i), k = slice.k + i * kDotChunk;
    const bool last = k + depth == p.window.depth();
    const float* panel = slice.packed + slice.chunk_offset(i);
    for (std::int64_t column = 0; column < slice.columns; column += kPanelWidth) {
      const std::int64_t width = smaller(kPanelWidth, slice.columns - column);
      run_tile<ALayout::kRows>(row_count, {.a_rows = rows.in,
                                           .a = nullptr,
                                           .a_stride = 0,
                                           .b = panel,
                                           .b_stride = 0,
                                           .runs = runs.runs[i],
                                           .run_count = runs.count[i],
                                           .rows = rows.out,
                                           .column = slice.column + column,
                                           .width = width,
                                           .first = k == 0,
                                           .bias = last ? p.bias : nullptr});
      panel += depth * panel_stride(width) + kPanelGap;
    }
  }
}

inline void multiply_area(const PixelProduct& p, const Source& source, const Area& area,
                          const WeightSlice& slice) {
  SliceRuns runs;
  find_runs(source, area, slice, runs);
  PixelCursor cursor(p, source, area);
  TileRows rows;
  for (std::int64_t left = area.pixels(); left > 0;) {
    const std::int64_t count = next_tile_rows(left, most_tile_rows(slice.columns));
    cursor.next(count, rows);
    multiply_rows(p, slice, runs, count, rows);
    left -= count;
  }
}

// Calls body(region) for all regions of a plan.
template <class Body>
void for_each_region(const PixelProduct& p, const ProductPlan& plan, Body body) {
  for (std::int64_t image = 0; image < p.images; image += plan.region_images) {
    for (std::int64_t row = 0; row < p.grid.rows; row += plan.region_rows) {
      body(Region{{image, smaller(p.images, image + plan.region_images)},
                  {row, smaller(p.grid.rows, row + plan.region_rows)}});
    }
  }
}

// Calls body(slice) for all slices of a plan. k ascends for each column, as DOT requires.
template <class Body>
void for_each_slice(const PixelProduct& p, const ProductPlan& plan, const float* packed,
                    Body body) {
  for (std::int64_t column = 0; column < p.columns; column += plan.slice_columns) {
    for (std::int64_t k = 0; k < p.window.depth(); k += plan.slice_depth) {
      body(WeightSlice{k, smaller(plan.slice_depth, p.window.depth() - k), column,
                       smaller(plan.slice_columns, p.columns - column), packed});
    }
  }
}

// pack(group, k, depth, column, columns, out) writes the panels of that part of the weights. All
// groups of a region are computed before the next region, because groups read and write different
// floats of the same cache lines.
template <class Pack>
void multiply_pixels(const PixelProduct& p, Pack pack, float* ws) {
  const ProductPlan plan = product_plan(p);
  float* packed = ws;
  bool is_packed = false;
  for_each_region(p, plan, [&](const Region& region) {
    Source source = plan.staged_floats > 0
                        ? stage(p.grid, p.window, region, ws + plan.packed_floats)
                        : source_in_place(p.grid, p.window);
    PixelProduct group = p;
    for (std::int64_t g = 0; g < p.groups; ++g) {
      for_each_slice(p, plan, packed, [&](const WeightSlice& slice) {
        for (std::int64_t i = 0; !is_packed && i < slice.chunk_count(); ++i) {
          pack(g, slice.k + i * kDotChunk, slice.chunk_depth(i), slice.column, slice.columns,
               packed + slice.chunk_offset(i));
        }
        is_packed = plan.one_slice && p.groups == 1;
        for_each_area(source, region, p.grid.cols,
                      [&](const Area& area) { multiply_area(group, source, area, slice); });
      });
      source.window.channel += p.in_group_step;
      group.out += p.out_group_step;
      if (group.bias != nullptr) group.bias += p.out_group_step;
    }
  });
}

}  // namespace
}  // namespace es::gpu
