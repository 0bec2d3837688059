#pragma once
// The functions of general element-wise operators (GraphBuilder::unary, binary, where). Each is a
// sequence of instructions (gpu/canonical/program.h), and its derivative is one too; functions.cc
// has both in one table. docs/reference/operators.md defines them.
//
// Truth values are the numbers 1 and +0. Any other number, and NaN, counts as true.
#include <array>
#include <cstdint>
#include <optional>

#include "gpu/graph/element_code.h"

namespace es::gpu {

enum class Function : std::uint8_t {
  // One operand; a and b are the parameters.
  kNegate,
  kAbs,
  kSign,  // 1, -1, or x itself if it is a zero or NaN; no gradient
  kSquare,
  kSqrt,
  kRsqrt,       // 1 / sqrt(x)
  kReciprocal,  // 1 / x
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kSin,
  kCos,
  kTanh,
  kSigmoid,
  kErf,
  kGelu,      // with ERF
  kGeluTanh,  // PyTorch's approximate="tanh"
  kSilu,
  kHardswish,
  kHardsigmoid,
  kElu,       // a: alpha
  kSoftplus,  // a: beta, above 0
  kMish,
  kRelu,
  kLeakyRelu,  // a: slope
  kClamp,      // a: lowest, b: highest
  kClampMin,   // a: lowest
  kClampMax,   // b: highest
  kPowScalar,  // a: exponent
  kAddScalar,  // x + a
  kMulScalar,  // x * a
  kFloor,      // no gradient
  kRound,      // to the nearest integer, ties to even; no gradient
  kNot,        // no gradient
  // Two operands. kAdd, kSub, kMul and the comparisons also take two tensors of integers.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kPow,
  kEqual,  // the comparisons give truth values
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  // Three operands: condition, a, b. Words are chosen, so a and b may be integers.
  kWhere,
  // Casts.
  kToInt,    // truncated; saturates; NaN gives 0
  kToFloat,  // of an integer, rounded to nearest
  // A copy, with which operands are repeated.
  kCopy,
  // One instruction on words (GraphBuilder::words), which is not in the table; no gradient.
  kWords,
};

struct FunctionParameters {
  float a = 0.0F, b = 0.0F;
};

// The kinds of reductions.
enum class Reduction : std::uint8_t {
  kSum,
  kMean,
  kMax,   // the gradient is shared equally by all elements that are equal to the maximum
  kMin,   // likewise
  kProd,  // the gradient of an element is dy times the product of the others
};

// --- The table.

const char* function_name(Function function);
int function_operands(Function function);
// Returns whether the function has a gradient for any operand.
bool is_differentiable(Function function);

// Appends the function of these operands; `integers` selects the variant for two integers.
Term write_function(Function function, const FunctionParameters& parameters,
                    std::span<const Term> operands, bool integers);
// Appends the gradient of an operand, from the gradient of the result dy and the result y. Nothing:
// the gradient is +0.
std::optional<Term> write_gradient(Function function, const FunctionParameters& parameters,
                                   std::size_t operand, Term dy, std::span<const Term> operands,
                                   Term y);

}  // namespace es::gpu
