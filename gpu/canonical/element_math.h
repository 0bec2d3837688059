#pragma once
// The instructions of element-wise programs (program.h), written once for one element and for
// vectors. What functions_math.h says about V holds here too.
#include "gpu/canonical/bf16.h"
#include "gpu/canonical/functions_math.h"
#include "gpu/canonical/long_math.h"
#include "gpu/canonical/program.h"

namespace es::gpu {
namespace {

template <ElementOp kValue>
struct OpConstant {
  static constexpr ElementOp value = kValue;
};

// Calls f(OpConstant<op>()).
template <class Function>
ES_HD inline void with_element_op(ElementOp op, Function&& f) {
  switch (op) {
#define ES_ELEMENT_OP(name, operands) \
  case ElementOp::name:               \
    return f(OpConstant<ElementOp::name>());
    ES_ELEMENT_OPS(ES_ELEMENT_OP)
#undef ES_ELEMENT_OP
  }
}

// The first NaN of a and b, or the larger; b if they are equal. The smaller likewise.
template <class V>
ES_HD inline V maximum(V a, V b) {
  return select(unordered(a, a), a, larger_of(b, a));
}
template <class V>
ES_HD inline V minimum(V a, V b) {
  return select(unordered(a, a), a, smaller_of(b, a));
}

// The truth value of a test.
template <class V, class Test>
ES_HD inline V truth(V like_this, Test test) {
  return keep_if(test, like(like_this, 1.0f));
}

// 1 or -1 for numbers above and below 0. Zeros and NaN stay.
template <class V>
ES_HD inline V sign_of(V x) {
  const V zero = like(x, 0.0f);
  const V above = select(less(zero, x), like(x, 1.0f), x);
  return select(less(x, zero), like(x, -1.0f), above);
}

// One floating-point operation or function.
template <ElementOp kOp, class V>
ES_HD inline V arithmetic(V a, V b, V c) {
  if constexpr (kOp == ElementOp::kAdd)
    return add(a, b);
  else if constexpr (kOp == ElementOp::kSub)
    return sub(a, b);
  else if constexpr (kOp == ElementOp::kMul)
    return mul(a, b);
  else if constexpr (kOp == ElementOp::kDiv)
    return div(a, b);
  else if constexpr (kOp == ElementOp::kFma)
    return fma(a, b, c);
  else if constexpr (kOp == ElementOp::kMax)
    return maximum(a, b);
  else if constexpr (kOp == ElementOp::kMin)
    return minimum(a, b);
  else if constexpr (kOp == ElementOp::kNegate)
    return negate(a);
  else if constexpr (kOp == ElementOp::kAbs)
    return absolute(a);
  else if constexpr (kOp == ElementOp::kSign)
    return sign_of(a);
  else if constexpr (kOp == ElementOp::kSqrt)
    return sqrt(a);
  else if constexpr (kOp == ElementOp::kFloor)
    return floor_of(a);
  else if constexpr (kOp == ElementOp::kRound)
    return rounded(a);
  else if constexpr (kOp == ElementOp::kExp)
    return canonical_exp(a);
  else if constexpr (kOp == ElementOp::kExpm1)
    return canonical_expm1(a);
  else if constexpr (kOp == ElementOp::kLog)
    return canonical_log(a);
  else if constexpr (kOp == ElementOp::kLog1p)
    return canonical_log1p(a);
  else if constexpr (kOp == ElementOp::kSin)
    return canonical_sin(a);
  else if constexpr (kOp == ElementOp::kCos)
    return canonical_cos(a);
  else if constexpr (kOp == ElementOp::kTanh)
    return canonical_tanh(a);
  else if constexpr (kOp == ElementOp::kSigmoid)
    return canonical_sigmoid(a);
  else if constexpr (kOp == ElementOp::kErf)
    return canonical_erf(a);
  else if constexpr (kOp == ElementOp::kGelu)
    return canonical_gelu(a);
  else if constexpr (kOp == ElementOp::kGeluGrad)
    return canonical_gelu_gradient(a);
  else if constexpr (kOp == ElementOp::kPow)
    return canonical_pow(a, b);
  else if constexpr (kOp == ElementOp::kRoundBf16)
    return rounded_to_bf16(a);
  else
    return a;  // kCopy
}

// Comparisons, logic and choices. Each operand of a logic operation is true unless it equals 0.
template <ElementOp kOp, class V>
ES_HD inline V decision(V a, V b, V c) {
  const V zero = like(a, 0.0f), one = like(a, 1.0f);
  if constexpr (kOp == ElementOp::kEqual)
    return truth(a, equal(a, b));
  else if constexpr (kOp == ElementOp::kNotEqual)
    return select(equal(a, b), zero, one);
  else if constexpr (kOp == ElementOp::kLess)
    return truth(a, less(a, b));
  else if constexpr (kOp == ElementOp::kLessEqual)
    return truth(a, less_equal(a, b));
  else if constexpr (kOp == ElementOp::kAnd)
    return select(either(equal(a, zero), equal(b, zero)), zero, one);
  else if constexpr (kOp == ElementOp::kOr)
    return select(both(equal(a, zero), equal(b, zero)), zero, one);
  else if constexpr (kOp == ElementOp::kNot)
    return truth(a, equal(a, zero));
  else
    return select(equal(a, zero), c, b);  // kSelect
}

// Operations on words that contain integers.
template <ElementOp kOp, class V>
ES_HD inline V integer(V a, V b) {
  const auto i = bits_of(a), j = bits_of(b);
  if constexpr (kOp == ElementOp::kAddInt)
    return from_bits(add(i, j));
  else if constexpr (kOp == ElementOp::kSubInt)
    return from_bits(sub(i, j));
  else if constexpr (kOp == ElementOp::kMulInt)
    return from_bits(mul(i, j));
  else if constexpr (kOp == ElementOp::kEqualInt)
    return truth(a, equal(i, j));
  else if constexpr (kOp == ElementOp::kLessInt)
    return truth(a, less(i, j));
  else if constexpr (kOp == ElementOp::kFromInt)
    return to_floats(i);
  else
    return from_bits(truncated(a));  // kToInt
}

// Returns the result of an instruction that has a vector form. Operands that it does not have are
// not used.
template <ElementOp kOp, class V>
ES_HD inline V element(V a, V b, V c) {
  if constexpr (kOp >= ElementOp::kAddInt)
    return integer<kOp>(a, b);
  else if constexpr (kOp >= ElementOp::kEqual)
    return decision<kOp>(a, b, c);
  else
    return arithmetic<kOp>(a, b, c);
}

// Returns the result of any instruction for one element.
template <ElementOp kOp>
ES_HD inline float one_element(float a, float b, float c, float d) {
  if constexpr (is_word_op(kOp))
    return words<kOp>(a, b, c, d);
  else
    return element<kOp>(a, b, c);
}

}  // namespace
}  // namespace es::gpu
