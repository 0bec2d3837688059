// Curve: a bounded number of points that hides no peak.
#include "actors/service/core/curve.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

TEST_SUITE("http/curve") {
  using es::actors::http::Curve;
  using es::actors::http::CurvePoint;

  TEST_CASE("few steps have a point each") {
    Curve curve(4);
    for (int step = 1; step <= 4; ++step) curve.add(step, 10.0 - step);
    REQUIRE(curve.points().size() == 4);
    CHECK(curve.steps_per_point() == 1);
    CHECK(curve.points()[2].version == 3);
    CHECK(curve.points()[2].mean == 7.0);
  }

  TEST_CASE("many steps keep their extremes, their means and their order") {
    for (const int steps : {5, 8, 9, 1000, 4097}) {
      CAPTURE(steps);
      Curve curve(8);
      const int peak = steps / 2 + 1;
      double sum = 0;
      for (int step = 1; step <= steps; ++step) {
        const double value = step == peak ? 1000.0 : 1.0 / step;
        sum += value;
        curve.add(step, value);
      }
      const auto points = curve.points();
      CHECK(points.size() <= 8);
      CHECK(points.back().version == static_cast<std::uint64_t>(steps));
      double largest = 0, least = 1e9, total = 0;
      std::uint64_t before = 0;
      for (const CurvePoint& p : points) {
        CHECK(p.version > before);
        largest = std::max(largest, p.largest);
        least = std::min(least, p.least);
        total += p.mean * double(p.version - before);
        before = p.version;
      }
      CHECK(largest == 1000.0);
      CHECK(least == doctest::Approx(peak == steps ? 1.0 / (steps - 1) : 1.0 / steps));
      CHECK(total == doctest::Approx(sum));
    }
  }

  TEST_CASE("values that are not finite are left out") {
    Curve curve(2);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    curve.add(1, nan);
    CHECK(std::isnan(curve.points()[0].mean));
    curve.add(2, 3.0);
    curve.add(3, 5.0);
    REQUIRE(curve.points().size() == 2);
    CHECK(curve.points()[0].mean == 3.0);
    CHECK(curve.last_version() == 3);
  }
}
