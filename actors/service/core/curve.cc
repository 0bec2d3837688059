#include "actors/service/core/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace es::actors::http {

void Curve::Sum::add(const Sum& other) {
  version = other.version;
  count += other.count;
  if (other.finite == 0) return;
  least = finite == 0 ? other.least : std::min(least, other.least);
  largest = finite == 0 ? other.largest : std::max(largest, other.largest);
  sum += other.sum;
  finite += other.finite;
}

void Curve::add(std::uint64_t version, double value) {
  last_ = version;
  Sum one{.version = version, .count = 1};
  if (std::isfinite(value)) {
    one.finite = 1;
    one.least = one.sum = one.largest = value;
  }
  sums_.add(one);
}

std::vector<CurvePoint> Curve::points() const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<CurvePoint> points;
  for (const Sum& s : sums_.sums())
    points.push_back(s.finite == 0
                         ? CurvePoint{s.version, kNone, kNone, kNone}
                         : CurvePoint{s.version, s.least, s.sum / double(s.finite), s.largest});
  return points;
}

}  // namespace es::actors::http
