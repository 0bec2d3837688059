#include "tests/gpu/support/function_fp64.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "proto/base/check.h"

namespace es::test {
namespace {

using gpu::Function;

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

double unary(Function function, double a, double b, double x) {
  const double pi = std::acos(-1.0);
  switch (function) {
    case Function::kNegate:
      return -x;
    case Function::kAbs:
      return std::abs(x);
    case Function::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case Function::kSquare:
      return x * x;
    case Function::kSqrt:
      return std::sqrt(x);
    case Function::kRsqrt:
      return 1 / std::sqrt(x);
    case Function::kReciprocal:
      return 1 / x;
    case Function::kExp:
      return std::exp(x);
    case Function::kExpm1:
      return std::expm1(x);
    case Function::kLog:
      return std::log(x);
    case Function::kLog1p:
      return std::log1p(x);
    case Function::kSin:
      return std::sin(x);
    case Function::kCos:
      return std::cos(x);
    case Function::kTanh:
      return std::tanh(x);
    case Function::kSigmoid:
      return sigmoid(x);
    case Function::kErf:
      return std::erf(x);
    case Function::kGelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.0));
    case Function::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
    case Function::kSilu:
      return x * sigmoid(x);
    case Function::kHardswish:
      return x * std::clamp(x + 3, 0.0, 6.0) / 6;
    case Function::kHardsigmoid:
      return std::clamp(x + 3, 0.0, 6.0) / 6;
    case Function::kElu:
      return x > 0 ? x : a * std::expm1(x);
    case Function::kSoftplus:
      return softplus(a * x) / a;
    case Function::kMish:
      return x * std::tanh(softplus(x));
    case Function::kRelu:
      return std::max(x, 0.0);
    case Function::kLeakyRelu:
      return x > 0 ? x : a * x;
    case Function::kClamp:
      return std::min(std::max(x, a), b);
    case Function::kClampMin:
      return std::max(x, a);
    case Function::kClampMax:
      return std::min(x, b);
    case Function::kPowScalar:
      return std::pow(x, a);
    case Function::kAddScalar:
      return x + a;
    case Function::kMulScalar:
      return x * a;
    case Function::kFloor:
      return std::floor(x);
    case Function::kRound:
      return std::nearbyint(x);
    case Function::kNot:
      return x == 0;
    case Function::kToInt:
      return std::trunc(x);
    case Function::kToFloat:
    case Function::kCopy:
      return x;
    default:
      break;
  }
  ES_CHECK_MSG(false, "a function with more operands");
}

}  // namespace

double function_fp64(Function function, const gpu::FunctionParameters& parameters,
                     std::span<const double> x) {
  switch (function) {
    case Function::kAdd:
      return x[0] + x[1];
    case Function::kSub:
      return x[0] - x[1];
    case Function::kMul:
      return x[0] * x[1];
    case Function::kDiv:
      return x[0] / x[1];
    case Function::kMaximum:
      return std::max(x[0], x[1]);
    case Function::kMinimum:
      return std::min(x[0], x[1]);
    case Function::kPow:
      return std::pow(x[0], x[1]);
    case Function::kEqual:
      return x[0] == x[1];
    case Function::kNotEqual:
      return x[0] != x[1];
    case Function::kLess:
      return x[0] < x[1];
    case Function::kLessEqual:
      return x[0] <= x[1];
    case Function::kGreater:
      return x[0] > x[1];
    case Function::kGreaterEqual:
      return x[0] >= x[1];
    case Function::kAnd:
      return x[0] != 0 && x[1] != 0;
    case Function::kOr:
      return x[0] != 0 || x[1] != 0;
    case Function::kWhere:
      return x[0] != 0 ? x[1] : x[2];
    default:
      return unary(function, parameters.a, parameters.b, x[0]);
  }
}

double reduction_fp64(gpu::Reduction kind, std::span<const double> x) {
  switch (kind) {
    case gpu::Reduction::kSum:
      return std::accumulate(x.begin(), x.end(), 0.0);
    case gpu::Reduction::kMean:
      return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
    case gpu::Reduction::kMax:
      return *std::max_element(x.begin(), x.end());
    case gpu::Reduction::kMin:
      return *std::min_element(x.begin(), x.end());
    case gpu::Reduction::kProd:
      return std::accumulate(x.begin(), x.end(), 1.0, [](double a, double b) { return a * b; });
  }
  ES_CHECK_MSG(false, "a reduction");
}

}  // namespace es::test
