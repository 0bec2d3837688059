// Devices in use over time.
#include "actors/service/core/utilisation.h"

#include <doctest/doctest.h>

TEST_SUITE("http/utilisation") {
  using namespace es::actors::http;

  TEST_CASE("few samples are points of their own") {
    Utilisation utilisation(4);
    CHECK(utilisation.points().empty());
    for (std::uint32_t i = 1; i <= 4; ++i) utilisation.add(i * 1000, i, 8);
    const auto points = utilisation.points();
    REQUIRE(points.size() == 4);
    CHECK(points[2].unix_ms == 3000);
    CHECK(points[2].busy == 3);
    CHECK(points[2].devices == 8);
  }

  TEST_CASE("many samples become means over neighbours, and none is lost") {
    Utilisation utilisation(8);
    constexpr std::uint32_t kSamples = 1000;
    for (std::uint32_t i = 1; i <= kSamples; ++i) utilisation.add(i, i, 2 * i);
    const auto points = utilisation.points();
    CHECK(points.size() <= 8);
    CHECK(points.size() > 4);
    CHECK(points.back().unix_ms == kSamples);
    for (std::size_t i = 0; i < points.size(); ++i) {
      CHECK(points[i].devices == doctest::Approx(2 * points[i].busy));
      if (i > 0) CHECK(points[i].busy > points[i - 1].busy);
    }
    // The first point stands for 128 samples: their mean.
    CHECK(points.front().busy == doctest::Approx(64.5));
  }
}
