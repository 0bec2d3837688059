#pragma once
// The reservation of EASY backfill (gang.h): the devices that the first waiting job will have, and
// when, by the expected ends of the jobs that run. Pure functions of values; thread-safe.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/policy/common/counts.h"

namespace es::scheduler {

// What a job leaves when it ends.
struct Release {
  double end_s = 0;
  std::span<const std::uint32_t> counts;  // by type
};

struct Reservation {
  std::size_t type = 0;
  double from_s = 0;        // the devices of the type suffice from then on
  std::uint32_t spare = 0;  // devices of the type that are then left beside the reserved ones

  // Whether the start of another job on this gang delays nothing: it ends in time, or needs only
  // what is left beside the reserved devices.
  bool allows(const Counts& gang, double end_s) const {
    return end_s <= from_s || gang[type] <= spare;
  }
  // REQUIRES: allows(gang, end_s).
  void charge(const Counts& gang, double end_s) {
    if (end_s > from_s) spare -= gang[type];
  }
};

// The earliest reservation for a job that takes one of these gangs, each of one type; of equally
// early ones that of the first gang. `left`: the devices that no job has or is given now. nullopt
// if no end that is expected gives it enough devices.
std::optional<Reservation> earliest_reservation(const std::vector<Counts>& gangs,
                                                const Counts& left, std::vector<Release> releases);

}  // namespace es::scheduler
