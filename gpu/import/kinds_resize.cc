// Resizing: one spatial axis after the other, each as a weighted sum of elements of the axis.
#include <algorithm>
#include <cmath>
#include <vector>

#include "gpu/import/composed.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// The place along an axis that an output element reads: `whole` + `part`, with part in [0, 1).
struct Place {
  std::int64_t whole;
  double part;
};

// Only the division that gives `part` is rounded.
Place quotient(std::int64_t numerator, std::int64_t denominator) {
  std::int64_t whole = numerator / denominator, rest = numerator % denominator;
  if (rest < 0) {
    --whole;
    rest += denominator;
  }
  return {whole, static_cast<double>(rest) / static_cast<double>(denominator)};
}

// An axis of `size` elements that gets `outputs` elements.
struct ResizedAxis {
  std::int64_t size, outputs;
  bool align_corners;

  // With aligned corners the first and the last elements fall on each other; otherwise elements are
  // intervals of equal length, which are read at their centres.
  Place place(std::int64_t i) const {
    if (align_corners) return outputs == 1 ? Place{0, 0.0} : quotient(i * (size - 1), outputs - 1);
    // (i + 1/2) size / outputs - 1/2 as one quotient of integers.
    return quotient((2 * i + 1) * size - outputs, 2 * outputs);
  }
  // An element beyond the edge is the outermost one.
  std::int32_t inside(std::int64_t index) const {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(index, 0, size - 1));
  }
};

// One term of the weighted sums: the element that each output reads, and its weight.
struct Tap {
  std::vector<std::int32_t> index;
  std::vector<float> weight;  // empty: 1

  void add(std::int32_t i, double w) {
    index.push_back(i);
    weight.push_back(static_cast<float>(w));
  }
};

// PyTorch multiplies by the rounded ratio, which decides the element where the product is near an
// integer.
std::vector<Tap> nearest_taps(const ResizedAxis& axis) {
  const float ratio = static_cast<float>(axis.size) / static_cast<float>(axis.outputs);
  std::vector<Tap> taps(1);
  for (std::int64_t i = 0; i < axis.outputs; ++i)
    taps[0].index.push_back(
        axis.inside(static_cast<std::int64_t>(std::floor(static_cast<float>(i) * ratio))));
  return taps;
}

std::vector<Tap> linear_taps(const ResizedAxis& axis) {
  std::vector<Tap> taps(2);
  for (std::int64_t i = 0; i < axis.outputs; ++i) {
    const Place p = axis.place(i);
    // PyTorch limits the place to 0 from below in the linear mode, but not in the cubic one.
    const double part = p.whole < 0 ? 0.0 : p.part;
    taps[0].add(axis.inside(p.whole), 1.0 - part);
    taps[1].add(axis.inside(std::max<std::int64_t>(p.whole, 0) + 1), part);
  }
  return taps;
}

// The weight of an element at a distance of at most 2, by cubic convolution with a = -0.75.
double cubic_weight(double distance) {
  constexpr double kA = -0.75;
  const double d = distance;
  return d <= 1.0 ? ((kA + 2.0) * d - (kA + 3.0)) * d * d + 1.0
                  : ((kA * d - 5.0 * kA) * d + 8.0 * kA) * d - 4.0 * kA;
}

std::vector<Tap> cubic_taps(const ResizedAxis& axis) {
  std::vector<Tap> taps(4);
  for (std::int64_t i = 0; i < axis.outputs; ++i) {
    const Place p = axis.place(i);
    for (int t = 0; t < 4; ++t)
      taps[static_cast<std::size_t>(t)].add(axis.inside(p.whole + t - 1),
                                            cubic_weight(std::abs(p.part + 1.0 - t)));
  }
  return taps;
}

std::vector<Tap> taps_of(const std::string& mode, const ResizedAxis& axis) {
  if (mode == "nearest") return nearest_taps(axis);
  return mode == "linear" ? linear_taps(axis) : cubic_taps(axis);
}

TensorId weighted(GraphBuilder& b, const std::string& name, TensorId x, int axis, const Tap& tap) {
  const TensorId y = take_along(b, name, x, axis, tap.index);
  if (tap.weight.empty()) return y;
  TensorShape shape{static_cast<std::int64_t>(tap.weight.size())};
  for (int a = axis + 1; a < b.shape(x).rank(); ++a) shape.append(1);
  return b.binary(name, Function::kMul, y, b.constant(name, shape, tap.weight));
}

TensorId resized(GraphBuilder& b, const std::string& name, TensorId x, int axis,
                 const std::vector<Tap>& taps) {
  TensorId sum = weighted(b, name, x, axis, taps[0]);
  for (std::size_t t = 1; t < taps.size(); ++t)
    sum = b.binary(name, Function::kAdd, sum, weighted(b, name, x, axis, taps[t]));
  return sum;
}

// Doubling an image has an operator of its own, which needs no list of indices.
bool doubles_image(const NodeView& node) {
  const TensorShape &x = node.shape(), &y = node.out().shape;
  return node.text("mode") == "nearest" && x.rank() == 4 && y[2] == 2 * x[2] && y[3] == 2 * x[3];
}

void lower_resize(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const AxisOrder order = channels_last(node.shape().rank());
  TensorId x = l.in(node, 0, order);
  if (doubles_image(node)) return l.set(node, b.upsample2(name, x), order);
  for (int axis = 2; axis < node.shape().rank(); ++axis) {
    const ResizedAxis along{node.shape()[axis], node.out().shape[axis], node.flag("align_corners")};
    // With as many outputs as elements every output is its own element, in each of the modes.
    if (along.size == along.outputs) continue;
    x = resized(b, name, x, axis - 1, taps_of(node.text("mode"), along));
  }
  l.set(node, x, order);
}

// The elements that are taken are numbered. Between two axes a tensor has the larger extent of each
// axis at most.
std::string resize_unsupported(const NodeView& node) {
  if (doubles_image(node)) return "";
  double elements = 1.0;
  for (int axis = 0; axis < node.shape().rank(); ++axis)
    elements *= static_cast<double>(std::max(node.shape()[axis], node.out().shape[axis]));
  return elements > static_cast<double>(kTakeElementsMax) ? "2^31 elements or more" : "";
}

Outputs resize_outputs(const NodeView& node) {
  if (node.text("mode") == "nearest" && node.flag("align_corners"))
    return usage_error("align_corners = true: allowed for mode \"nearest\" is false");
  return sized_outputs(node);
}

}  // namespace

std::vector<Kind> resize_kinds() {
  return {
      {.name = "resize",
       .result = "x in this size",
       .slots = {{.name = "x", .types = "f", .shape = "[n,c,spatial...]"}},
       .attributes = {integers("size", 1, kSpatialMax),
                      text("mode", {"nearest", "linear", "cubic"}),
                      flag("align_corners").or_else(0.0)},
       .outputs = resize_outputs,
       .unsupported = resize_unsupported,
       .lower = lower_resize},
  };
}

}  // namespace es::gpu
