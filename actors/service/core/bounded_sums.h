#pragma once
// A series of samples in a bounded number of sums. Each sum stands for the same number of samples,
// the last one for at most as many. When there are too many sums, two neighbours become one, so a
// sum stands for 1, 2, 4, ... samples. Not thread-safe.
//
// Sum has a member `count`, the number of its samples, and add(other), which adds a later sum.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace es::actors::http {

template <class Sum>
class BoundedSums {
 public:
  // REQUIRES: sums_max >= 1.
  explicit BoundedSums(std::size_t sums_max) : sums_max_(sums_max) {}

  // Adds the sum of one sample, which is later than all before.
  void add(const Sum& one) {
    if (is_open()) return sums_.back().add(one);
    if (sums_.size() >= sums_max_) {
      halve();
      if (is_open()) return sums_.back().add(one);
    }
    sums_.push_back(one);
  }
  std::uint64_t samples_per_sum() const { return stride_; }
  const std::vector<Sum>& sums() const { return sums_; }

 private:
  bool is_open() const { return !sums_.empty() && sums_.back().count < stride_; }
  void halve() {
    stride_ *= 2;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (i % 2 == 0)
        sums_[i / 2] = sums_[i];
      else
        sums_[i / 2].add(sums_[i]);
    }
    sums_.resize((sums_.size() + 1) / 2);
  }

  std::size_t sums_max_;
  std::uint64_t stride_ = 1;
  std::vector<Sum> sums_;
};

}  // namespace es::actors::http
