#include "proto/base/number_text.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "tests/support/seed.h"

using namespace es;

TEST_SUITE("proto/base/number_text") {
  TEST_CASE("a number is written in its usual form") {
    CHECK(number_text(0) == "0");
    CHECK(number_text(0.1) == "0.1");
    CHECK(number_text(1e6) == "1000000");
    CHECK(number_text(-2.5) == "-2.5");
    CHECK(number_text(1e-4) == "0.0001");
    CHECK(number_text(1e-8) == "1e-08");
    CHECK(number_text(1e300) == "1e+300");
    CHECK(number_text(std::numeric_limits<double>::infinity()) == "inf");
    CHECK(number_text(std::nan("")) == "nan");
  }

  TEST_CASE("a time of months keeps its milliseconds") {
    CHECK(number_text(950'412.125) == "950412.125");
    CHECK(number_text(12'345'678.001) == "12345678.001");
  }

  TEST_CASE("every double is read back as itself") {
    std::mt19937_64 random(test::seed("number_text"));
    for (int i = 0; i < 100'000; ++i) {
      const auto value = std::bit_cast<double>(random());
      if (!std::isfinite(value)) continue;
      const double again = std::strtod(number_text(value).c_str(), nullptr);
      REQUIRE(std::bit_cast<std::uint64_t>(again) == std::bit_cast<std::uint64_t>(value));
    }
  }
}
