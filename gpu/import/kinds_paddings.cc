// Padding, one axis after the other.
#include <algorithm>
#include <cmath>

#include "gpu/import/composed.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kFarthest = std::int64_t{1} << 40;

Outputs pad_outputs(const NodeView& node) {
  const int rank = node.shape().rank();
  ES_RETURN_IF_ERROR(check_length(node.integers("before"), rank, "before"));
  ES_RETURN_IF_ERROR(check_length(node.integers("after"), rank, "after"));
  TensorShape y = node.shape();
  for (int axis = 0; axis < rank; ++axis) {
    const auto d = static_cast<std::size_t>(axis);
    y[axis] += node.integers("before")[d] + node.integers("after")[d];
    if (y[axis] < 1) return usage_error("nothing is left of axis " + std::to_string(axis));
  }
  return one_output(node.in().type, y);
}

// What a padding of an axis puts before and after the tensor; `extent` is its present extent.
struct Side {
  TensorId x;
  int axis;
  std::int64_t extent, words;
  bool before;
};

using Fill = TensorId (*)(Lowering&, const NodeView&, const Side&);

TensorId padded(Lowering& l, const NodeView& node, TensorId x, int axis, std::int64_t before,
                std::int64_t after, Fill fill) {
  // An earlier axis may have grown already, so its padding is repeated along this one, which fills
  // the corners as PyTorch does.
  const std::int64_t extent = l.builder().shape(x)[axis];
  std::vector<TensorId> parts;
  if (before > 0) parts.push_back(fill(l, node, {x, axis, extent, before, true}));
  parts.push_back(x);
  if (after > 0) parts.push_back(fill(l, node, {x, axis, extent, after, false}));
  return concat_all(l.builder(), node.label(), std::move(parts), axis);
}

TensorId fill_value(Lowering& l, const NodeView& node, const Side& s) {
  GraphBuilder& b = l.builder();
  // A padding of truth values has 1 for every value that is not 0, as in PyTorch.
  const bool truth = node.in().type == ValueType::kBool;
  const double value = truth ? node.number("value") != 0.0 : node.number("value");
  // The high word of an integer of 64 bits.
  const std::int64_t word = static_cast<std::int64_t>(value) >> (l.high_word() ? 32 : 0);
  const TensorId one = b.type(s.x) == ElementType::kI32
                           ? b.constant_ids(node.label(), {1}, {static_cast<std::int32_t>(word)})
                           : b.constant(node.label(), {1}, {static_cast<float>(value)});
  return b.expand(node.label(), one, with_extent(b.shape(s.x), s.axis, s.words));
}

// Padding takes the elements next to the edge, without the edge, in reverse. Before the tensor it
// begins with element `words`, and after it with the last but one.
TensorId fill_reflected(Lowering& l, const NodeView& node, const Side& s) {
  const std::int64_t begin = s.before ? s.words : s.extent - 2;
  return l.builder().strided_slice(node.label(), s.x, s.axis, begin, -1, s.words);
}

TensorId fill_replicated(Lowering& l, const NodeView& node, const Side& s) {
  GraphBuilder& b = l.builder();
  const TensorId edge = b.slice(node.label(), s.x, s.axis, s.before ? 0 : s.extent - 1, 1);
  return b.expand(node.label(), edge, with_extent(b.shape(s.x), s.axis, s.words));
}

TensorId fill_circular(Lowering& l, const NodeView& node, const Side& s) {
  const std::int64_t begin = s.before ? s.extent - s.words : 0;
  return l.builder().slice(node.label(), s.x, s.axis, begin, s.words);
}

template <Fill kFill>
void lower_padding(Lowering& l, const NodeView& node) {
  const StoredValue from = l.stored(node.input(0));
  TensorId x = from.tensor;
  for (int place = 0; place < node.shape().rank(); ++place) {
    const auto axis = static_cast<std::size_t>(from.order[static_cast<std::size_t>(place)]);
    const std::int64_t before = node.integers("before")[axis], after = node.integers("after")[axis];
    x = padded(l, node, x, place, before, after, kFill);
    // A negative padding cuts elements off, as in PyTorch. It is last, because it may leave nothing
    // but the padding of the other side.
    if (before < 0 || after < 0)
      x = l.builder().slice(node.label(), x, place, std::max<std::int64_t>(0, -before),
                            node.out().shape[static_cast<int>(axis)]);
  }
  l.set(node, x, from.order);
}

// Zeros are the words that a move does not write, so one move pads without a tensor of zeros. A
// padding that cuts, or has another value, takes the general way.
void lower_pad(Lowering& l, const NodeView& node) {
  const std::vector<std::int64_t> befores = node.integers("before");
  const bool grows =
      std::all_of(befores.begin(), befores.end(), [](std::int64_t n) { return n >= 0; });
  if (node.number("value") != 0.0 || !grows) return lower_padding<fill_value>(l, node);
  const StoredValue from = l.stored(node.input(0));
  TensorId x = from.tensor;
  for (int place = 0; place < node.shape().rank(); ++place) {
    const auto axis = static_cast<std::size_t>(from.order[static_cast<std::size_t>(place)]);
    const std::int64_t before = node.integers("before")[axis], after = node.integers("after")[axis];
    if (after < 0) return lower_padding<fill_value>(l, node);
    if (before + after > 0) x = l.builder().pad(node.label(), x, place, before, after);
  }
  l.set(node, x, from.order);
}

// The padding of an axis comes from the axis itself, without `spared` elements at the edge: 1 for
// reflections, which do not repeat the edge, and 0 for the circular mode.
Outputs copied_outputs(const NodeView& node, std::int64_t spared) {
  const Outputs outputs = pad_outputs(node);
  if (!outputs) return outputs;
  for (int axis = 0; axis < node.shape().rank(); ++axis) {
    const auto d = static_cast<std::size_t>(axis);
    const std::int64_t most = std::max(node.integers("before")[d], node.integers("after")[d]);
    if (most > node.shape()[axis] - spared)
      return usage_error("a padding of " + std::to_string(most) + " along axis " +
                         std::to_string(axis) + " of x " + shape_text(node.shape()) +
                         ": allowed are at most " + std::to_string(node.shape()[axis] - spared));
  }
  return outputs;
}

Outputs reflect_outputs(const NodeView& node) {
  return copied_outputs(node, 1);
}
Outputs circular_outputs(const NodeView& node) {
  return copied_outputs(node, 0);
}

std::string pad_unsupported(const NodeView& node) {
  const double value = node.number("value");
  const bool fits = node.in().type == ValueType::kI64   ? std::abs(value) < 0x1p63
                    : node.in().type == ValueType::kI32 ? std::abs(value) < 0x1p31
                                                        : true;
  return fits ? "" : std::string("a value that does not fit ") + type_name(node.in().type);
}

}  // namespace

std::vector<Kind> padding_kinds() {
  std::vector<Kind> kinds{
      {.name = "pad",
       .result = "x with a number of elements for each axis; a negative one cuts off",
       .slots = {{"x", "fibl"}},
       .attributes = {integers("before", -kFarthest, kFarthest),
                      integers("after", -kFarthest, kFarthest), number("value").or_else(0.0)},
       .outputs = pad_outputs,
       .unsupported = pad_unsupported,
       .lower = lower_pad},
  };
  const auto padding = [&](const char* name, const char* result,
                           Outputs (*outputs)(const NodeView&),
                           void (*lower)(Lowering&, const NodeView&)) {
    kinds.push_back(
        {.name = name,
         .result = result,
         .slots = {{"x", "fibl"}},
         .attributes = {integers("before", 0, kFarthest), integers("after", 0, kFarthest)},
         .outputs = outputs,
         .lower = lower});
  };
  padding("pad_reflect", "x, continued as its mirror image", reflect_outputs,
          lower_padding<fill_reflected>);
  padding("pad_replicate", "x, continued by its last elements", pad_outputs,
          lower_padding<fill_replicated>);
  padding("pad_circular", "x, continued by its other end", circular_outputs,
          lower_padding<fill_circular>);
  return kinds;
}

}  // namespace es::gpu
