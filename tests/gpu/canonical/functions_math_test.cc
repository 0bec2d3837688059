#include "gpu/canonical/functions_math.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>

#include "tests/support/seed.h"

namespace es::gpu {
namespace {

// Distance of `actual` from `exact` in units of the last place of the exact value.
double ulps(float actual, double exact) {
  const float nearest = static_cast<float>(exact);
  if (actual == nearest || (std::isnan(actual) && std::isnan(exact))) return 0;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(actual - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// All magnitudes, and a dense sweep of [-20, 20]. Prints the largest error.
template <class Function, class Exact>
void check_error(const char* name, double bound, Function function, Exact exact) {
  std::mt19937_64 random(test::seed(name));
  std::uniform_int_distribution<std::uint32_t> bits;
  std::uniform_real_distribution<float> centre(-20.0f, 20.0f);
  double worst = 0.0;
  float at = 0.0f;
  for (int i = 0; i < 1'000'000; ++i) {
    for (const float x : {std::bit_cast<float>(bits(random)), centre(random)}) {
      const double error = std::isnan(x) ? 0.0 : ulps(function(x), exact(static_cast<double>(x)));
      if (!(error <= worst)) worst = error, at = x;
    }
  }
  MESSAGE(std::string(name) << ": at most " << worst << " ulp, at " << at);
  CHECK(worst <= bound);
}

TEST_SUITE("gpu/canonical/functions_math") {
  TEST_CASE("EXPM1, LOG1P, SIN and COS are within 1.5 units of the last place") {
    check_error("EXPM1", 1.5, canonical_expm1<float>, [](double x) { return std::expm1(x); });
    check_error("LOG1P", 1.5, canonical_log1p<float>, [](double x) { return std::log1p(x); });
    check_error("SIN", 1.5, canonical_sin<float>, [](double x) { return std::sin(x); });
    check_error("COS", 1.5, canonical_cos<float>, [](double x) { return std::cos(x); });
  }

  TEST_CASE("POW is within 1.1 units of the last place") {
    std::mt19937_64 random(test::seed("POW"));
    std::uniform_int_distribution<std::uint32_t> bits;
    std::uniform_real_distribution<double> exponent(-110.0, 110.0);
    double worst = 0.0;
    for (int i = 0; i < 1'000'000; ++i) {
      const float x = std::bit_cast<float>(bits(random) & 0x7fffffffu);
      const double log = std::log(static_cast<double>(x));
      for (const float y :
           {std::bit_cast<float>(bits(random)), static_cast<float>(exponent(random) / log)}) {
        if (std::isnan(x) || std::isnan(y)) continue;
        worst = std::max(worst, ulps(canonical_pow(x, y), std::pow(static_cast<double>(x), y)));
      }
    }
    MESSAGE("POW: at most " << worst << " ulp");
    CHECK(worst <= 1.1);
  }

  TEST_CASE("POW has the special cases of C") {
    const float values[] = {0.0f,  -0.0f, 1.0f,  -1.0f,      2.0f,       -2.0f,     0.5f,
                            -0.5f, 3.0f,  -3.0f, INFINITY,   -INFINITY,  NAN,       0x1p-149f,
                            1e10f, -7.0f, 1e30f, 16777217.f, 8388609.0f, -8388609.f};
    for (const float x : values) {
      for (const float y : values) {
        INFO(x, " ", y);
        const float actual = canonical_pow(x, y);
        const double exact = std::pow(static_cast<double>(x), static_cast<double>(y));
        CHECK(ulps(actual, exact) <= 1.1);
        if (!std::isnan(exact)) CHECK(std::signbit(actual) == std::signbit(exact));
      }
    }
  }

  TEST_CASE("EXPM1, LOG1P, SIN and COS of special values") {
    for (const auto f : {canonical_expm1<float>, canonical_log1p<float>, canonical_sin<float>}) {
      CHECK(std::signbit(f(-0.0f)));
      CHECK(f(-0.0f) == 0.0f);
      CHECK(f(0x1p-149f) == 0x1p-149f);
      CHECK(std::isnan(f(NAN)));
    }
    CHECK(canonical_expm1(-INFINITY) == -1.0f);
    CHECK(canonical_expm1(INFINITY) == INFINITY);
    CHECK(canonical_expm1(88.8f) == INFINITY);
    CHECK(canonical_log1p(-1.0f) == -INFINITY);
    CHECK(std::isnan(canonical_log1p(-1.5f)));
    CHECK(std::isnan(canonical_log1p(-INFINITY)));
    CHECK(canonical_log1p(INFINITY) == INFINITY);
    for (const float x : {INFINITY, -INFINITY, NAN}) {
      CHECK(std::isnan(canonical_sin(x)));
      CHECK(std::isnan(canonical_cos(x)));
    }
    CHECK(canonical_cos(-0.0f) == 1.0f);
  }
}

}  // namespace
}  // namespace es::gpu
