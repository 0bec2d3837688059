#include "gpu/canonical/scalar_math.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/support/seed.h"

namespace es::gpu {
namespace {

// Distance of `actual` from `exact` in units of the last place of the nearest float.
double ulps(float actual, double exact) {
  const float nearest = static_cast<float>(exact);
  if (actual == nearest) return 0;
  const double unit = std::nextafter(std::abs(nearest), INFINITY) - std::abs(nearest);
  return std::abs(actual - exact) / unit;
}

// All magnitudes, and a dense sweep of the important range.
template <class Function, class Exact>
void check_all_floats(const char* name, Function function, Exact exact) {
  std::mt19937_64 random(test::seed(name));
  std::uniform_int_distribution<std::uint32_t> bits;
  std::uniform_real_distribution<float> centre(-10.0f, 10.0f);
  for (int i = 0; i < 500000; ++i) {
    for (const float x : {std::bit_cast<float>(bits(random)), centre(random)}) {
      if (std::isnan(x)) continue;
      REQUIRE_MESSAGE(ulps(function(x), exact(static_cast<double>(x))) <= 1.4, "x = ", x);
    }
  }
}

TEST_SUITE("gpu/canonical/scalar_math") {
  TEST_CASE("EXP is within 1.4 units of the last place") {
    std::mt19937_64 random(test::seed("exp"));
    std::uniform_real_distribution<float> range(-103.0f, 88.7f);
    for (int i = 0; i < 1000000; ++i) {
      const float x = range(random);
      REQUIRE_MESSAGE(ulps(canonical_exp(x), std::exp(static_cast<double>(x))) <= 1.4, "x = ", x);
    }
  }

  TEST_CASE("LOG is within 1.4 units of the last place") {
    std::mt19937_64 random(test::seed("log"));
    std::uniform_int_distribution<std::uint32_t> bits(1, 0x7f7fffff);  // All positive floats.
    std::uniform_real_distribution<float> near_one(0.5f, 2.0f);
    for (int i = 0; i < 500000; ++i) {
      for (const float x : {std::bit_cast<float>(bits(random)), near_one(random)}) {
        REQUIRE_MESSAGE(ulps(canonical_log(x), std::log(static_cast<double>(x))) <= 1.4, "x = ", x);
      }
    }
  }

  TEST_CASE("ERF, TANH and SIGMOID are within 1.4 units of the last place") {
    check_all_floats("erf", canonical_erf, [](double x) { return std::erf(x); });
    check_all_floats("tanh", canonical_tanh, [](double x) { return std::tanh(x); });
    check_all_floats("sigmoid", canonical_sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); });
  }

  TEST_CASE("GELU is within 1.4 units of the last place of x, its derivative within 2e-7") {
    std::mt19937_64 random(test::seed("gelu"));
    std::uniform_real_distribution<float> range(-15.0f, 15.0f);
    for (int i = 0; i < 500000; ++i) {
      const float x = range(random);
      const double normal = std::erfc(-x / std::sqrt(2.0)) / 2;
      const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
      const double unit = std::nextafter(std::abs(x), INFINITY) - std::abs(x);
      REQUIRE_MESSAGE(std::abs(canonical_gelu(x) - x * normal) <= 1.4 * unit, "x = ", x);
      REQUIRE_MESSAGE(std::abs(canonical_gelu_gradient(x) - (normal + x * density)) <= 2e-7,
                      "x = ", x);
    }
  }

  TEST_CASE("ERF, TANH, SIGMOID and GELU of special values") {
    for (const auto function : {canonical_erf, canonical_tanh}) {
      CHECK(function(INFINITY) == 1.0f);
      CHECK(function(-INFINITY) == -1.0f);
      CHECK(function(-0.0f) == 0.0f);
      CHECK(!std::signbit(function(0.0f)));
      CHECK(function(-0x1p-126f) < 0.0f);
      CHECK(std::isnan(function(std::nanf(""))));
    }
    CHECK(std::signbit(canonical_erf(-0.0f)));
    CHECK(!std::signbit(canonical_tanh(-0.0f)));
    CHECK(canonical_tanh(0x1p-149f) == 0x1p-149f);
    CHECK(canonical_sigmoid(INFINITY) == 1.0f);
    CHECK(canonical_sigmoid(-INFINITY) == 0.0f);
    CHECK(!std::signbit(canonical_sigmoid(-INFINITY)));
    CHECK(canonical_sigmoid(0.0f) == 0.5f);
    CHECK(canonical_sigmoid(-0.0f) == 0.5f);
    CHECK(canonical_sigmoid(-100.0f) > 0.0f);  // A subnormal number.
    CHECK(std::isnan(canonical_sigmoid(std::nanf(""))));
    CHECK(canonical_gelu(INFINITY) == INFINITY);
    CHECK(std::isnan(canonical_gelu(-INFINITY)));
    CHECK(!std::signbit(canonical_gelu(-0.0f)));
    CHECK(canonical_gelu(-20.0f) == 0.0f);
    CHECK(std::isnan(canonical_gelu(std::nanf(""))));
    CHECK(canonical_gelu_gradient(0.0f) == 0.5f);
    CHECK(canonical_gelu_gradient(20.0f) == 1.0f);
    CHECK(canonical_gelu_gradient(-20.0f) == 0.0f);
    CHECK(std::isnan(canonical_gelu_gradient(INFINITY)));
    CHECK(std::isnan(canonical_gelu_gradient(-INFINITY)));
  }

  TEST_CASE("EXP of special values") {
    CHECK(canonical_exp(0.0f) == 1.0f);
    CHECK(canonical_exp(-0.0f) == 1.0f);
    CHECK(canonical_exp(INFINITY) == INFINITY);
    CHECK(canonical_exp(89.0f) == INFINITY);
    CHECK(canonical_exp(-INFINITY) == 0.0f);
    CHECK(!std::signbit(canonical_exp(-INFINITY)));
    CHECK(canonical_exp(-104.0f) == 0.0f);
    CHECK(canonical_exp(-103.0f) == 0x1p-149f);
    CHECK(std::isnan(canonical_exp(std::nanf(""))));
  }

  TEST_CASE("LOG of special values") {
    CHECK(canonical_log(1.0f) == 0.0f);
    CHECK(!std::signbit(canonical_log(1.0f)));
    CHECK(canonical_log(0.0f) == -INFINITY);
    CHECK(canonical_log(-0.0f) == -INFINITY);
    CHECK(std::isnan(canonical_log(-1.0f)));
    CHECK(std::isnan(canonical_log(-INFINITY)));
    CHECK(canonical_log(INFINITY) == INFINITY);
    CHECK(std::isnan(canonical_log(std::nanf(""))));
    CHECK(canonical_log(0x1p-149f) == doctest::Approx(-149 * std::log(2.0)));
  }
}

}  // namespace
}  // namespace es::gpu
