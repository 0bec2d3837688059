#include "actors/http/core/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace es::actors::http {

void Curve::Sum::add(const Sum& other) {
  version = other.version;
  steps += other.steps;
  if (other.finite == 0) return;
  least = finite == 0 ? other.least : std::min(least, other.least);
  largest = finite == 0 ? other.largest : std::max(largest, other.largest);
  sum += other.sum;
  finite += other.finite;
}

void Curve::add(std::uint64_t version, double value) {
  last_ = version;
  Sum one{.version = version, .steps = 1};
  if (std::isfinite(value)) {
    one.finite = 1;
    one.least = one.sum = one.largest = value;
  }
  if (!sums_.empty() && sums_.back().steps < stride_) return sums_.back().add(one);
  if (sums_.size() >= points_max_) {
    stride_ *= 2;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (i % 2 == 0)
        sums_[i / 2] = sums_[i];
      else
        sums_[i / 2].add(sums_[i]);
    }
    sums_.resize((sums_.size() + 1) / 2);
    if (sums_.back().steps < stride_) return sums_.back().add(one);
  }
  sums_.push_back(one);
}

std::vector<CurvePoint> Curve::points() const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<CurvePoint> points;
  for (const Sum& s : sums_)
    points.push_back(s.finite == 0
                         ? CurvePoint{s.version, kNone, kNone, kNone}
                         : CurvePoint{s.version, s.least, s.sum / double(s.finite), s.largest});
  return points;
}

}  // namespace es::actors::http
