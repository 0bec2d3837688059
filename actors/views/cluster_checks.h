#pragma once
// What `esctl doctor` says about a head that answers, and about its nodes. A pure function.
#include <cstdint>
#include <string>
#include <vector>

#include "actors/views/doctor_view.h"
#include "actors/views/views.h"

namespace es::actors {

struct ClusterAnswer {
  std::vector<NodeView> nodes{};
  std::string warning{};            // of the head
  std::int64_t clock_ahead_ms = 0;  // of the head's clock against the one of this machine
  std::int64_t round_trip_ms = 0;   // of the request; the former is known only as exactly
};

Findings check_cluster(const ClusterAnswer& answer);

}  // namespace es::actors
