#pragma once
// How many devices were in use over time, in a bounded number of points.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/service/core/bounded_sums.h"

namespace es::actors::http {

struct UtilisationPoint {
  std::uint64_t unix_ms = 0;
  double busy = 0, devices = 0;  // means over the samples of the point
};

// When there are too many points, two neighbours become one, so a point stands for 1, 2, 4, ...
// samples.
class Utilisation {
 public:
  explicit Utilisation(std::size_t points_max) : sums_(points_max) {}
  void add(std::uint64_t unix_ms, std::uint32_t busy, std::uint32_t devices);
  std::vector<UtilisationPoint> points() const;

 private:
  struct Sum {
    std::uint64_t unix_ms = 0;  // of the last sample
    double busy = 0, devices = 0;
    std::uint64_t count = 0;  // of samples
    void add(const Sum& other);
  };
  BoundedSums<Sum> sums_;
};

}  // namespace es::actors::http
