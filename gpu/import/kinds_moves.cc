// Kinds that move values and compute nothing. They work on every type.
#include <algorithm>

#include "gpu/import/composed.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/reshape.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// The largest number of elements of a value (kValueElementsMax), so sums of such numbers do not
// overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 40;

// --- Shape rules.

// The claim is the target, so it is checked by itself.
Outputs reshape_outputs(const NodeView& node) {
  if (node.node().outputs.size() != 1) return usage_error("a reshape has one output");
  // PyTorch resolves an extent -1 when the model is captured, so the file states all of them.
  if (node.out().shape.count() != node.shape().count())
    return usage_error("x " + shape_text(node.shape()) + " does not have the elements of " +
                       shape_text(node.out().shape));
  return one_output(node.in().type, node.out().shape);
}

Outputs expand_outputs(const NodeView& node) {
  if (node.node().outputs.size() != 1) return usage_error("an expand has one output");
  if (!broadcasts_to(node.shape(), node.out().shape))
    return usage_error("x " + shape_text(node.shape()) + " cannot be broadcast to " +
                       shape_text(node.out().shape));
  return one_output(node.in().type, node.out().shape);
}

Outputs permute_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_length(node.integers("order"), node.shape().rank(), "order"));
  const Result<std::vector<int>> order =
      axes_of(node.integers("order"), node.shape().rank(), "order");
  if (!order) return order.error();
  return one_output(node.in().type, permuted_shape(node.shape(), *order));
}

Outputs slice_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_axis(node.integer("axis"), node.shape().rank()));
  const int axis = static_cast<int>(node.integer("axis"));
  const std::int64_t begin = node.integer("begin"), end = node.integer("end");
  if (begin >= end || end > node.shape()[axis])
    return usage_error("[" + std::to_string(begin) + ", " + std::to_string(end) +
                       ") is not inside axis " + std::to_string(axis) + " of x " +
                       shape_text(node.shape()));
  const std::int64_t step = node.integer("step");
  return one_output(node.in().type,
                    with_extent(node.shape(), axis, (end - begin + step - 1) / step));
}

Outputs concat_outputs(const NodeView& node) {
  const TensorShape& first = node.shape();
  ES_RETURN_IF_ERROR(check_axis(node.integer("axis"), first.rank()));
  const int axis = static_cast<int>(node.integer("axis"));
  std::int64_t total = 0;
  for (std::size_t i = 0; i < node.inputs(); ++i) {
    const ValueInfo& x = node.in(i);
    if (x.type != node.in().type || x.shape.rank() != first.rank() ||
        with_extent(x.shape, axis, 1) != with_extent(first, axis, 1))
      return usage_error("inputs " + value_text(node.in()) + " and " + value_text(x) +
                         " may differ along axis " + std::to_string(axis) + " only");
    total += x.shape[axis];
  }
  return one_output(node.in().type, with_extent(first, axis, total));
}

Outputs axis_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_axis(node.integer("axis"), node.shape().rank()));
  return same_as_input(node);
}

Outputs flip_outputs(const NodeView& node) {
  const Result<std::vector<int>> axes = axes_of(node.integers("axes"), node.shape().rank(), "axes");
  if (!axes) return axes.error();
  return same_as_input(node);
}

// --- Lowering.

void lower_permute(Lowering& l, const NodeView& node) {
  // Axis i of the output is axis order[i] of x, so the tensor stays, and its axes get new numbers.
  const std::vector<std::int64_t> order = node.integers("order");
  const StoredValue x = l.stored(node.input(0));
  AxisOrder renamed;
  for (const int axis : x.order)
    renamed.push_back(
        static_cast<int>(std::find(order.begin(), order.end(), axis) - order.begin()));
  l.set(node, x.tensor, renamed);
}

void lower_reshape(Lowering& l, const NodeView& node) {
  const StoredValue x = l.stored(node.input(0));
  // Where the words can stay, the value gets another order of axes and no operator runs.
  if (const auto order = reshaped_order(node.shape(), x.order, node.out().shape))
    return l.set(node, x.tensor, *order);
  // Words have to move: into an order in which this reshape is a view, and images stay [n,h,w,c].
  const AxisOrder order = reshapable_order(node.shape(), x.order, node.out().shape);
  l.set(node, l.in(node, 0, order), *reshaped_order(node.shape(), order, node.out().shape));
}

void lower_expand(Lowering& l, const NodeView& node) {
  const int rank = node.out().shape.rank();
  const AxisOrder order =
      rank == node.shape().rank() ? l.stored(node.input(0)).order : logical_order(rank);
  TensorShape shape;
  for (const int axis : order) shape.append(node.out().shape[axis]);
  l.set(node, l.builder().expand(node.label(), l.operand(node, 0, order), shape), order);
}

// Returns the place of an axis in an order.
int place_of(const AxisOrder& order, std::int64_t axis) {
  return static_cast<int>(std::find(order.begin(), order.end(), axis) - order.begin());
}

void lower_slice(Lowering& l, const NodeView& node) {
  const StoredValue x = l.stored(node.input(0));
  const int place = place_of(x.order, node.integer("axis"));
  const std::int64_t count = node.out().shape[static_cast<int>(node.integer("axis"))];
  l.set(node,
        l.builder().strided_slice(node.label(), x.tensor, place, node.integer("begin"),
                                  node.integer("step"), count),
        x.order);
}

void lower_concat(Lowering& l, const NodeView& node) {
  // All inputs take the order of the first one, so an input that is stored like it needs no move.
  const AxisOrder order = l.stored(node.input(0)).order;
  std::vector<TensorId> xs;
  for (std::size_t i = 0; i < node.inputs(); ++i) xs.push_back(l.in(node, i, order));
  const int place = place_of(order, node.integer("axis"));
  l.set(node, concat_all(l.builder(), node.label(), std::move(xs), place), order);
}

// --- Rolls and flips.

void lower_roll(Lowering& l, const NodeView& node) {
  const StoredValue x = l.stored(node.input(0));
  const int place = place_of(x.order, node.integer("axis"));
  l.set(node, l.builder().roll(node.label(), x.tensor, place, node.integer("shift")), x.order);
}

void lower_flip(Lowering& l, const NodeView& node) {
  const StoredValue from = l.stored(node.input(0));
  TensorId x = from.tensor;
  for (const std::int64_t axis : node.integers("axes")) {
    const std::int64_t extent = node.shape()[static_cast<int>(axis)];
    x = l.builder().strided_slice(node.label(), x, place_of(from.order, axis), extent - 1, -1,
                                  extent);
  }
  l.set(node, x, from.order);
}

std::vector<Slot> any_x() {
  return {{"x", "fibl"}};
}

}  // namespace

std::vector<Kind> move_kinds() {
  return {
      {.name = "reshape",
       .result = "x in the shape of the output",
       .slots = any_x(),
       .outputs = reshape_outputs,
       .lower = lower_reshape},
      {.name = "permute",
       .result = "axis i of the output is axis order[i] of x",
       .slots = any_x(),
       .attributes = {integers("order", 0, kRankMax - 1)},
       .outputs = permute_outputs,
       .lower = lower_permute},
      {.name = "expand",
       .result = "x, repeated to the shape of the output",
       .slots = any_x(),
       .outputs = expand_outputs,
       .lower = lower_expand},
      {.name = "slice",
       .result = "the indices from begin to before end",
       .slots = any_x(),
       .attributes = {axis_rule(), integer("begin", 0, kFar), integer("end", 0, kFar),
                      integer("step", 1, kFar).or_else(1.0)},
       .outputs = slice_outputs,
       .lower = lower_slice},
      {.name = "concat",
       .result = "the inputs, one behind the other along the axis",
       .slots = any_x(),
       .variadic = true,
       .attributes = {axis_rule()},
       .outputs = concat_outputs,
       .lower = lower_concat},
      {.name = "roll",
       .result = "x, shifted along the axis; what leaves at one end comes in at the other",
       .slots = any_x(),
       .attributes = {axis_rule(), integer("shift", -kFar, kFar)},
       .outputs = axis_outputs,
       .lower = lower_roll},
      {.name = "flip",
       .result = "x in reverse order along these axes",
       .slots = any_x(),
       .attributes = {integers("axes", 0, kRankMax - 1)},
       .outputs = flip_outputs,
       .lower = lower_flip},
  };
}

}  // namespace es::gpu
