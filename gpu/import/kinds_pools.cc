// Pooling.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "gpu/import/composed.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// The number of windows along one axis. In ceil mode the last window may end outside, but begins
// inside the input or the padding before it.
struct Windows {
  std::int64_t size, kernel, stride, padding, dilation;
  bool ceil;
  std::int64_t count() const {
    const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    const std::int64_t reach = ceil ? room + stride - 1 : room;
    if (reach < 0) return 0;
    std::int64_t windows = reach / stride + 1;
    // PyTorch leaves out a last window that would lie in the padding behind the input.
    if (ceil && (windows - 1) * stride >= size + padding) --windows;
    return windows;
  }
};

Outputs window_outputs(const NodeView& node, bool dilated) {
  ES_RETURN_IF_ERROR(check_spatial_input(node, {"kernel", "stride", "padding"}));
  if (dilated) ES_RETURN_IF_ERROR(check_spatial(node, {"dilation"}));
  const TensorShape& x = node.shape();
  TensorShape y{x[0], x[1]};
  for (int axis = 2; axis < x.rank(); ++axis) {
    const auto d = static_cast<std::size_t>(axis) - 2;
    const Windows windows{x[axis],
                          node.integers("kernel")[d],
                          node.integers("stride")[d],
                          node.integers("padding")[d],
                          dilated ? node.integers("dilation")[d] : 1,
                          node.flag("ceil")};
    // PyTorch has the same limit. It keeps the first window from lying in the padding.
    if (2 * windows.padding > windows.kernel)
      return usage_error("padding = " + std::to_string(windows.padding) +
                         ": allowed is at most half of the kernel");
    if (windows.count() < 1)
      return usage_error("a window of " + std::to_string(windows.kernel) +
                         " does not fit its input " + shape_text(x));
    y.append(windows.count());
  }
  return one_output(ValueType::kF32, y);
}

Outputs max_pool_outputs(const NodeView& node) {
  return window_outputs(node, true);
}
Outputs avg_pool_outputs(const NodeView& node) {
  return window_outputs(node, false);
}

// --- Lowering. A tensor is [n,d,h,w,c]; missing axes in front of h and w have one element.

// The windows along one axis.
struct Line {
  std::int64_t size = 1, windows = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;

  // The position of the first cell, which may be in the padding.
  std::int64_t begin(std::int64_t window) const { return window * stride - pad; }
  // More padding, which the last window of ceil mode needs.
  std::int64_t end() const {
    return std::max<std::int64_t>(0, (windows - 1) * stride + kernel - size - 2 * pad);
  }
  bool trivial() const { return kernel == 1 && stride == 1 && pad == 0; }
  bool dilated() const { return dilation != 1; }
  // The first real cell of a window, and how many it has.
  std::int64_t first(std::int64_t window) const {
    // The smallest tap whose cell begin + tap * dilation is not before the input.
    return begin(window) >= 0 ? 0 : (-begin(window) + dilation - 1) / dilation;
  }
  std::int64_t cells(std::int64_t window) const {
    const std::int64_t room = (size - begin(window) + dilation - 1) / dilation;
    return std::min(kernel, room) - first(window);
  }
};

// Along d, h and w.
using Lines = std::array<Line, 3>;

Lines lines_of(const NodeView& node) {
  Lines lines;
  const int axes = node.shape().rank() - 2;
  const std::size_t first = lines.size() - static_cast<std::size_t>(axes);
  for (int i = 0; i < axes; ++i) {
    const auto at = static_cast<std::size_t>(i);
    Line& line = lines[first + at];
    line = {node.shape()[i + 2],         node.out().shape[i + 2],      node.integers("kernel")[at],
            node.integers("stride")[at], node.integers("padding")[at], 1};
    if (node.kind().name == std::string_view("max_pool"))
      line.dilation = node.integers("dilation")[at];
  }
  return lines;
}

// A tensor with the words of [n,d,h,w,c]; it has this shape or another one, since a view of it
// costs nothing.
struct Volume {
  TensorId tensor;
  TensorShape shape;
};

constexpr int kDepth = 1, kHeight = 2, kWidth = 3;  // axes of a volume

TensorShape volume_shape(const TensorShape& x) {
  TensorShape shape{x[0]};
  for (int axis = x.rank(); axis < 5; ++axis) shape.append(1);
  for (int axis = 2; axis < x.rank(); ++axis) shape.append(x[axis]);
  shape.append(x[1]);
  return shape;
}

Volume volume(Lowering& l, const NodeView& node) {
  return {l.in(node, 0, channels_last(node.shape().rank())), volume_shape(node.shape())};
}

void set_volume(Lowering& l, const NodeView& node, const Volume& y) {
  l.set(node, y.tensor, channels_last(node.shape().rank()));
}

// The depths of a volume as images of their own.
TensorId as_images(GraphBuilder& b, const std::string& name, const Volume& x) {
  const TensorShape& s = x.shape;
  return b.reshape(name, x.tensor, {s[0] * s[1], s[2], s[3], s[4]});
}

// One image for each place before the axis. The axis is its height, and the axes behind its width.
TensorId as_lines(GraphBuilder& b, const std::string& name, const Volume& x, int axis) {
  const TensorShape& s = x.shape;
  return b.reshape(name, x.tensor, {s.count(0, axis), s[axis], s.count(axis + 1, 4), s[4]});
}

using Pool = TensorId (GraphBuilder::*)(const std::string&, TensorId, const PoolOptions&);

Volume pool_along(GraphBuilder& b, const std::string& name, Pool pool, const Volume& x, int axis,
                  const Line& line) {
  if (line.trivial()) return x;
  const TensorId y = (b.*pool)(name, as_lines(b, name, x, axis),
                               {.kernel = line.kernel,
                                .stride = line.stride,
                                .pad = line.pad,
                                .kernel_w = 1,
                                .stride_w = 1,
                                .pad_w = 0,
                                .end_h = line.end()});
  return {y, with_extent(x.shape, axis, line.windows)};
}

// Pools images along h and w, and then volumes along d. This order is a part of the definition for
// averages, whose additions would round differently in another one.
Volume pool_volume(GraphBuilder& b, const std::string& name, Pool pool, const Volume& x,
                   const Lines& lines) {
  const auto& [d, h, w] = lines;
  Volume y = x;
  if (!h.trivial() || !w.trivial()) {
    y.tensor = (b.*pool)(name, as_images(b, name, x),
                         {.kernel = h.kernel,
                          .stride = h.stride,
                          .pad = h.pad,
                          .kernel_w = w.kernel,
                          .stride_w = w.stride,
                          .pad_w = w.pad,
                          .end_h = h.end(),
                          .end_w = w.end()});
    y.shape[kHeight] = h.windows;
    y.shape[kWidth] = w.windows;
  }
  return pool_along(b, name, pool, y, kDepth, d);
}

// --- Maxima. The maximum of a window is the maximum of the maxima of its parts, and the first of
// equal elements is found in any division that keeps the order.

Volume taken(GraphBuilder& b, const std::string& name, const Volume& x, int axis,
             const std::vector<std::int32_t>& index) {
  return {take_along(b, name, b.reshape(name, x.tensor, x.shape), axis, index),
          with_extent(x.shape, axis, static_cast<std::int64_t>(index.size()))};
}

// Puts the windows of an axis side by side, with `kernel` cells each. A cell that a window lacks is
// its nearest real cell, which changes neither the maximum nor the first place that has it. The
// pool of these windows then has no dilation and no padding.
Volume side_by_side(GraphBuilder& b, const std::string& name, const Volume& x, int axis,
                    const Line& line, std::int64_t kernel) {
  std::vector<std::int32_t> index;
  for (std::int64_t window = 0; window < line.windows; ++window) {
    const std::int64_t first = line.first(window), last = first + line.cells(window) - 1;
    for (std::int64_t tap = 0; tap < kernel; ++tap)
      index.push_back(static_cast<std::int32_t>(line.begin(window) +
                                                std::clamp(tap, first, last) * line.dilation));
  }
  return taken(b, name, x, axis, index);
}

Line whole_windows(std::int64_t windows, std::int64_t kernel) {
  return {windows * kernel, windows, kernel, kernel};
}

// A window of many cells is divided into parts of kMaxPoolCells, whose maxima form a window of
// fewer cells, until one pool can read it. The kernel stores the winner of a window as one byte.
Volume max_along(GraphBuilder& b, const std::string& name, Volume x, int axis, Line line) {
  while (line.kernel > kMaxPoolCells) {
    const std::int64_t parts = (line.kernel + kMaxPoolCells - 1) / kMaxPoolCells;
    x = side_by_side(b, name, x, axis, line, parts * kMaxPoolCells);
    x = pool_along(b, name, &GraphBuilder::max_pool, x, axis,
                   whole_windows(line.windows * parts, kMaxPoolCells));
    line = whole_windows(line.windows, parts);
  }
  return pool_along(b, name, &GraphBuilder::max_pool, x, axis, line);
}

// Whether one pool can read these windows where they lie.
bool fits_one_pool(const Lines& lines) {
  const auto& [d, h, w] = lines;
  return h.kernel * w.kernel <= kMaxPoolCells && d.kernel <= kMaxPoolCells;
}

Volume max_of_windows(GraphBuilder& b, const std::string& name, Volume x, Lines lines) {
  for (int axis = kDepth; axis <= kWidth; ++axis) {
    Line& line = lines[static_cast<std::size_t>(axis - kDepth)];
    if (!line.dilated()) continue;
    x = side_by_side(b, name, x, axis, line, line.kernel);
    line = whole_windows(line.windows, line.kernel);
  }
  if (fits_one_pool(lines)) return pool_volume(b, name, &GraphBuilder::max_pool, x, lines);
  const auto& [d, h, w] = lines;
  x = max_along(b, name, x, kWidth, w);
  x = max_along(b, name, x, kHeight, h);
  return max_along(b, name, x, kDepth, d);
}

// The import lists the cells of windows that are put side by side, so their number is limited to 64
// MiB of indices for an axis.
constexpr std::int64_t kListedCellsMax = 1 << 24;

std::string cells_unsupported(const NodeView& node, const Lines& lines) {
  if (node.shape().count() > kTakeElementsMax) return "2^31 elements or more";
  for (const Line& line : lines)
    if (line.windows > kListedCellsMax / line.kernel)
      return "windows with more than 2^24 cells along an axis";
  return "";
}

std::string max_pool_unsupported(const NodeView& node) {
  const Lines lines = lines_of(node);
  const bool lists_cells = !fits_one_pool(lines) || std::ranges::any_of(lines, &Line::dilated);
  const std::string reason = lists_cells ? cells_unsupported(node, lines) : "";
  if (!reason.empty()) return reason;
  for (const Line& line : lines)
    for (std::int64_t window = 0; window < line.windows; ++window)
      if (line.cells(window) < 1) return "a window inside the padding";
  return "";
}

void lower_max_pool(Lowering& l, const NodeView& node) {
  set_volume(l, node, max_of_windows(l.builder(), node.label(), volume(l, node), lines_of(node)));
}

// The windows of adaptive pooling are of equal length only if the extents are multiples of their
// number. Otherwise the windows are copied side by side, with the length of the longest one: a
// shorter one repeats its last cell, which wins nothing.
struct AdaptiveLine {
  std::int64_t size, windows;
  std::int64_t begin(std::int64_t i) const { return i * size / windows; }
  std::int64_t end(std::int64_t i) const { return ((i + 1) * size + windows - 1) / windows; }
  bool regular() const { return size % windows == 0; }
  std::int64_t longest() const {
    std::int64_t cells = 1;
    for (std::int64_t i = 0; i < windows; ++i) cells = std::max(cells, end(i) - begin(i));
    return cells;
  }
};

AdaptiveLine adaptive_line(const NodeView& node, int axis) {
  return {node.shape()[axis], node.out().shape[axis]};
}

// The lines of the windows when they lie side by side.
Lines adaptive_lines(const NodeView& node) {
  Lines lines;
  const int rank = node.shape().rank();
  for (int axis = 2; axis < rank; ++axis) {
    const AdaptiveLine line = adaptive_line(node, axis);
    lines[static_cast<std::size_t>(axis + 3 - rank)] = whole_windows(line.windows, line.longest());
  }
  return lines;
}

std::string adaptive_max_pool_unsupported(const NodeView& node) {
  return cells_unsupported(node, adaptive_lines(node));
}

void lower_adaptive_max_pool(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  Volume x = volume(l, node);
  const Lines lines = adaptive_lines(node);
  const int rank = node.shape().rank();
  for (int axis = 2; axis < rank; ++axis) {
    const AdaptiveLine line = adaptive_line(node, axis);
    if (line.regular()) continue;
    const std::int64_t kernel = lines[static_cast<std::size_t>(axis + 3 - rank)].kernel;
    std::vector<std::int32_t> index;
    for (std::int64_t window = 0; window < line.windows; ++window)
      for (std::int64_t cell = 0; cell < kernel; ++cell)
        index.push_back(
            static_cast<std::int32_t>(std::min(line.begin(window) + cell, line.end(window) - 1)));
    x = taken(b, node.label(), x, axis + 4 - rank, index);
  }
  set_volume(l, node, max_of_windows(b, node.label(), x, lines));
}

// --- Averages. The number of real cells of a window is the product of those along the axes, so the
// mean of a volume is the mean along d of the means of images.

// Padding that counts is a part of the input: the tensor is padded with zeros first, and the pool
// then divides by all cells.
void lower_avg_pool(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  Lines lines = lines_of(node);
  Volume x = volume(l, node);
  for (int axis = kDepth; node.flag("count_include_pad") && axis <= kWidth; ++axis) {
    Line& line = lines[static_cast<std::size_t>(axis - kDepth)];
    if (line.pad == 0) continue;
    x.tensor = b.pad(node.label(), as_lines(b, node.label(), x, axis), 1, line.pad, line.pad);
    x.shape[axis] += 2 * line.pad;
    line.size += 2 * line.pad;
    line.pad = 0;
  }
  set_volume(l, node, pool_volume(b, node.label(), &GraphBuilder::avg_pool, x, lines));
}

// A volume is pooled as images, and then along d with the pixels as columns.
void lower_adaptive_avg_pool(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const Volume x = volume(l, node);
  const TensorShape out = volume_shape(node.out().shape);
  const TensorId images = as_images(b, name, x);
  Volume y{out[2] == 1 && out[3] == 1 ? b.global_avg_pool(name, images)
                                      : b.adaptive_avg_pool(name, images, out[2], out[3]),
           with_extent(out, kDepth, x.shape[kDepth])};
  if (x.shape[kDepth] > 1 || out[kDepth] > 1)
    y = {b.adaptive_avg_pool(name, as_lines(b, name, y, kDepth), out[1], out[2] * out[3]), out};
  set_volume(l, node, y);
}

std::vector<AttributeRule> window_attributes() {
  return {integers("kernel", 1, kSpatialMax), integers("stride", 1, kSpatialMax),
          integers("padding", 0, kSpatialMax), flag("ceil").or_else(0.0)};
}

}  // namespace

std::vector<Kind> pool_kinds() {
  std::vector<AttributeRule> of_max = window_attributes(), of_average = window_attributes();
  of_max.push_back(integers("dilation", 1, kSpatialMax));
  of_average.push_back(flag("count_include_pad").or_else(1.0));
  return {
      {.name = "max_pool",
       .result = "the largest element of each window",
       .slots = {{.name = "x", .types = "f", .shape = "[n,c,spatial...]"}},
       .attributes = std::move(of_max),
       .outputs = max_pool_outputs,
       .unsupported = max_pool_unsupported,
       .lower = lower_max_pool},
      {.name = "avg_pool",
       .result = "the mean of each window",
       .slots = {{.name = "x", .types = "f", .shape = "[n,c,spatial...]"}},
       .attributes = std::move(of_average),
       .outputs = avg_pool_outputs,
       .lower = lower_avg_pool},
      {.name = "adaptive_avg_pool",
       .result = "the mean of each of the `size` windows that cover x",
       .slots = {{.name = "x", .types = "f", .shape = "[n,c,spatial...]"}},
       .attributes = {integers("size", 1, kSpatialMax)},
       .outputs = sized_outputs,
       .lower = lower_adaptive_avg_pool},
      {.name = "adaptive_max_pool",
       .result = "the largest element of each of the `size` windows that cover x",
       .slots = {{.name = "x", .types = "f", .shape = "[n,c,spatial...]"}},
       .attributes = {integers("size", 1, kSpatialMax)},
       .outputs = sized_outputs,
       .unsupported = adaptive_max_pool_unsupported,
       .lower = lower_adaptive_max_pool},
  };
}

}  // namespace es::gpu
