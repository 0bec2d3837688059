#pragma once
// Mishaps: the times at which nodes fail and devices become slow. Pure: times and subjects depend
// only on the seed and are the same on every machine, because only the bits of the generator,
// comparisons and exact arithmetic produce them.
#include <cstddef>
#include <cstdint>
#include <random>

namespace es::actors::simulator {

// A Poisson process over several subjects. Each subject is hit once in `mean_s` seconds on average.
class Mishaps {
 public:
  // REQUIRES: mean_s > 0, subjects > 0.
  Mishaps(std::uint64_t seed, double mean_s, std::size_t subjects);

  struct Mishap {
    double after_s = 0;  // seconds since the previous one
    std::size_t subject = 0;
  };
  Mishap next();

 private:
  double unit();         // in [0, 1)
  double exponential();  // with mean 1

  std::mt19937_64 random_;
  double mean_s_;  // between two mishaps of any subjects
  std::size_t subjects_;
};

}  // namespace es::actors::simulator
