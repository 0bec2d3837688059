#include "gpu/graph/emit.h"

#include "gpu/graph/move_shapes.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

bool has(AxisSet axes, int axis) {
  return (axes >> axis & 1U) != 0;
}

// An axis of one element has no part in the order of a sum. Without it, more axes are neighbours
// and fewer moves are needed.
AxisSet without_single_elements(const TensorShape& shape, AxisSet axes) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] == 1) axes &= ~(1U << axis);
  return axes;
}

// The axes at the end of the shape that are reduced.
AxisSet last_axes(const TensorShape& shape, AxisSet axes) {
  AxisSet last = 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (!has(axes, axis)) break;
    last |= 1U << axis;
  }
  return last;
}

// Returns [outer][count][inner] if the axes are neighbours: only axes of one element lie between
// them.
bool neighbours(const TensorShape& shape, AxisSet axes, AlongAxis& along) {
  int state = 0;  // before, inside, behind
  along.outer = along.count = along.inner = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    if (has(axes, axis)) {
      if (state == 2) return false;
      state = 1;
      along.count *= shape[axis];
    } else if (state == 0) {
      along.outer *= shape[axis];
    } else {
      state = 2;
      along.inner *= shape[axis];
    }
  }
  return true;
}

TensorId emit_neighbours(const Emit& emit, const std::string& name, TensorId x,
                         const TensorShape& shape, Reduction kind, AxisSet axes, bool in_rows,
                         const TensorShape& to) {
  AlongAxis along{.kind = kind, .axes = axes, .in_rows = in_rows};
  ES_CHECK(neighbours(shape, axes, along));
  return emit({.kind = OpKind::kReduce, .name = name, .in = {x}, .along = along}, to);
}

// Moves the axes to the front.
std::vector<int> axes_first(const TensorShape& shape, AxisSet axes) {
  std::vector<int> order;
  for (const bool wanted : {true, false})
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (has(axes, axis) == wanted) order.push_back(axis);
  return order;
}

}  // namespace

Op program_op(const std::string& name, CodeWriter& writer, std::initializer_list<Term> results,
              const TensorShape& shape, const std::vector<ProgramOperand>& operands) {
  std::optional<WrittenCode> written = writer.finish({results.begin(), results.size()});
  // Every function of functions.cc fits the limits, so this can fail only for a new entry of that
  // table.
  ES_CHECK_MSG(written.has_value() && with_few_registers(written->code).has_value(), name);
  auto program = std::make_shared<ElementProgram>();
  program->code = written->code;
  program->space = space_of(shape);
  Op op{.kind = OpKind::kProgram, .name = name};
  for (std::size_t k = 0; k < written->inputs.size(); ++k) {
    const ProgramOperand& operand = operands[static_cast<std::size_t>(written->inputs[k])];
    op.in.push_back(operand.tensor);
    program->space.stride[k] = operand.stride;
  }
  op.program = std::move(program);
  return op;
}

TensorShape reduced_shape(const TensorShape& shape, AxisSet axes, bool keepdim) {
  TensorShape result;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!has(axes, axis)) result.append(shape[axis]);
    if (has(axes, axis) && keepdim) result.append(1);
  }
  // A tensor of the graph has at least one axis; PyTorch's number without axes is [1].
  if (result.rank() == 0) result.append(1);
  return result;
}

AxisSet repeated_axes(const TensorShape& from, const TensorShape& to) {
  AxisSet axes = 0;
  for (int axis = 0; axis < to.rank(); ++axis) {
    const int at = axis - (to.rank() - from.rank());
    // An axis is repeated if `from` lacks it or has one element where `to` has more.
    if (at < 0 || from[at] != to[axis]) axes |= 1U << axis;
  }
  return axes;
}

// The result is dense over the axes that stay, and has the stride 0 along those that were reduced.
std::array<std::int64_t, kProgramRank> unreduced_strides(const TensorShape& shape, AxisSet axes) {
  std::array<std::int64_t, kProgramRank> strides = {};
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (has(axes, axis)) continue;
    strides[static_cast<std::size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

// The order of a sum over any axes: first the reduced axes at the end of the shape as rows (SUM64),
// then the others as columns (COLSUM). Columns must be one middle axis for the kernel. If the other
// axes are not neighbours, a move puts them in front; it copies, and the index over the reduced
// axes still ascends in row-major order, so the bits are those of the definition.
TensorId emit_reduction(const Emit& emit, const std::string& name, TensorId x,
                        const TensorShape& shape, Reduction kind, AxisSet axes,
                        const TensorShape& to) {
  axes = without_single_elements(shape, axes);
  if (axes == 0)
    return shape == to ? x : emit({.kind = OpKind::kView, .name = name, .in = {x}}, to);
  const AxisSet row = last_axes(shape, axes), rest = axes & ~row;
  if (rest == 0) return emit_neighbours(emit, name, x, shape, kind, row, true, to);
  TensorShape left = shape;
  if (row != 0) {
    left = reduced_shape(shape, row, true);
    x = emit_neighbours(emit, name, x, shape, kind, row, true, left);
  }
  AlongAxis along;
  if (neighbours(left, rest, along))
    return emit_neighbours(emit, name, x, left, kind, rest, false, to);
  const std::vector<int> order = axes_first(left, rest);
  const TensorShape moved = permuted_shape(left, order);
  x = emit({.kind = OpKind::kMove, .name = name, .in = {x}, .move = permute_move(left, order)},
           moved);
  AxisSet front = 0;
  for (int axis = 0; axis < left.rank(); ++axis)
    if (has(rest, order[static_cast<std::size_t>(axis)])) front |= 1U << axis;
  return emit_neighbours(emit, name, x, moved, kind, front, false, to);
}

std::int64_t extent_of(const TensorShape& shape, AxisSet axes) {
  std::int64_t extent = 1;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (has(axes, axis)) extent *= shape[axis];
  return extent;
}

}  // namespace es::gpu
