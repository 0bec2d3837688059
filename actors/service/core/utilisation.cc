#include "actors/service/core/utilisation.h"

namespace es::actors::http {

void Utilisation::Sum::add(const Sum& other) {
  unix_ms = other.unix_ms;
  busy += other.busy;
  devices += other.devices;
  count += other.count;
}

void Utilisation::add(std::uint64_t unix_ms, std::uint32_t busy, std::uint32_t devices) {
  sums_.add({unix_ms, double(busy), double(devices), 1});
}

std::vector<UtilisationPoint> Utilisation::points() const {
  std::vector<UtilisationPoint> points;
  for (const Sum& s : sums_.sums())
    points.push_back({s.unix_ms, s.busy / double(s.count), s.devices / double(s.count)});
  return points;
}

}  // namespace es::actors::http
