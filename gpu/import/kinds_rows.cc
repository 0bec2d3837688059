// Rows and elements that integers select.
#include <algorithm>
#include <limits>

#include "gpu/import/composed.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// --- Shape rules.

Outputs embedding_outputs(const NodeView& node) {
  const TensorShape &w = node.shape(0), &ids = node.shape(1);
  if (w.rank() != 2 || ids.rank() == kRankMax)
    return usage_error("weight " + shape_text(w) + " must be [rows,d]");
  const std::int64_t padding = node.integer("padding_idx");
  if (padding >= w[0])
    return usage_error("padding_idx = " + std::to_string(padding) + ": allowed is below " +
                       std::to_string(w[0]) + " rows");
  TensorShape y = ids;
  y.append(w[1]);
  return one_output(ValueType::kF32, y);
}

Outputs take_rows_outputs(const NodeView& node) {
  const TensorShape &x = node.shape(0), &index = node.shape(1);
  if (x.rank() < 1 || index.rank() + x.rank() - 1 > kRankMax)
    return usage_error("x " + shape_text(x) + " and index " + shape_text(index) +
                       " have too few or too many axes");
  TensorShape y = index;
  for (int axis = 1; axis < x.rank(); ++axis) y.append(x[axis]);
  return one_output(node.in().type, y);
}

Outputs index_select_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_axis(node.integer("axis"), node.shape().rank()));
  const int axis = static_cast<int>(node.integer("axis"));
  const std::vector<std::int64_t> index = node.integers("index");
  if (index.empty()) return usage_error("index is empty");
  for (const std::int64_t i : index)
    if (i >= node.shape()[axis])
      return usage_error("index " + std::to_string(i) + " is outside axis " + std::to_string(axis) +
                         " of x " + shape_text(node.shape()));
  return one_output(node.in().type,
                    with_extent(node.shape(), axis, static_cast<std::int64_t>(index.size())));
}

// Along the other axes an index stands for its own place in x.
Status check_index(const NodeView& node) {
  const TensorShape &x = node.shape(0), &index = node.shape(1);
  ES_RETURN_IF_ERROR(check_axis(node.integer("axis"), x.rank()));
  bool fits = index.rank() == x.rank();
  for (int axis = 0; fits && axis < x.rank(); ++axis)
    fits = axis == node.integer("axis") || index[axis] <= x[axis];
  if (fits) return {};
  return usage_error("index " + shape_text(index) + " does not fit x " + shape_text(x));
}

Outputs gather_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_index(node));
  return one_output(node.in().type, node.shape(1));
}

Outputs scatter_add_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_index(node));
  if (node.shape(1) != node.shape(2))
    return usage_error("index " + shape_text(node.shape(1)) + " and src " +
                       shape_text(node.shape(2)) + " must have one shape");
  return same_as_input(node);
}

// --- Integers that select. Where the model does not show that they are inside their range, the
// kernels get limited ones, and numbers that belong to the others become NaN. So no address is
// wrong, and the step or evaluation ends with an error. Integers and truth values cannot be NaN, so
// there the loss and the outputs become NaN.

struct Selection {
  TensorId ids;                  // in [0, rows)
  TensorId outside = kNoTensor;  // the truth value, of the same shape; kNoTensor: none is outside
};

Selection selection(GraphBuilder& b, const std::string& name, TensorId ids, std::int64_t rows) {
  const auto [low, high] = b.range(ids);
  if (low >= 0 && high < rows) return {ids};
  // Integers have 32 bits, so none of them can exceed this even if x has more rows.
  const std::int64_t last = std::min<std::int64_t>(rows - 1, 0x7fffffff);
  const TensorId limited = b.limit(name, ids, 0, static_cast<std::int32_t>(last));
  // An integer was outside if the limit changed it.
  return {limited, b.binary(name, Function::kNotEqual, ids, limited)};
}

// y, with NaN where the integer was outside. The shape of y begins with that of the integers, apart
// from axes of extent 1 at its end.
TensorId nan_outside(Lowering& l, const NodeView& node, TensorId y, const Selection& s) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  if (s.outside == kNoTensor) return y;
  if (node.out().type != ValueType::kF32) {
    l.refuse_if(name, s.outside);
    return y;
  }
  TensorShape shape = b.shape(s.outside);
  // The truth value of an integer then stands for its whole row.
  while (shape.rank() < b.shape(y).rank()) shape.append(1);
  const TensorId nan = b.constant(name, {1}, {std::numeric_limits<float>::quiet_NaN()});
  return b.where(name, b.reshape(name, s.outside, shape), nan, y);
}

// --- Rows.

// Returns y, whose rows of the padding index have no gradient, as with PyTorch's padding_idx.
TensorId without_padding(GraphBuilder& b, const std::string& name, TensorId y, TensorId ids,
                         std::int64_t padding) {
  const TensorId index = b.constant_ids(name, {1}, {static_cast<std::int32_t>(padding)});
  const TensorId is_padding = b.binary(name, Function::kEqual, ids, index);
  return b.where(name, is_padding, b.stop_gradient(name, y), y);
}

void lower_embedding(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  TensorShape shape = node.shape(1);
  shape.append(1);
  const TensorId ids = b.reshape(name, l.logical(node, 1), shape);
  const Selection selected = selection(b, name, ids, node.shape(0)[0]);
  Op op{
      .kind = OpKind::kEmbedding, .name = name, .in = {selected.ids}, .features = node.shape(0)[1]};
  l.set_weight(op, node.input(0), {0, 1});
  TensorId y = b.apply(std::move(op));
  if (node.integer("padding_idx") >= 0)
    y = without_padding(b, name, y, ids, node.integer("padding_idx"));
  l.set_logical(node, nan_outside(l, node, y, selected));
}

void lower_index_select(Lowering& l, const NodeView& node) {
  const int rank = node.shape().rank(), axis = static_cast<int>(node.integer("axis"));
  AxisOrder order = logical_order(rank);
  // The selected axis becomes the first one, whose indices are rows.
  std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
  const std::vector<std::int64_t> index = node.integers("index");
  const TensorId rows = l.builder().constant_ids(
      node.label(), {static_cast<std::int64_t>(index.size())}, {index.begin(), index.end()});
  l.set(node, l.builder().take_rows(node.label(), l.in(node, 0, order), rows), order);
}

void lower_take_rows(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const Selection selected = selection(b, name, l.logical(node, 1), node.shape(0)[0]);
  // The result has an axis at least, also if the index is a number.
  const TensorId y = b.take_rows(name, l.logical(node, 0), selected.ids);
  l.set_logical(node, nan_outside(l, node, y, selected));
}

// --- Elements. x is a list of its elements in logical order.

// Returns the numbers of the elements that the integers select along the axis of the node.
TensorId element_numbers(GraphBuilder& b, const NodeView& node, TensorId ids) {
  const std::string name = node.label();
  const TensorShape &x = node.shape(0), &index = node.shape(1);
  const auto times_stride = [&](TensorId places, int axis) {
    const std::int64_t stride = x.count(axis + 1, x.rank());
    const TensorId factor = b.constant_ids(name, {1}, {static_cast<std::int32_t>(stride)});
    return stride == 1 ? places : b.binary(name, Function::kMul, places, factor);
  };
  const int along = static_cast<int>(node.integer("axis"));
  TensorId sum = times_stride(ids, along);
  for (int axis = 0; axis < x.rank(); ++axis) {
    // Along the other axes an element of the index reads the element of x at its own place, which
    // is 0 if there is one place only.
    if (axis == along || index[axis] == 1) continue;
    TensorShape shape{index[axis]};
    for (int behind = axis + 1; behind < x.rank(); ++behind) shape.append(1);
    const TensorId places = b.reshape(name, b.numbers(name, index[axis]), shape);
    sum = b.binary(name, Function::kAdd, sum, times_stride(places, axis));
  }
  return sum;
}

Selection selected_along(Lowering& l, const NodeView& node) {
  const std::int64_t extent = node.shape()[static_cast<int>(node.integer("axis"))];
  return selection(l.builder(), node.label(), l.logical(node, 1), extent);
}

void lower_gather(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const Selection selected = selected_along(l, node);
  const TensorId elements = b.reshape(name, l.logical(node, 0), {node.shape().count()});
  const TensorId y = b.take_rows(name, elements, element_numbers(b, node, selected.ids));
  l.set_logical(node, nan_outside(l, node, y, selected));
}

void lower_scatter_add(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const Selection selected = selected_along(l, node);
  // The numbers that would have gone outside become NaN, and the sum passes the NaN on.
  const TensorId src = nan_outside(l, node, l.logical(node, 2), selected);
  const TensorId x = l.logical(node, 0);
  const TensorId added =
      b.add_rows_at(name, src, element_numbers(b, node, selected.ids), node.shape().count());
  l.set_logical(node, b.add(name, x, b.reshape(name, added, b.shape(x))));
}

std::string elements_unsupported(const NodeView& node) {
  return node.shape().count() > kTakeElementsMax ? "2^31 elements or more" : "";
}

}  // namespace

std::vector<Kind> row_kinds() {
  return {
      {.name = "embedding",
       .result = "the rows of the weight; that of `padding_idx` gets no gradient",
       .slots = {{.name = "weight", .types = "f", .shape = "[rows,d]"}, {"ids", "i"}},
       .attributes = {integer("padding_idx", -1, 0x7fffffff).or_else(-1.0)},
       .outputs = embedding_outputs,
       .lower = lower_embedding},
      {.name = "index_select",
       .result = "the indices of the axis in this order",
       .slots = {{"x", "fibl"}},
       .attributes = {axis_rule(), integers("index", 0, 0x7fffffff)},
       .outputs = index_select_outputs,
       .lower = lower_index_select},
      {.name = "take_rows",
       .result = "x[index]; the gradients of a row are added",
       .slots = {{.name = "x", .types = "fibl", .shape = "[r,...]"}, {"index", "i"}},
       .outputs = take_rows_outputs,
       .lower = lower_take_rows},
      {.name = "gather",
       .result = "as `torch.gather`",
       .slots = {{"x", "fibl"}, {"index", "i"}},
       .attributes = {axis_rule()},
       .outputs = gather_outputs,
       .unsupported = elements_unsupported,
       .lower = lower_gather},
      {.name = "scatter_add",
       .result = "as `torch.scatter_add`",
       .slots = {{"x", "f"}, {"index", "i"}, {"src", "f"}},
       .attributes = {axis_rule()},
       .outputs = scatter_add_outputs,
       .unsupported = elements_unsupported,
       .lower = lower_scatter_add},
  };
}

}  // namespace es::gpu
