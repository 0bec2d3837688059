#pragma once
// The bounds of a job's devices and of its time, from its admission. Part of ClusterCore, pure
// functions.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "actors/head/cluster_scheduler/core/cluster_events.h"

namespace es::actors {

inline bool mixes_types(const cluster::JobAdmitted& job) {
  return job.level == DeterminismLevel::kD2;
}

inline std::uint32_t max_devices(const cluster::JobAdmitted& job) {
  const std::uint32_t named = job.resources.max_devices;
  return named == 0 ? job.max_p : std::min(named, job.max_p);
}

// On the clock of the events. REQUIRES: submit_s is set.
inline double deadline_s(const cluster::JobAdmitted& job) {
  const double longest_seconds = job.resources.deadline_seconds;
  return longest_seconds > 0 ? *job.submit_s + longest_seconds : scheduler::kNever.count();
}

inline std::vector<DeviceType> types_of(const DeviceSet& set) {
  std::vector<DeviceType> types;
  for (const DeviceCount& c : set.counts) types.push_back(c.type);
  return types;
}

// The types that the scheduler may choose for the job, ascending.
inline std::vector<DeviceType> usable_types(const cluster::JobAdmitted& job,
                                            const std::vector<DeviceType>& all) {
  if (job.resources.device_types.empty()) return all;
  std::vector<DeviceType> types = job.resources.device_types;
  std::sort(types.begin(), types.end());
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

}  // namespace es::actors
