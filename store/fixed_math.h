#pragma once
// exp in fp64 with the same bits on every machine, which libm does not guarantee. The functions use
// additions and multiplications in a written order, and exact powers of two. The error is below 4
// units in the last place.
#include <array>
#include <bit>
#include <cstdint>

namespace es::store {

// 2^n for -1022 <= n <= 1023.
constexpr double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

inline constexpr std::array<double, 16> kInverseFactorial = [] {
  std::array<double, 16> values{1.0};
  for (int k = 1; k < 16; ++k) values[k] = values[k - 1] / k;
  return values;
}();

// e^x. The result is 0 for x below -700, e^700 for x above 700, and NaN for NaN.
constexpr double fixed_exp(double x) {
  constexpr double kLimit = 700.0;
  if (x < -kLimit) return 0.0;
  if (x > kLimit) x = kLimit;
  if (x != x) return x;
  // x = n * log(2) + r. The high part of log(2) has so few bits that n * kLog2High is exact.
  constexpr double kLog2High = 0x1.62e42feep-1, kLog2Low = 0x1.a39ef35793c76p-33;
  constexpr double kPerLog2 = 1.4426950408889634;
  const double scaled = x * kPerLog2;
  const int n = static_cast<int>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  const double r = (x - n * kLog2High) - n * kLog2Low;  // |r| <= log(2) / 2
  double sum = kInverseFactorial[15];                   // the Taylor series by Horner's rule
  for (int k = 14; k >= 0; --k) sum = sum * r + kInverseFactorial[k];
  return sum * power_of_two(n);
}

constexpr double fixed_sigmoid(double x) {
  return 1.0 / (1.0 + fixed_exp(-x));
}

}  // namespace es::store
