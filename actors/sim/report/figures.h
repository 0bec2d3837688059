#pragma once
// Figures of samples. Pure.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace es::actors::simulator {

inline double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// 0 without values.
inline double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : sum_of(values) / static_cast<double>(values.size());
}

// The smallest value that is not exceeded by this share of the values; 0 without values.
inline double percentile_of(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace es::actors::simulator
