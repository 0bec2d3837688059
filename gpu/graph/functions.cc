#include "gpu/graph/functions.h"

#include <array>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

// What the entries get: operands and parameters, and for a gradient dy and the result y.
struct Forward {
  std::span<const Term> x;
  float a, b;
  bool integers;
};
struct Backward {
  std::span<const Term> x;
  float a, b;
  Term dy, y;
};

using F = Forward;
using G = Backward;

struct Entry {
  Function function;
  const char* name;
  int operands;
  Term (*forward)(const Forward&);
  std::array<Term (*)(const Backward&), 3> gradient = {};  // nullptr: +0
};

// --- Terms that several entries use.

Term less(Term a, Term b) {
  return emit(ElementOp::kLess, a, b);
}
Term choose(Term test, Term a, Term b) {
  return emit(ElementOp::kSelect, test, a, b);
}
Term zero(Term like) {
  return number(like, 0.0F);
}
Term larger(Term a, float b) {
  return emit(ElementOp::kMax, a, number(a, b));
}
Term smaller(Term a, float b) {
  return emit(ElementOp::kMin, a, number(a, b));
}
Term sigmoid(Term x) {
  return emit(ElementOp::kSigmoid, x);
}
Term exponential(Term x) {
  return emit(ElementOp::kExp, x);
}
Term inverse_root(Term x) {
  return 1.0F / emit(ElementOp::kSqrt, x);
}
// 1 - x^2 with one rounding of the product: the derivative of tanh in terms of its result.
Term one_minus_square(Term x) {
  return emit(ElementOp::kFma, -x, x, number(x, 1.0F));
}

// 1/6, rounded to a float. The definition of the ramp is a product with this number.
constexpr float kSixth = 0x1.555556p-3F;
Term hard_ramp(Term x) {  // 0 below -3, 1 above 3
  return smaller(larger(x + 3.0F, 0.0F), 6.0F) * kSixth;
}

// GELU with tanh is x * SIGMOID(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the same function without
// the cancellation of 1 + tanh.
constexpr float kGeluScale = 1.5957691216F, kGeluCube = 0.044715F;
Term gelu_tanh_factor(Term x) {
  return sigmoid((x * kGeluScale) *
                 emit(ElementOp::kFma, x * x, number(x, kGeluCube), number(x, 1.0F)));
}
// y = x s(v) with v = x k (1 + c x^2), where s is the sigmoid, k = kGeluScale and c = kGeluCube. So
// dy/dx = s + x s (1 - s) v' with v' = k (1 + 3 c x^2), which is `slope`.
Term gelu_tanh_gradient(Term dy, Term x) {
  const Term s = gelu_tanh_factor(x);
  const Term slope =
      emit(ElementOp::kFma, x * x, number(x, 3.0F * kGeluCube), number(x, 1.0F)) * kGeluScale;
  return dy * (s + (x * (s * (1.0F - s))) * slope);
}

// y = x s(x) with the sigmoid s, so the derivative is s + x s (1 - s).
Term silu_gradient(Term dy, Term x) {
  const Term s = sigmoid(x);
  return dy * (s + x * (s * (1.0F - s)));
}

// tanh(softplus(x)) = w / (w + 2) with w = e^x (e^x + 2). From x = 20 on the quotient rounds to 1,
// and the limit keeps the square of e^x from overflowing.
Term mish_factor(Term x) {
  const Term e = exponential(smaller(x, 20.0F)), w = e * (e + 2.0F);
  return w / (w + 2.0F);
}
// y = x t with t = tanh(softplus(x)). The derivative of softplus is the sigmoid, so dy/dx = t + x
// (1 - t^2) sigmoid(x).
Term mish_gradient(Term dy, Term x) {
  const Term t = mish_factor(x);
  return dy * (t + (x * one_minus_square(t)) * sigmoid(x));
}

// log(1 + exp(z)) / beta with z = beta x, as max(z, +0) + LOG1P(EXP(-|z|)): the exponent is never
// positive, so nothing overflows. With beta = 1 neither the product nor the quotient is computed;
// both would be exact.
Term softplus(Term x, float beta) {
  const Term z = beta == 1.0F ? x : x * beta;
  const Term y = larger(z, 0.0F) + emit(ElementOp::kLog1p, exponential(-emit(ElementOp::kAbs, z)));
  return beta == 1.0F ? y : y / number(y, beta);
}

// x^exponent. Some exponents are products, quotients and roots, which cost less than POW and can
// have other bits, so they are a part of the definition.
Term power(Term x, float exponent) {
  if (exponent == 0.0F) return number(x, 1.0F);
  if (exponent == 1.0F) return x;
  if (exponent == 2.0F) return x * x;
  if (exponent == 3.0F) return (x * x) * x;
  if (exponent == 0.5F) return emit(ElementOp::kSqrt, x);
  if (exponent == -0.5F) return inverse_root(x);
  if (exponent == -1.0F) return 1.0F / x;
  if (exponent == -2.0F) return 1.0F / (x * x);
  return emit(ElementOp::kPow, x, number(x, exponent));
}
// The derivative of x^0 is 0 also at x = 0, where the formula would give 0 times infinity.
Term power_gradient(Term dy, Term x, float exponent) {
  if (exponent == 0.0F) return zero(dy);
  return dy * (power(x, exponent - 1.0F) * exponent);
}
// The gradient of the exponent b of y = x^b is dy y log(x). At x = 0 the logarithm is -inf and y is
// 0 for b > 0, whose product is NaN. There the limit +0 is taken, and for b = 0 as well, as in
// PyTorch.
Term exponent_gradient(Term dy, Term x, Term exponent, Term y) {
  const Term none = emit(ElementOp::kAnd, emit(ElementOp::kEqual, x, zero(x)),
                         emit(ElementOp::kLessEqual, zero(x), exponent));
  return choose(none, zero(x), (dy * y) * emit(ElementOp::kLog, x));
}

// The gradient goes to the operand that was chosen. Equal operands get a half each, as in PyTorch.
Term extreme_gradient(Term dy, Term wins, Term a, Term b) {
  // `wins` says that this operand is the greater (or smaller) one; of equal ones neither wins.
  const Term shared = choose(emit(ElementOp::kEqual, a, b), dy * 0.5F, zero(dy));
  return choose(wins, dy, shared);
}

// Choosing +0 differs from multiplying by the truth value, which would turn an infinite value into
// NaN.
Term when(Term test, Term value) {
  return choose(test, value, zero(value));
}
// Also serves the sum, the difference and the product, which have variants for numbers and for
// integers too.
Term compare(const Forward& f, ElementOp numbers, ElementOp integers, bool swapped = false) {
  const Term a = f.x[swapped ? 1 : 0], b = f.x[swapped ? 0 : 1];
  return emit(f.integers ? integers : numbers, a, b);
}
Term negated(Term truth) {
  return emit(ElementOp::kNot, truth);
}
// a <= b. The programs have no such instruction for integers, so it is the negation of b < a there.
// For numbers the two differ: with a NaN both a <= b and b < a are false.
Term at_most(const Forward& f, Term a, Term b) {
  return f.integers ? negated(emit(ElementOp::kLessInt, b, a)) : emit(ElementOp::kLessEqual, a, b);
}

constexpr float kTwoOverRootPi = 1.1283791670955126F;

constexpr Entry kEntries[] = {
    {Function::kNegate, "neg", 1, [](const F& f) { return -f.x[0]; }, {[](const G& g) {
       return -g.dy;
     }}},
    {Function::kAbs,
     "abs",
     1,
     [](const F& f) { return emit(ElementOp::kAbs, f.x[0]); },
     {[](const G& g) { return g.dy * emit(ElementOp::kSign, g.x[0]); }}},
    {Function::kSign, "sign", 1, [](const F& f) { return emit(ElementOp::kSign, f.x[0]); }},
    {Function::kSquare, "square", 1, [](const F& f) { return f.x[0] * f.x[0]; }, {[](const G& g) {
       return g.dy * (g.x[0] + g.x[0]);
     }}},
    {Function::kSqrt,
     "sqrt",
     1,
     [](const F& f) { return emit(ElementOp::kSqrt, f.x[0]); },
     // y = sqrt(x) gives dy / (2 y), and y is at hand. 2 y is the exact sum y + y.
     {[](const G& g) { return g.dy / (g.y + g.y); }}},
    {Function::kRsqrt,
     "rsqrt",
     1,
     [](const F& f) { return inverse_root(f.x[0]); },
     // y = x^(-1/2) gives -1/2 x^(-3/2) = -1/2 y^3.
     {[](const G& g) { return (g.dy * -0.5F) * ((g.y * g.y) * g.y); }}},
    {Function::kReciprocal,
     "reciprocal",
     1,
     [](const F& f) { return 1.0F / f.x[0]; },
     {[](const G& g) { return -(g.dy * (g.y * g.y)); }}},
    {Function::kExp, "exp", 1, [](const F& f) { return exponential(f.x[0]); }, {[](const G& g) {
       return g.dy * g.y;
     }}},
    {Function::kExpm1,
     "expm1",
     1,
     [](const F& f) { return emit(ElementOp::kExpm1, f.x[0]); },
     // exp(x) is the result plus 1.
     {[](const G& g) { return g.dy * (g.y + 1.0F); }}},
    {Function::kLog,
     "log",
     1,
     [](const F& f) { return emit(ElementOp::kLog, f.x[0]); },
     {[](const G& g) { return g.dy / g.x[0]; }}},
    {Function::kLog1p,
     "log1p",
     1,
     [](const F& f) { return emit(ElementOp::kLog1p, f.x[0]); },
     {[](const G& g) { return g.dy / (g.x[0] + 1.0F); }}},
    {Function::kSin,
     "sin",
     1,
     [](const F& f) { return emit(ElementOp::kSin, f.x[0]); },
     {[](const G& g) { return g.dy * emit(ElementOp::kCos, g.x[0]); }}},
    {Function::kCos,
     "cos",
     1,
     [](const F& f) { return emit(ElementOp::kCos, f.x[0]); },
     {[](const G& g) { return -(g.dy * emit(ElementOp::kSin, g.x[0])); }}},
    {Function::kTanh,
     "tanh",
     1,
     [](const F& f) { return emit(ElementOp::kTanh, f.x[0]); },
     {[](const G& g) { return g.dy * one_minus_square(g.y); }}},
    {Function::kSigmoid, "sigmoid", 1, [](const F& f) { return sigmoid(f.x[0]); }, {[](const G& g) {
       return g.dy * (g.y * (1.0F - g.y));
     }}},
    {Function::kErf,
     "erf",
     1,
     [](const F& f) { return emit(ElementOp::kErf, f.x[0]); },
     // d erf(x) / dx = 2 / sqrt(pi) exp(-x^2).
     {[](const G& g) { return g.dy * (exponential(-(g.x[0] * g.x[0])) * kTwoOverRootPi); }}},
    {Function::kGelu,
     "gelu",
     1,
     [](const F& f) { return emit(ElementOp::kGelu, f.x[0]); },
     {[](const G& g) { return g.dy * emit(ElementOp::kGeluGrad, g.x[0]); }}},
    {Function::kGeluTanh,
     "gelu_tanh",
     1,
     [](const F& f) { return f.x[0] * gelu_tanh_factor(f.x[0]); },
     {[](const G& g) { return gelu_tanh_gradient(g.dy, g.x[0]); }}},
    {Function::kSilu,
     "silu",
     1,
     [](const F& f) { return f.x[0] * sigmoid(f.x[0]); },
     {[](const G& g) { return silu_gradient(g.dy, g.x[0]); }}},
    {Function::kHardswish,
     "hardswish",
     1,
     [](const F& f) { return f.x[0] * hard_ramp(f.x[0]); },
     {[](const G& g) {
       // x (x + 3) / 6 has the derivative x / 3 + 1/2 between -3 and 3; below it is 0, and above it
       // is 1.
       const Term x = g.x[0], inner = g.dy * (x / number(x, 3.0F) + 0.5F);
       const Term below = when(negated(less(x, number(x, -3.0F))), inner);
       return choose(less(number(x, 3.0F), x), g.dy, below);
     }}},
    {Function::kHardsigmoid,
     "hardsigmoid",
     1,
     [](const F& f) { return hard_ramp(f.x[0]); },
     {[](const G& g) {
       return when(less(emit(ElementOp::kAbs, g.x[0]), number(g.dy, 3.0F)), g.dy * kSixth);
     }}},
    {Function::kElu,
     "elu",
     1,
     [](const F& f) {
       const Term x = f.x[0], low = emit(ElementOp::kExpm1, x);
       return choose(less(zero(x), x), x, f.a == 1.0F ? low : low * f.a);
     },
     {[](const G& g) {
       // alpha exp(x) for x <= 0. The limit keeps the exponential of a positive x, which is not
       // chosen, from becoming infinite.
       const Term x = g.x[0], low = exponential(smaller(x, 0.0F)) * g.a;
       return choose(less(zero(x), x), g.dy, g.dy * low);
     }}},
    {Function::kSoftplus,
     "softplus",
     1,
     [](const F& f) { return softplus(f.x[0], f.a); },
     // The derivative of softplus is sigmoid(beta x): beta and the divisor cancel.
     {[](const G& g) { return g.dy * sigmoid(g.a == 1.0F ? g.x[0] : g.x[0] * g.a); }}},
    {Function::kMish,
     "mish",
     1,
     [](const F& f) { return f.x[0] * mish_factor(f.x[0]); },
     {[](const G& g) { return mish_gradient(g.dy, g.x[0]); }}},
    {Function::kRelu, "relu", 1, [](const F& f) { return larger(f.x[0], 0.0F); }, {[](const G& g) {
       return when(less(zero(g.y), g.y), g.dy);
     }}},
    {Function::kLeakyRelu,
     "leaky_relu",
     1,
     [](const F& f) { return choose(less(zero(f.x[0]), f.x[0]), f.x[0], f.x[0] * f.a); },
     {[](const G& g) { return choose(less(zero(g.x[0]), g.x[0]), g.dy, g.dy * g.a); }}},
    {Function::kClamp,
     "clamp",
     1,
     [](const F& f) { return smaller(larger(f.x[0], f.a), f.b); },
     {[](const G& g) {
       const Term x = g.x[0];
       // Inside the closed interval, as in PyTorch: x equal to a limit still has the gradient dy.
       return when(emit(ElementOp::kAnd, emit(ElementOp::kLessEqual, number(x, g.a), x),
                        emit(ElementOp::kLessEqual, x, number(x, g.b))),
                   g.dy);
     }}},
    {Function::kClampMin,
     "clamp_min",
     1,
     [](const F& f) { return larger(f.x[0], f.a); },
     {[](const G& g) {
       return when(emit(ElementOp::kLessEqual, number(g.dy, g.a), g.x[0]), g.dy);
     }}},
    {Function::kClampMax,
     "clamp_max",
     1,
     [](const F& f) { return smaller(f.x[0], f.b); },
     {[](const G& g) {
       return when(emit(ElementOp::kLessEqual, g.x[0], number(g.dy, g.b)), g.dy);
     }}},
    {Function::kPowScalar,
     "pow_scalar",
     1,
     [](const F& f) { return power(f.x[0], f.a); },
     {[](const G& g) { return power_gradient(g.dy, g.x[0], g.a); }}},
    {Function::kAddScalar,
     "add_scalar",
     1,
     [](const F& f) { return f.x[0] + f.a; },
     {[](const G& g) { return g.dy; }}},
    {Function::kMulScalar,
     "mul_scalar",
     1,
     [](const F& f) { return f.x[0] * f.a; },
     {[](const G& g) { return g.dy * g.a; }}},
    {Function::kFloor, "floor", 1, [](const F& f) { return emit(ElementOp::kFloor, f.x[0]); }},
    {Function::kRound, "round", 1, [](const F& f) { return emit(ElementOp::kRound, f.x[0]); }},
    {Function::kNot, "not", 1, [](const F& f) { return negated(f.x[0]); }},

    {Function::kAdd,
     "add",
     2,
     [](const F& f) { return compare(f, ElementOp::kAdd, ElementOp::kAddInt); },
     {[](const G& g) { return g.dy; }, [](const G& g) { return g.dy; }}},
    {Function::kSub,
     "sub",
     2,
     [](const F& f) { return compare(f, ElementOp::kSub, ElementOp::kSubInt); },
     {[](const G& g) { return g.dy; }, [](const G& g) { return -g.dy; }}},
    {Function::kMul,
     "mul",
     2,
     [](const F& f) { return compare(f, ElementOp::kMul, ElementOp::kMulInt); },
     {[](const G& g) { return g.dy * g.x[1]; }, [](const G& g) { return g.dy * g.x[0]; }}},
    {Function::kDiv,
     "div",
     2,
     [](const F& f) { return f.x[0] / f.x[1]; },
     {[](const G& g) { return g.dy / g.x[1]; },
      // d(a/b)/db = -a / b^2 = -y / b.
      [](const G& g) { return -((g.dy * g.y) / g.x[1]); }}},
    {Function::kMaximum,
     "maximum",
     2,
     [](const F& f) { return emit(ElementOp::kMax, f.x[0], f.x[1]); },
     {[](const G& g) { return extreme_gradient(g.dy, less(g.x[1], g.x[0]), g.x[0], g.x[1]); },
      [](const G& g) { return extreme_gradient(g.dy, less(g.x[0], g.x[1]), g.x[0], g.x[1]); }}},
    {Function::kMinimum,
     "minimum",
     2,
     [](const F& f) { return emit(ElementOp::kMin, f.x[0], f.x[1]); },
     {[](const G& g) { return extreme_gradient(g.dy, less(g.x[0], g.x[1]), g.x[0], g.x[1]); },
      [](const G& g) { return extreme_gradient(g.dy, less(g.x[1], g.x[0]), g.x[0], g.x[1]); }}},
    {Function::kPow,
     "pow",
     2,
     [](const F& f) { return emit(ElementOp::kPow, f.x[0], f.x[1]); },
     {[](const G& g) { return g.dy * (g.x[1] * emit(ElementOp::kPow, g.x[0], g.x[1] + -1.0F)); },
      [](const G& g) { return exponent_gradient(g.dy, g.x[0], g.x[1], g.y); }}},
    {Function::kEqual, "eq", 2,
     [](const F& f) { return compare(f, ElementOp::kEqual, ElementOp::kEqualInt); }},
    {Function::kNotEqual, "ne", 2,
     [](const F& f) {
       // The programs have no instruction for unequal integers.
       return f.integers ? negated(compare(f, ElementOp::kEqualInt, ElementOp::kEqualInt))
                         : emit(ElementOp::kNotEqual, f.x[0], f.x[1]);
     }},
    {Function::kLess, "lt", 2,
     [](const F& f) { return compare(f, ElementOp::kLess, ElementOp::kLessInt); }},
    {Function::kLessEqual, "le", 2, [](const F& f) { return at_most(f, f.x[0], f.x[1]); }},
    {Function::kGreater, "gt", 2,
     [](const F& f) { return compare(f, ElementOp::kLess, ElementOp::kLessInt, true); }},
    {Function::kGreaterEqual, "ge", 2, [](const F& f) { return at_most(f, f.x[1], f.x[0]); }},
    {Function::kAnd, "and", 2, [](const F& f) { return emit(ElementOp::kAnd, f.x[0], f.x[1]); }},
    {Function::kOr, "or", 2, [](const F& f) { return emit(ElementOp::kOr, f.x[0], f.x[1]); }},

    {Function::kWhere,
     "where",
     3,
     [](const F& f) { return choose(f.x[0], f.x[1], f.x[2]); },
     // The condition has no gradient.
     {nullptr, [](const G& g) { return when(g.x[0], g.dy); },
      [](const G& g) { return choose(g.x[0], zero(g.dy), g.dy); }}},
    {Function::kToInt, "to_int", 1, [](const F& f) { return emit(ElementOp::kToInt, f.x[0]); }},
    {Function::kToFloat, "to_float", 1,
     [](const F& f) { return emit(ElementOp::kFromInt, f.x[0]); }},
    {Function::kCopy, "copy", 1, [](const F& f) { return f.x[0]; }, {[](const G& g) {
       return g.dy;
     }}},
    {Function::kWords, "words", 0, nullptr},
};

// The table is indexed by the function, so its entries must be in the order of the enumeration.
const Entry& entry_of(Function function) {
  const Entry& entry = kEntries[static_cast<std::size_t>(function)];
  ES_CHECK(entry.function == function);
  return entry;
}

}  // namespace

const char* function_name(Function function) {
  return entry_of(function).name;
}

int function_operands(Function function) {
  return entry_of(function).operands;
}

bool is_differentiable(Function function) {
  for (const auto gradient : entry_of(function).gradient)
    if (gradient != nullptr) return true;
  return false;
}

Term write_function(Function function, const FunctionParameters& parameters,
                    std::span<const Term> operands, bool integers) {
  return entry_of(function).forward({operands, parameters.a, parameters.b, integers});
}

std::optional<Term> write_gradient(Function function, const FunctionParameters& parameters,
                                   std::size_t operand, Term dy, std::span<const Term> operands,
                                   Term y) {
  const auto gradient = entry_of(function).gradient[operand];
  if (gradient == nullptr) return std::nullopt;
  return gradient({operands, parameters.a, parameters.b, dy, y});
}

}  // namespace es::gpu
