// GraphBuilder: general element-wise operators and reductions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/canonical/scalar_math.h"
#include "gpu/graph/builder.h"
#include "gpu/graph/emit.h"
#include "gpu/graph/integer_range.h"
#include "proto/base/number_text.h"

namespace es::gpu {
namespace {

// The comparisons are neighbours in the enumeration (functions.h).
bool is_comparison(Function f) {
  return f >= Function::kEqual && f <= Function::kGreaterEqual;
}
bool takes_integers(Function f) {
  return f == Function::kAdd || f == Function::kSub || f == Function::kMul || is_comparison(f);
}

// The range of integers that an operation can give. The operands are 32-bit integers, so the bounds
// are exact in 64 bits. The kernels compute modulo 2^32: a range that leaves 32 bits may wrap
// around to any integer.
std::pair<std::int64_t, std::int64_t> integer_range(Function f, std::int64_t low1,
                                                    std::int64_t high1, std::int64_t low2,
                                                    std::int64_t high2) {
  std::pair<std::int64_t, std::int64_t> range{low1 + low2, high1 + high2};
  if (f == Function::kSub) range = {low1 - high2, high1 - low2};
  // The extremes of a product are at corners of the ranges, and which corner depends on the signs.
  if (f == Function::kMul)
    range = std::minmax({low1 * low2, low1 * high2, high1 * low2, high1 * high2});
  if (f == Function::kWhere) range = {std::min(low1, low2), std::max(high1, high2)};
  const bool wraps = range.first < kIntLow || range.second > kIntHigh;
  return wraps ? std::pair{kIntLow, kIntHigh} : range;
}

}  // namespace

// A flattened image stays one if every operand is the same kind of flattened image.
TensorId GraphBuilder::element_wise(const std::string& name, Function function,
                                    const std::vector<TensorId>& xs, FunctionParameters parameters,
                                    Tensor to) {
  const Note first = note(xs[0]);
  for (const TensorId x : xs)
    if ((note(x).pixels > 1 || first.pixels > 1) &&
        (note(x).pixels != first.pixels || graph_.shape(x) != to.shape))
      return fail(function_name(function), name,
                  "input is a flattened image; between flatten and linear only element-wise "
                  "operators without broadcasting may stand");
  CodeWriter writer;
  std::vector<Term> terms;
  std::vector<ProgramOperand> operands;
  for (std::size_t k = 0; k < xs.size(); ++k) {
    terms.push_back(writer.input(static_cast<std::int32_t>(k)));
    operands.push_back({xs[k], repeated_strides(graph_.shape(xs[k]), to.shape)});
  }
  // Only functions of two operands have a variant for integers. where() has three operands, copies
  // bits, and serves both types with one instruction.
  const bool integers = xs.size() == 2 && tensor(xs[0]).type == ElementType::kI32;
  Op op = program_op(name, writer, {write_function(function, parameters, terms, integers)},
                     to.shape, operands);
  // program_op() leaves out operands that the function does not read, and reads an operand that
  // appears twice only once. The gradients name operands by position, so each one stays an input.
  op.in = xs;
  op.function = function;
  op.parameters = parameters;
  const TensorId y = append(std::move(op), {to});
  if (failed()) return 0;
  if (first.pixels > 1) note(y) = first;
  return y;
}

TensorId GraphBuilder::words(const std::string& name, ElementOp instruction,
                             const std::vector<TensorId>& xs) {
  if (failed()) return 0;
  const std::optional<TensorShape> shape = common_shape("words", name, xs);
  if (!shape) return 0;
  CodeWriter writer;
  std::vector<Term> terms;
  std::vector<ProgramOperand> operands;
  for (std::size_t k = 0; k < xs.size(); ++k) {
    terms.push_back(writer.input(static_cast<std::int32_t>(k)));
    operands.push_back({xs[k], repeated_strides(graph_.shape(xs[k]), *shape)});
  }
  const auto at = [&](std::size_t k) { return terms[k < terms.size() ? k : 0]; };
  Op op = program_op(name, writer, {writer.emit(instruction, at(0), at(1), at(2), at(3))}, *shape,
                     operands);
  op.function = Function::kWords;
  const bool numbers = instruction == ElementOp::kLessLong || instruction == ElementOp::kFromLong ||
                       instruction == ElementOp::kBeyondLong;
  const TensorId y =
      append(std::move(op), {{*shape, numbers ? ElementType::kF32 : ElementType::kI32}});
  if (!numbers)
    set_range(y, static_cast<std::int32_t>(kIntLow), static_cast<std::int32_t>(kIntHigh));
  return y;
}

TensorId GraphBuilder::unary(const std::string& name, Function function, TensorId x,
                             FunctionParameters parameters) {
  const char* const kind = function_name(function);
  if (failed() || !floats(kind, name, {x})) return 0;
  if (function_operands(function) != 1 || function == Function::kToFloat ||
      function == Function::kToInt)
    return fail(kind, name, "this function is not called by unary()");
  // The function divides by beta, and functions.h defines it for a beta above 0.
  if (function == Function::kSoftplus && !(parameters.a > 0.0F))
    return fail(kind, name, "beta = " + number_text(parameters.a) + " must be above 0");
  return element_wise(name, function, {x}, parameters, {graph_.shape(x)});
}

// Returns the shape to which the operands are broadcast; nothing after an error.
std::optional<TensorShape> GraphBuilder::common_shape(const char* kind, const std::string& name,
                                                      const std::vector<TensorId>& xs) {
  std::vector<TensorShape> shapes;
  std::string text;
  for (const TensorId x : xs) {
    shapes.push_back(graph_.shape(x));
    text += (text.empty() ? "" : " and ") + shape_text(shapes.back());
  }
  std::optional<TensorShape> shape = broadcast_shape(shapes);
  if (!shape) fail(kind, name, "shapes " + text + " cannot be broadcast together");
  return shape;
}

TensorId GraphBuilder::binary(const std::string& name, Function function, TensorId a, TensorId b) {
  const char* const kind = function_name(function);
  if (failed()) return 0;
  if (function_operands(function) != 2)
    return fail(kind, name, "this function is not called by binary()");
  const bool integers = tensor(a).type == ElementType::kI32 && tensor(b).type == ElementType::kI32;
  if (integers && function == Function::kMaximum) return integer_maximum(name, a, b);
  if (integers && function == Function::kMinimum) return integer_minimum(name, a, b);
  if (!(integers && takes_integers(function)) && !floats(kind, name, {a, b})) return 0;
  const std::optional<TensorShape> shape = common_shape(kind, name, {a, b});
  if (!shape) return 0;
  const bool gives_integers = integers && !is_comparison(function);
  const TensorId y = element_wise(name, function, {a, b}, {},
                                  {*shape, gives_integers ? ElementType::kI32 : ElementType::kF32});
  if (!failed() && gives_integers) set_range(function, a, b, y);
  return y;
}

void GraphBuilder::set_range(Function function, TensorId a, TensorId b, TensorId y) {
  const auto [low, high] =
      integer_range(function, note(a).low, note(a).high, note(b).low, note(b).high);
  note(y).low = static_cast<std::int32_t>(low);
  note(y).high = static_cast<std::int32_t>(high);
}

TensorId GraphBuilder::where(const std::string& name, TensorId condition, TensorId a, TensorId b) {
  if (failed() || !floats("where", name, {condition})) return 0;
  const ElementType type = tensor(a).type;
  if (type != tensor(b).type)
    return fail("where", name, "its two values must both hold numbers or both integers");
  const std::optional<TensorShape> shape = common_shape("where", name, {condition, a, b});
  if (!shape) return 0;
  const TensorId y = element_wise(name, Function::kWhere, {condition, a, b}, {}, {*shape, type});
  if (!failed() && type == ElementType::kI32) set_range(Function::kWhere, a, b, y);
  return y;
}

TensorId GraphBuilder::cast(const std::string& name, TensorId x, ElementType to) {
  if (failed()) return 0;
  const ElementType from = tensor(x).type;
  // Bytes exist only as the winners of a max pool.
  if (from == ElementType::kU8 || to == ElementType::kU8)
    return fail("cast", name, "only numbers and integers can be converted");
  if (from == to) return x;
  const Function function = to == ElementType::kI32 ? Function::kToInt : Function::kToFloat;
  const TensorId y = element_wise(name, function, {x}, {}, {graph_.shape(x), to});
  if (failed() || to != ElementType::kI32) return y;
  // The numbers are computed in the step, so any integer is possible.
  note(y).low = static_cast<std::int32_t>(kIntLow);
  note(y).high = static_cast<std::int32_t>(kIntHigh);
  return y;
}

TensorId GraphBuilder::expand(const std::string& name, TensorId x, TensorShape shape) {
  if (failed()) return 0;
  if (graph_.shape(x) == shape) return x;
  if (!broadcasts(graph_.shape(x), shape))
    return fail("expand", name,
                shape_text(graph_.shape(x)) + " cannot be broadcast to " + shape_text(shape));
  const TensorId y = element_wise(name, Function::kCopy, {x}, {}, {shape, tensor(x).type});
  if (failed()) return 0;
  note(y).low = note(x).low;
  note(y).high = note(x).high;
  return y;
}

// The view shares the memory of x. It differs only in needs_grad, at which the differentiation
// stops.
TensorId GraphBuilder::stop_gradient(const std::string& name, TensorId x) {
  if (failed() || !tensor(x).needs_grad) return failed() ? 0 : x;
  const TensorId y =
      append({.kind = OpKind::kView, .name = name, .in = {x}}, {{graph_.shape(x), tensor(x).type}});
  graph_.tensors[static_cast<std::size_t>(y)].needs_grad = false;
  note(y) = note(x);
  return y;
}

// Returns the set of axes; nothing after an error.
std::optional<std::uint32_t> GraphBuilder::axis_set(const char* kind, const std::string& name,
                                                    TensorId x, const std::vector<int>& axes) {
  const int rank = graph_.shape(x).rank();
  std::uint32_t set = 0;
  for (const int axis : axes) {
    if (axis < 0 || axis >= rank || (set >> axis & 1U) != 0) {
      fail(kind, name,
           "axis " + std::to_string(axis) + " of " + shape_text(graph_.shape(x)) +
               " must be below " + std::to_string(rank) + " and named once");
      return std::nullopt;
    }
    set |= 1U << axis;
  }
  return set;
}

TensorId GraphBuilder::reduce(const std::string& name, Reduction kind, TensorId x,
                              const std::vector<int>& axes, bool keepdim) {
  if (!failed() && tensor(x).type == ElementType::kI32)
    return integer_reduce(name, kind, x, axes, keepdim);
  if (failed() || !dense_floats("reduce", name, {x})) return 0;
  const std::optional<std::uint32_t> set = axis_set("reduce", name, x, axes);
  if (!set) return 0;
  // A mean is the sum times recip(count): one division for the whole tensor (rule G4).
  const bool mean = kind == Reduction::kMean;
  const TensorShape shape = graph_.shape(x);
  const Emit emit = [&](Op op, const TensorShape& to) { return append(std::move(op), {{to}}); };
  const TensorId y = emit_reduction(emit, name, x, shape, mean ? Reduction::kSum : kind, *set,
                                    reduced_shape(shape, *set, keepdim));
  const std::int64_t count = extent_of(shape, *set);
  return mean && count > 1 ? unary(name, Function::kMulScalar, y, {.a = recip(count)}) : y;
}

// The deviations from the mean are squared, and not the mean of x^2 minus the square of the mean,
// which would cancel where the mean is large.
TensorId GraphBuilder::variance(const std::string& name, TensorId x, const std::vector<int>& axes,
                                bool keepdim, std::int64_t correction) {
  const TensorId mean = reduce(name, Reduction::kMean, x, axes, true);
  if (failed()) return 0;
  std::int64_t count = 1;
  for (const int axis : axes) count *= graph_.shape(x)[axis];
  // The divisor count - correction would be 0 or negative. PyTorch gives NaN or infinity with a
  // warning.
  if (count <= correction)
    return fail("variance", name,
                std::to_string(count) + " elements must be more than the correction " +
                    std::to_string(correction));
  const TensorId d = binary(name, Function::kSub, x, mean);
  const TensorId squares = unary(name, Function::kSquare, d);
  return unary(name, Function::kMulScalar, reduce(name, Reduction::kSum, squares, axes, keepdim),
               {.a = recip(count - correction)});
}

// log(sum(exp(x - m))) + m with the maximum m of the axes, so that no exponential overflows. m has
// no gradient: the two places where it appears cancel, and the gradient softmax(x) comes from x
// alone. An infinite maximum is replaced by the largest float, because infinity minus infinity is
// NaN: a row of -inf gives -inf, as in PyTorch.
TensorId GraphBuilder::logsumexp(const std::string& name, TensorId x, const std::vector<int>& axes,
                                 bool keepdim) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  TensorId top = stop_gradient(name, reduce(name, Reduction::kMax, x, axes, true));
  top = unary(name, Function::kClamp, top, {.a = -kLargest, .b = kLargest});
  const TensorId e = unary(name, Function::kExp, binary(name, Function::kSub, x, top));
  const TensorId sum = reduce(name, Reduction::kSum, e, axes, true);
  const TensorId y = binary(name, Function::kAdd, unary(name, Function::kLog, sum), top);
  const std::optional<std::uint32_t> set =
      failed() ? std::nullopt : axis_set("logsumexp", name, x, axes);
  return set ? reshape(name, y, reduced_shape(graph_.shape(x), *set, keepdim)) : 0;
}

TensorId GraphBuilder::arg_reduce(const std::string& name, Reduction kind, TensorId x, int axis,
                                  bool keepdim) {
  if (!failed() && tensor(x).type == ElementType::kI32) {
    const TensorId best = integer_reduce(name, kind, x, {axis}, true);
    x = binary(name, Function::kEqual, x, best);
    kind = Reduction::kMax;  // the first element that is equal to the best one
  }
  if (failed() || !dense_floats("arg_reduce", name, {x}) ||
      !valid_axis("arg_reduce", name, x, axis))
    return 0;
  const TensorShape shape = graph_.shape(x);
  const std::int64_t count = shape[axis];
  // An index is a 32-bit integer.
  if (count > kIntHigh) return fail("arg_reduce", name, "the axis is too long");
  // The kernel finds the best element of contiguous rows. Axes of extent 1 behind the axis do not
  // matter.
  if (shape.count(axis + 1, shape.rank()) > 1) {
    std::vector<int> order;
    for (int i = 0; i < shape.rank(); ++i)
      if (i != axis) order.push_back(i);
    order.push_back(axis);
    x = permute(name, x, order);
  }
  Op op{.kind = OpKind::kBestIndex,
        .name = name,
        .in = {x},
        .along = {.kind = kind, .outer = shape.count() / count, .count = count, .in_rows = true}};
  const TensorShape to = reduced_shape(shape, 1U << axis, keepdim);
  const TensorId y = append(std::move(op), {{to, ElementType::kI32}});
  if (!failed()) note(y).high = static_cast<std::int32_t>(count - 1);
  return y;
}

TensorId GraphBuilder::cumsum(const std::string& name, TensorId x, int axis) {
  if (!failed() && tensor(x).type == ElementType::kI32) return integer_cumsum(name, x, axis);
  if (failed() || !dense_floats("cumsum", name, {x}) || !valid_axis("cumsum", name, x, axis))
    return 0;
  const TensorShape shape = graph_.shape(x);
  Op op{.kind = OpKind::kRunningSum,
        .name = name,
        .in = {x},
        .along = {.outer = shape.count(0, axis),
                  .count = shape[axis],
                  .inner = shape.count(axis + 1, shape.rank())}};
  return append(std::move(op), {{shape}});
}

// Returns whether the integers select rows. Otherwise records an error. The kernels use the
// integers as addresses without a check, so the range must be known when the model is built.
bool GraphBuilder::valid_rows(const char* kind, const std::string& name, TensorId ids,
                              std::int64_t rows) {
  if (tensor(ids).type != ElementType::kI32)
    fail(kind, name, "the rows must be selected by integers");
  if (note(ids).low < 0 || note(ids).high >= rows)
    fail(kind, name,
         "its integers are in [" + std::to_string(note(ids).low) + ", " +
             std::to_string(note(ids).high) + "], allowed are rows below " + std::to_string(rows));
  return !failed();
}

TensorId GraphBuilder::take_rows(const std::string& name, TensorId x, TensorId ids) {
  if (failed()) return 0;
  const ElementType type = tensor(x).type;
  if (type != ElementType::kI32 && !dense_floats("take_rows", name, {x})) return 0;
  const TensorShape from = graph_.shape(x);
  if (!valid_rows("take_rows", name, ids, from.front())) return 0;
  TensorShape to = graph_.shape(ids);
  // The result has the axes of the integers and then those of a row.
  if (to.rank() + from.rank() - 1 > kRankMax)
    return fail("take_rows", name,
                "the result has more than " + std::to_string(kRankMax) + " dimensions");
  for (int axis = 1; axis < from.rank(); ++axis) to.append(from[axis]);
  const TensorId y =
      append({.kind = OpKind::kTakeRows, .name = name, .in = {x, ids}}, {{to, type}});
  if (failed() || type != ElementType::kI32) return y;
  note(y).low = note(x).low;
  note(y).high = note(x).high;
  return y;
}

TensorId GraphBuilder::add_rows_at(const std::string& name, TensorId x, TensorId ids,
                                   std::int64_t rows) {
  if (failed() || !dense_floats("add_rows_at", name, {x}) ||
      !valid_rows("add_rows_at", name, ids, rows))
    return 0;
  const TensorShape &from = graph_.shape(x), &places = graph_.shape(ids);
  TensorShape to{rows};
  bool fits = from.rank() >= places.rank();
  for (int axis = 0; fits && axis < from.rank(); ++axis) {
    if (axis >= places.rank()) to.append(from[axis]);
    fits = axis >= places.rank() || from[axis] == places[axis];
  }
  if (!fits)
    return fail("add_rows_at", name,
                "its input " + shape_text(from) + " must begin with the shape of the integers " +
                    shape_text(places));
  return append({.kind = OpKind::kAddRowsAt, .name = name, .in = {x, ids}}, {{to}});
}

}  // namespace es::gpu
