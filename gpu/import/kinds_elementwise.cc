// Kinds that work element by element.
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// --- Shape rules.

Outputs broadcast_outputs(const NodeView& node, ValueType type) {
  const Result<TensorShape> shape = broadcast(node.shape(0), node.shape(1));
  if (!shape) return shape.error();
  return one_output(type, *shape);
}

Outputs arithmetic_outputs(const NodeView& node) {
  if (node.in(0).type != node.in(1).type)
    return usage_error("its inputs are " + value_text(node.in(0)) + " and " +
                       value_text(node.in(1)) + ": allowed is one type");
  return broadcast_outputs(node, node.in(0).type);
}

Outputs comparison_outputs(const NodeView& node) {
  const Outputs same = arithmetic_outputs(node);
  return same ? broadcast_outputs(node, ValueType::kBool) : same;
}

Outputs where_outputs(const NodeView& node) {
  if (node.in(1).type != node.in(2).type)
    return usage_error("a is " + value_text(node.in(1)) + " and b is " + value_text(node.in(2)) +
                       ": allowed is one type");
  const Result<TensorShape> choices = broadcast(node.shape(1), node.shape(2));
  if (!choices) return choices.error();
  const Result<TensorShape> shape = broadcast(node.shape(0), *choices);
  if (!shape) return shape.error();
  return one_output(node.in(1).type, *shape);
}

Outputs cast_outputs(const NodeView& node) {
  const std::string to = node.text("to");
  return one_output(to == "f32"   ? ValueType::kF32
                    : to == "i32" ? ValueType::kI32
                    : to == "i64" ? ValueType::kI64
                                  : ValueType::kBool,
                    node.shape());
}

Outputs sample_dropout_outputs(const NodeView& node) {
  if (node.shape().rank() == 0) return usage_error("x is a number and has no axis 0");
  return same_as_input(node);
}

// --- Lowering.

using Lower = void (*)(Lowering&, const NodeView&);

// Applies a function of the builder to the tensor, which keeps its order: an element-wise function
// has the same bits in any order of the elements.
template <class Apply>
void keep_order(Lowering& l, const NodeView& node, Apply&& apply) {
  const StoredValue x = l.stored(node.input(0));
  l.set(node, apply(l.builder(), x.tensor), x.order);
}

using ChainFunction = TensorId (GraphBuilder::*)(const std::string&, TensorId);

template <ChainFunction kFunction>
void lower_chain(Lowering& l, const NodeView& node) {
  keep_order(l, node, [&](GraphBuilder& b, TensorId x) { return (b.*kFunction)(node.label(), x); });
}

void lower_function(Lowering& l, const NodeView& node, Function function,
                    FunctionParameters parameters = {}) {
  keep_order(l, node, [&](GraphBuilder& b, TensorId x) {
    return b.unary(node.label(), function, x, parameters);
  });
}

template <Function kFunction>
void lower_unary(Lowering& l, const NodeView& node) {
  lower_function(l, node, kFunction);
}

float single(const NodeView& node, const char* attribute) {
  return static_cast<float>(node.number(attribute));
}

// The chain's gradient takes the sign of x from y, which needs a slope above 0. The program's
// gradient reads x.
void lower_leaky_relu(Lowering& l, const NodeView& node) {
  const float slope = single(node, "slope");
  if (!(slope > 0.0F)) return lower_function(l, node, Function::kLeakyRelu, {.a = slope});
  keep_order(l, node,
             [&](GraphBuilder& b, TensorId x) { return b.leaky_relu(node.label(), x, slope); });
}

void lower_gelu(Lowering& l, const NodeView& node) {
  if (node.text("approximate") == "none") return lower_chain<&GraphBuilder::gelu>(l, node);
  lower_function(l, node, Function::kGeluTanh);
}

void lower_mul_scalar(Lowering& l, const NodeView& node) {
  keep_order(l, node, [&](GraphBuilder& b, TensorId x) {
    return b.scale(node.label(), x, single(node, "value"));
  });
}

void lower_add_scalar(Lowering& l, const NodeView& node) {
  lower_function(l, node, Function::kAddScalar, {.a = single(node, "value")});
}
void lower_pow_scalar(Lowering& l, const NodeView& node) {
  lower_function(l, node, Function::kPowScalar, {.a = single(node, "exponent")});
}
void lower_elu(Lowering& l, const NodeView& node) {
  lower_function(l, node, Function::kElu, {.a = single(node, "alpha")});
}
void lower_softplus(Lowering& l, const NodeView& node) {
  lower_function(l, node, Function::kSoftplus, {.a = single(node, "beta")});
}

void lower_clamp(Lowering& l, const NodeView& node) {
  const bool below = node.given("min"), above = node.given("max");
  // PyTorch refuses a clamp without limits, but the format does not.
  if (!below && !above) return keep_order(l, node, [](GraphBuilder&, TensorId x) { return x; });
  lower_function(l, node,
                 below && above ? Function::kClamp
                 : below        ? Function::kClampMin
                                : Function::kClampMax,
                 {.a = single(node, "min"), .b = single(node, "max")});
}

template <Function kFunction>
void lower_binary(Lowering& l, const NodeView& node) {
  const AxisOrder order = l.common_order(node);
  const TensorId a = l.operand(node, 0, order), b = l.operand(node, 1, order);
  l.set(node, l.builder().binary(node.label(), kFunction, a, b), order);
}

using PairFunction = TensorId (*)(GraphBuilder&, const std::string&, TensorId, TensorId);

// Numbers of one shape become a stage of a chain, which has kernels of its own and a gradient
// without a copy. Integers and operands that are broadcast become a program.
template <Function kFunction, PairFunction kChain>
void lower_pair(Lowering& l, const NodeView& node) {
  if (node.in(0).type != ValueType::kF32 || node.shape(0) != node.shape(1))
    return lower_binary<kFunction>(l, node);
  const AxisOrder order = l.common_order(node);
  l.set(node, kChain(l.builder(), node.label(), l.in(node, 0, order), l.in(node, 1, order)), order);
}

constexpr Lower kLowerAdd =
    lower_pair<Function::kAdd, [](GraphBuilder& g, const std::string& name, TensorId a,
                                  TensorId b) { return g.add(name, a, b); }>;
constexpr Lower kLowerMul =
    lower_pair<Function::kMul, [](GraphBuilder& g, const std::string& name, TensorId a,
                                  TensorId b) { return g.mul(name, a, b); }>;

void lower_where(Lowering& l, const NodeView& node) {
  const AxisOrder order = l.common_order(node);
  const TensorId condition = l.operand(node, 0, order);
  const TensorId a = l.operand(node, 1, order), b = l.operand(node, 2, order);
  l.set(node, l.builder().where(node.label(), condition, a, b), order);
}

// Truth values are the numbers 1 and 0, so a cast to numbers changes nothing. Integers are chosen
// by them, so that their range [0, 1] is known and they may select rows.
void lower_cast(Lowering& l, const NodeView& node) {
  const ValueType from = node.in().type, to = node.out().type;
  keep_order(l, node, [&](GraphBuilder& b, TensorId x) {
    if (to == ValueType::kBool && from != to) {
      const TensorId zero =
          from == ValueType::kI32 ? b.constant_ids("0", {1}, {0}) : b.constant("0", {1}, {0.0F});
      return b.binary(node.label(), Function::kNotEqual, b.stop_gradient(node.label(), x), zero);
    }
    if (to == ValueType::kI32 && from == ValueType::kBool)
      return b.where(node.label(), x, b.constant_ids("1", {1}, {1}), b.constant_ids("0", {1}, {0}));
    return b.cast(node.label(), x, to == ValueType::kI32 ? ElementType::kI32 : ElementType::kF32);
  });
}

using LongFunction = Long (*)(GraphBuilder&, const std::string&, const Long&, const Long&);

template <ElementOp kLow, ElementOp kHigh>
Long long_pair(GraphBuilder& b, const std::string& name, const Long& x, const Long& y) {
  return long_words(b, name, kLow, kHigh, x, y);
}

template <LongFunction kFunction>
void lower_long_binary(Lowering& l, const NodeView& node) {
  const AxisOrder order = l.common_order(node);
  const Long a = l.long_operand(node, 0, order), b = l.long_operand(node, 1, order);
  l.set_long(node, kFunction(l.builder(), node.label(), a, b), order);
}

// Calls compute(words of a, words of b) and stores its truth value.
template <class Compute>
void lower_long_test(Lowering& l, const NodeView& node, Compute&& compute) {
  const AxisOrder order = l.common_order(node);
  const Long a = l.long_operand(node, 0, order), b = l.long_operand(node, 1, order);
  l.set(node, compute(l.builder(), node.label(), a, b), order);
}

template <bool kNegated>
void lower_long_equal(Lowering& l, const NodeView& node) {
  lower_long_test(l, node, [](GraphBuilder& b, const std::string& name, auto& x, auto& y) {
    const TensorId equal = long_equal(b, name, x, y);
    return kNegated ? b.unary(name, Function::kNot, equal) : equal;
  });
}

// a < b, b < a, and their negations.
template <bool kSwapped, bool kNegated>
void lower_long_less(Lowering& l, const NodeView& node) {
  lower_long_test(l, node, [](GraphBuilder& b, const std::string& name, auto& x, auto& y) {
    const TensorId less = kSwapped ? long_less(b, name, y, x) : long_less(b, name, x, y);
    return kNegated ? b.unary(name, Function::kNot, less) : less;
  });
}

// An integer of 32 bits is the low word, as in PyTorch. PyTorch does not define the integer of a
// number beyond 64 bits, so the step or evaluation ends there.
void lower_long_cast(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const ValueType from = node.in().type, to = node.out().type;
  const AxisOrder order = l.stored(node.input(0)).order;
  if (to != ValueType::kI64) {
    const Long x = l.long_operand(node, 0, order);
    if (to == ValueType::kI32) return l.set(node, x.low, order);
    if (to == ValueType::kF32) return l.set(node, float_from_long(b, name, x), order);
    const TensorId is_zero = long_equal(b, name, x, long_constant(b, name, 0));
    return l.set(node, b.unary(name, Function::kNot, is_zero), order);
  }
  if (from == ValueType::kI64) return l.set_long(node, l.long_operand(node, 0, order), order);
  const TensorId x = l.in(node, 0, order);
  if (from == ValueType::kF32) l.refuse_if(name, b.words(name, ElementOp::kBeyondLong, {x}));
  l.set_long(node,
             from == ValueType::kI32    ? long_from_int(b, name, x)
             : from == ValueType::kBool ? long_from_truth(b, name, x)
                                        : long_from_float(b, name, x),
             order);
}

void lower_stop_gradient(Lowering& l, const NodeView& node) {
  lower_chain<&GraphBuilder::stop_gradient>(l, node);
}

// The decisions are numbered by elements in logical order, so they do not depend on how x is
// stored.
template <TensorId (GraphBuilder::*kDrop)(const std::string&, TensorId, double)>
void lower_dropout(Lowering& l, const NodeView& node) {
  const TensorId x = l.logical(node, 0);
  l.builder().set_site(static_cast<std::uint32_t>(node.integer("site")));
  l.set_logical(node, (l.builder().*kDrop)(node.label(), x, node.number("p")));
}

// One decision for each index of axis 0 is the same in every order that begins with this axis.
void lower_sample_dropout(Lowering& l, const NodeView& node) {
  const AxisOrder& order = l.stored(node.input(0)).order;
  // Another order has other neighbours for one sample, so x is then moved into logical order.
  if (order[0] != 0) return lower_dropout<&GraphBuilder::drop_rows>(l, node);
  l.builder().set_site(static_cast<std::uint32_t>(node.integer("site")));
  keep_order(l, node, [&](GraphBuilder& b, TensorId x) {
    return b.drop_rows(node.label(), x, node.number("p"));
  });
}

// --- The entries.

Kind unary(const char* name, const char* result, Lower lower,
           std::vector<AttributeRule> attributes = {}) {
  return {.name = name,
          .result = result,
          .slots = {{"x", "f"}},
          .attributes = std::move(attributes),
          .outputs = same_as_input,
          .lower = lower};
}

Kind binary(const char* name, const char* result, const char* types,
            Outputs (*outputs)(const NodeView&), Lower lower, Lower lower_long = nullptr) {
  return {.name = name,
          .result = result,
          .slots = {{"a", types}, {"b", types}},
          .outputs = outputs,
          .lower = lower,
          .lower_long = lower_long};
}

Kind random_kind(const char* name, const char* result, Outputs (*outputs)(const NodeView&),
                 Lower lower) {
  Kind kind =
      unary(name, result, lower, {number("p", 0.0, 0.999999), integer("site", 0, 0x7fffffff)});
  kind.outputs = outputs;
  return kind;
}

}  // namespace

std::vector<Kind> elementwise_kinds() {
  using F = Function;
  return {
      unary("relu", "as in PyTorch", lower_chain<&GraphBuilder::relu>),
      unary("leaky_relu", "x, or slope times x below 0", lower_leaky_relu, {number("slope")}),
      unary("gelu", "as in PyTorch", lower_gelu, {text("approximate", {"none", "tanh"})}),
      unary("tanh", "as in PyTorch", lower_chain<&GraphBuilder::tanh>),
      unary("sigmoid", "as in PyTorch", lower_chain<&GraphBuilder::sigmoid>),
      unary("silu", "as in PyTorch", lower_unary<F::kSilu>),
      unary("hardswish", "as in PyTorch", lower_unary<F::kHardswish>),
      unary("hardsigmoid", "as in PyTorch", lower_unary<F::kHardsigmoid>),
      unary("elu", "as in PyTorch", lower_elu, {number("alpha").or_else(1.0)}),
      unary("softplus", "as in PyTorch", lower_softplus,
            {number("beta", 1e-30, 1e30).or_else(1.0)}),
      unary("mish", "as in PyTorch", lower_unary<F::kMish>),
      unary("exp", "the function", lower_unary<F::kExp>),
      unary("log", "the function", lower_unary<F::kLog>),
      unary("log1p", "the function", lower_unary<F::kLog1p>),
      unary("expm1", "the function", lower_unary<F::kExpm1>),
      unary("sqrt", "the function", lower_unary<F::kSqrt>),
      unary("rsqrt", "the function", lower_unary<F::kRsqrt>),
      unary("reciprocal", "the function", lower_unary<F::kReciprocal>),
      unary("sin", "the function", lower_unary<F::kSin>),
      unary("cos", "the function", lower_unary<F::kCos>),
      unary("erf", "the function", lower_unary<F::kErf>),
      unary("abs", "the function", lower_unary<F::kAbs>),
      unary("neg", "the function", lower_unary<F::kNegate>),
      unary("square", "the function", lower_unary<F::kSquare>),
      unary("floor", "the function", lower_unary<F::kFloor>),
      unary("round", "the function", lower_unary<F::kRound>),
      unary("sign", "the function", lower_unary<F::kSign>),
      unary("clamp", "x, limited by what is given", lower_clamp,
            {number("min").or_none(), number("max").or_none()}),
      unary("pow_scalar", "x to the exponent", lower_pow_scalar, {number("exponent")}),
      unary("add_scalar", "x plus the value", lower_add_scalar, {number("value")}),
      unary("mul_scalar", "x times the value", lower_mul_scalar, {number("value")}),
      binary("add", "the sum", "fil", arithmetic_outputs, kLowerAdd, lower_long_binary<long_sum>),
      binary("sub", "the difference", "fil", arithmetic_outputs, lower_binary<F::kSub>,
             lower_long_binary<long_pair<ElementOp::kSubInt, ElementOp::kSubHigh>>),
      binary("mul", "the product", "fil", arithmetic_outputs, kLowerMul,
             lower_long_binary<long_pair<ElementOp::kMulInt, ElementOp::kMulHigh>>),
      binary("div", "the quotient", "f", arithmetic_outputs, lower_binary<F::kDiv>),
      binary("maximum", "the larger one", "fil", arithmetic_outputs, lower_binary<F::kMaximum>,
             lower_long_binary<long_maximum>),
      binary("minimum", "the smaller one", "fil", arithmetic_outputs, lower_binary<F::kMinimum>,
             lower_long_binary<long_minimum>),
      binary("pow", "a to the power b", "f", arithmetic_outputs, lower_binary<F::kPow>),
      binary("eq", "whether it holds, as a bool", "fil", comparison_outputs,
             lower_binary<F::kEqual>, lower_long_equal<false>),
      binary("ne", "whether it holds, as a bool", "fil", comparison_outputs,
             lower_binary<F::kNotEqual>, lower_long_equal<true>),
      binary("lt", "whether it holds, as a bool", "fil", comparison_outputs, lower_binary<F::kLess>,
             lower_long_less<false, false>),
      binary("le", "whether it holds, as a bool", "fil", comparison_outputs,
             lower_binary<F::kLessEqual>, lower_long_less<true, true>),
      binary("gt", "whether it holds, as a bool", "fil", comparison_outputs,
             lower_binary<F::kGreater>, lower_long_less<true, false>),
      binary("ge", "whether it holds, as a bool", "fil", comparison_outputs,
             lower_binary<F::kGreaterEqual>, lower_long_less<false, true>),
      binary("and", "the truth value", "b", arithmetic_outputs, lower_binary<F::kAnd>),
      binary("or", "the truth value", "b", arithmetic_outputs, lower_binary<F::kOr>),
      {.name = "not",
       .result = "the truth value",
       .slots = {{"x", "b"}},
       .outputs = same_as_input,
       .lower = lower_unary<F::kNot>},
      {.name = "where",
       .result = "a where the condition holds, otherwise b",
       .slots = {{"condition", "b"}, {"a", "fibl"}, {"b", "fibl"}},
       .outputs = where_outputs,
       .lower = lower_where},
      {.name = "cast",
       .result = "x in the type",
       .slots = {{"x", "fibl"}},
       .attributes = {text("to", {"f32", "i32", "bool", "i64"})},
       .outputs = cast_outputs,
       .lower = lower_cast,
       .lower_long = lower_long_cast},
      unary("stop_gradient", "x, through which no gradient flows", lower_stop_gradient),
      random_kind("dropout", "x with one random decision for each element", same_as_input,
                  lower_dropout<&GraphBuilder::dropout>),
      random_kind("sample_dropout", "x with one random decision for each index of axis 0",
                  sample_dropout_outputs, lower_sample_dropout),
  };
}

}  // namespace es::gpu
