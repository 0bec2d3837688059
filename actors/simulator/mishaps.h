#pragma once
// Mishaps: when nodes fail and devices become slow. Pure: times and subjects by seed, the same on
// every machine, since only the generator's bits, comparisons and exact arithmetic make them.
#include <cstddef>
#include <cstdint>
#include <random>

namespace es::actors::simulator {

// A Poisson process over so many subjects, each of which is hit once in `mean_s` seconds.
class Mishaps {
 public:
  // REQUIRES: mean_s > 0, subjects > 0.
  Mishaps(std::uint64_t seed, double mean_s, std::size_t subjects);

  struct Mishap {
    double after_s = 0;  // since the one before
    std::size_t subject = 0;
  };
  Mishap next();

 private:
  double unit();         // [0, 1)
  double exponential();  // with mean 1

  std::mt19937_64 random_;
  double mean_s_;  // between two of all subjects
  std::size_t subjects_;
};

}  // namespace es::actors::simulator
