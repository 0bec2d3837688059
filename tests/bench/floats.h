#pragma once
#include <cstdlib>
#include <random>

namespace es::bench {

// Floats at a 64-byte boundary, filled from a normal distribution.
class Floats {
 public:
  explicit Floats(std::size_t n)
      : data_(static_cast<float*>(std::aligned_alloc(64, (n * sizeof(float) + 127) / 64 * 64))) {
    static std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < n; ++i) data_[i] = normal(random);
  }
  ~Floats() { std::free(data_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  operator float*() { return data_; }

 private:
  float* data_;
};

}  // namespace es::bench
