#include "actors/http/core/utilisation.h"

namespace es::actors::http {

void Utilisation::Sum::add(const Sum& other) {
  unix_ms = other.unix_ms;
  busy += other.busy;
  devices += other.devices;
  samples += other.samples;
}

void Utilisation::add(std::uint64_t unix_ms, std::uint32_t busy, std::uint32_t devices) {
  const Sum one{unix_ms, double(busy), double(devices), 1};
  if (!sums_.empty() && sums_.back().samples < stride_) return sums_.back().add(one);
  if (sums_.size() >= points_max_) {
    stride_ *= 2;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (i % 2 == 0)
        sums_[i / 2] = sums_[i];
      else
        sums_[i / 2].add(sums_[i]);
    }
    sums_.resize((sums_.size() + 1) / 2);
    if (sums_.back().samples < stride_) return sums_.back().add(one);
  }
  sums_.push_back(one);
}

std::vector<UtilisationPoint> Utilisation::points() const {
  std::vector<UtilisationPoint> points;
  for (const Sum& s : sums_)
    points.push_back({s.unix_ms, s.busy / double(s.samples), s.devices / double(s.samples)});
  return points;
}

}  // namespace es::actors::http
