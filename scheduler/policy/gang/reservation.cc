#include "scheduler/policy/gang/reservation.h"

#include <algorithm>
#include <limits>

namespace es::scheduler {
namespace {

std::optional<Reservation> reservation_of(const Counts& gang, const Counts& left,
                                          const std::vector<Release>& releases) {
  const auto used = std::ranges::find_if(gang, [](std::uint32_t count) { return count > 0; });
  if (used == gang.end()) return {};
  const auto type = static_cast<std::size_t>(used - gang.begin());
  std::uint32_t count = left[type];
  double from_s = std::numeric_limits<double>::infinity();
  for (const Release& release : releases) {
    // All ends of one moment belong together.
    if (release.end_s > from_s) break;
    count += release.counts[type];
    if (count >= *used) from_s = release.end_s;
  }
  if (count < *used) return {};
  return Reservation{type, from_s, count - *used};
}

}  // namespace

std::optional<Reservation> earliest_reservation(const std::vector<Counts>& gangs,
                                                const Counts& left, std::vector<Release> releases) {
  std::ranges::sort(releases, {}, &Release::end_s);
  std::optional<Reservation> earliest;
  for (const Counts& gang : gangs) {
    const auto reserved = reservation_of(gang, left, releases);
    if (reserved && (!earliest || reserved->from_s < earliest->from_s)) earliest = reserved;
  }
  return earliest;
}

}  // namespace es::scheduler
