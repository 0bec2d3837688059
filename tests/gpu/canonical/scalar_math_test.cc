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
    std::uniform_int_distribution<std::uint32_t> bits(1, 0x7f7fffff);  // all positive floats
    std::uniform_real_distribution<float> near_one(0.5f, 2.0f);
    for (int i = 0; i < 500000; ++i) {
      for (const float x : {std::bit_cast<float>(bits(random)), near_one(random)}) {
        REQUIRE_MESSAGE(ulps(canonical_log(x), std::log(static_cast<double>(x))) <= 1.4, "x = ", x);
      }
    }
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
