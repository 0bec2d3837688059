#pragma once
// The decision of elastic-srtf while jobs do not compete. A pure function; thread-safe.
#include <optional>

#include "scheduler/policy/common/cluster_table.h"

namespace es::scheduler {

// Tries to give every under-served job the devices that make it fastest out of free devices, while
// no job gives anything up. If that is possible, these grants are the decision, and no other job is
// looked at. nullopt if some job must wait or move.
std::optional<Decisions> serve_uncontended(const ClusterTable& table);

}  // namespace es::scheduler
