#pragma once
// Operators that the builder and the differentiation append in the same way: programs and
// reductions. `Emit` appends an operator with one output of this shape and returns that output.
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::gpu {

using Emit = std::function<TensorId(Op op, const TensorShape& shape)>;

// An operand of a program: a tensor, and the strides with which it is read.
struct ProgramOperand {
  TensorId tensor = kNoTensor;
  std::array<std::int64_t, kProgramRank> stride = {};
};

// Returns the operator that computes the results from the operands, whose inputs have the numbers
// of the operands. Operands that the results do not need are left out. REQUIRES: code within the
// limits of program.h, as that of every function is.
Op program_op(const std::string& name, CodeWriter& writer, std::initializer_list<Term> results,
              const TensorShape& shape, const std::vector<ProgramOperand>& operands);

// A set of axes: bit i is axis i.
using AxisSet = std::uint32_t;

// The shape with the axes reduced to extent 1, or without them; [1] if no axis would remain.
TensorShape reduced_shape(const TensorShape& shape, AxisSet axes, bool keepdim);
// The axes of `to` along which `from` is repeated (broadcasts() in element_code.h).
AxisSet repeated_axes(const TensorShape& from, const TensorShape& to);
// The strides with which the result of a reduction is repeated over `shape` again.
std::array<std::int64_t, kProgramRank> unreduced_strides(const TensorShape& shape, AxisSet axes);

// Reduces the axes of x, which has this shape, to a tensor of the shape `to`. The order is that of
// docs/reference/operators.md: the last axes as rows, then the others as columns. Returns x or a
// view of it if there is nothing to reduce. REQUIRES: not kMean.
TensorId emit_reduction(const Emit& emit, const std::string& name, TensorId x,
                        const TensorShape& shape, Reduction kind, AxisSet axes,
                        const TensorShape& to);

// The product of the extents of the axes.
std::int64_t extent_of(const TensorShape& shape, AxisSet axes);

}  // namespace es::gpu
