#pragma once
// A curve of bounded size over the steps of a job, however many there are.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/service/core/bounded_sums.h"

namespace es::actors::http {

struct CurvePoint {
  std::uint64_t version = 0;  // the last version of the point
  // Smallest, mean and largest value over the steps of the point. Values that are not finite are
  // left out; NaN if none is left.
  double least = 0, mean = 0, largest = 0;
};

// Collects one value for each version, in ascending order. When there are too many points, two
// neighbours become one, so a point stands for 1, 2, 4, ... steps, and a peak stays visible.
class Curve {
 public:
  explicit Curve(std::size_t points_max) : sums_(points_max) {}
  // REQUIRES: `version` is greater than that of the last call.
  void add(std::uint64_t version, double value);
  std::uint64_t last_version() const { return last_; }
  std::uint64_t steps_per_point() const { return sums_.samples_per_sum(); }
  std::vector<CurvePoint> points() const;

 private:
  struct Sum {
    std::uint64_t version = 0, count = 0, finite = 0;  // count: of steps
    double least = 0, sum = 0, largest = 0;
    void add(const Sum& other);
  };
  std::uint64_t last_ = 0;
  BoundedSums<Sum> sums_;
};

}  // namespace es::actors::http
