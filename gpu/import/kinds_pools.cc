// Pooling.
#include <algorithm>
#include <limits>

#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/spatial_rules.h"

namespace es::gpu {
namespace {

// The number of windows along one axis. In ceil mode the last window may end outside, but begins
// inside the input or the padding before it.
struct Windows {
  std::int64_t size, kernel, stride, padding, dilation;
  bool ceil;
  std::int64_t count() const {
    const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    if (room < 0) return 0;
    std::int64_t windows = (ceil ? room + stride - 1 : room) / stride + 1;
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

// --- Lowering.

// A pool of a value with one or two spatial axes, as windows over an image.
struct ImagePool {
  explicit ImagePool(const NodeView& node) : shape(node.shape()) {
    const bool row = shape.rank() == 3;  // [n,c,l] is an image with one line
    const auto pair = [&](const char* name, std::int64_t line) {
      std::vector<std::int64_t> both = node.integers(name);
      if (row) both.insert(both.begin(), line);
      return both;
    };
    kernel = pair("kernel", 1);
    stride = pair("stride", node.integers("stride")[0]);
    pad = pair("padding", 0);
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t size = row ? (d == 0 ? 1 : shape[2]) : shape[static_cast<int>(d) + 2];
      const std::int64_t windows =
          row && d == 0 ? 1 : node.out().shape[static_cast<int>(d) + (row ? 1 : 2)];
      end.push_back(
          std::max<std::int64_t>(0, (windows - 1) * stride[d] + kernel[d] - size - 2 * pad[d]));
    }
  }

  bool equal_pads() const { return pad[0] == pad[1] && pad[0] < kernel[0] && pad[1] < kernel[1]; }

  TensorId input(Lowering& l, const NodeView& node) const {
    const AxisOrder order = channels_last(shape.rank());
    const TensorId x = l.in(node, 0, order);
    return shape.rank() == 4
               ? x
               : l.builder().reshape(node.label(), x, {shape[0], 1, shape[2], shape[1]});
  }

  PoolOptions options() const {
    return {.kernel = kernel[0],
            .stride = stride[0],
            .pad = equal_pads() ? pad[0] : 0,
            .kernel_w = kernel[1],
            .end_h = end[0],
            .end_w = end[1]};
  }

  TensorShape shape;
  std::vector<std::int64_t> kernel, stride, pad, end;  // along h and w
};

std::string window_unsupported(const NodeView& node) {
  if (node.shape().rank() == 5) return "3-d";
  const ImagePool pool(node);
  if (pool.stride[0] != pool.stride[1]) return "strides that differ";
  if (pool.kernel[0] > 16 || pool.kernel[1] > 16) return "kernels above 16";
  return "";
}

std::string max_pool_unsupported(const NodeView& node) {
  for (const std::int64_t d : node.integers("dilation"))
    if (d != 1) return "dilation";
  return window_unsupported(node);
}

// Without padding that counts, the operator divides by the number of real cells, which needs equal
// paddings. With it, the last window of ceil mode still ends at the padding.
std::string avg_pool_unsupported(const NodeView& node) {
  const std::string reason = window_unsupported(node);
  if (!reason.empty() || node.flag("count_include_pad")) return reason;
  return ImagePool(node).equal_pads() ? "" : "paddings that differ";
}

// Puts the value around the image.
TensorId surrounded(GraphBuilder& b, const std::string& name, TensorId x, const ImagePool& pool,
                    float value) {
  for (int d = 0; d < 2; ++d) {
    const std::int64_t words = pool.pad[static_cast<std::size_t>(d)];
    if (words == 0) continue;
    const int axis = d == 0 ? Axis::kH : Axis::kW;
    const TensorId edge =
        b.expand(name, b.constant(name, {1}, {value}), with_extent(b.shape(x), axis, words));
    x = b.concat(name, {edge, x, edge}, axis);
  }
  return x;
}

void lower_max_pool(Lowering& l, const NodeView& node) {
  const ImagePool pool(node);
  TensorId x = pool.input(l, node);
  if (!pool.equal_pads())
    x = surrounded(l.builder(), node.label(), x, pool, -std::numeric_limits<float>::infinity());
  l.set(node, l.builder().max_pool(node.label(), x, pool.options()),
        channels_last(node.shape().rank()));
}

// Padding that counts is a part of the input.
void lower_avg_pool(Lowering& l, const NodeView& node) {
  const ImagePool pool(node);
  TensorId x = pool.input(l, node);
  PoolOptions options = pool.options();
  if (node.flag("count_include_pad")) {
    for (int d = 0; d < 2; ++d) {
      const std::int64_t words = pool.pad[static_cast<std::size_t>(d)];
      if (words > 0)
        x = l.builder().pad(node.label(), x, d == 0 ? Axis::kH : Axis::kW, words, words);
    }
    options.pad = 0;
  }
  l.set(node, l.builder().avg_pool(node.label(), x, options), channels_last(node.shape().rank()));
}

std::string adaptive_unsupported(const NodeView& node) {
  return node.shape().rank() < 5 ? "" : "3-d";
}

void lower_adaptive_avg_pool(Lowering& l, const NodeView& node) {
  const TensorShape& shape = node.shape();
  TensorId x = l.in(node, 0, channels_last(shape.rank()));
  std::vector<std::int64_t> size = node.integers("size");
  if (shape.rank() == 3) {
    size.insert(size.begin(), 1);
    x = l.builder().reshape(node.label(), x, {shape[0], 1, shape[2], shape[1]});
  }
  l.set(node,
        size == std::vector<std::int64_t>{1, 1}
            ? l.builder().global_avg_pool(node.label(), x)
            : l.builder().adaptive_avg_pool(node.label(), x, size[0], size[1]),
        channels_last(shape.rank()));
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
       .slots = {{"x", "f"}},
       .attributes = std::move(of_max),
       .outputs = max_pool_outputs,
       .unsupported = max_pool_unsupported,
       .lower = lower_max_pool},
      {.name = "avg_pool",
       .slots = {{"x", "f"}},
       .attributes = std::move(of_average),
       .outputs = avg_pool_outputs,
       .unsupported = avg_pool_unsupported,
       .lower = lower_avg_pool},
      {.name = "adaptive_avg_pool",
       .slots = {{"x", "f"}},
       .attributes = {integers("size", 1, kSpatialMax)},
       .outputs = sized_outputs,
       .unsupported = adaptive_unsupported,
       .lower = lower_adaptive_avg_pool},
      {.name = "adaptive_max_pool",
       .slots = {{"x", "f"}},
       .attributes = {integers("size", 1, kSpatialMax)},
       .outputs = sized_outputs},
  };
}

}  // namespace es::gpu
