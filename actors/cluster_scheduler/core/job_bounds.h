#pragma once
// The bounds of a job's devices, from its admission. Part of ClusterCore, pure functions.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "actors/cluster_scheduler/core/cluster_core.h"

namespace es::actors {

inline bool mixes_types(const cluster::JobAdmitted& job) {
  return job.level == DeterminismLevel::kD2;
}

inline std::uint32_t max_devices(const cluster::JobAdmitted& job) {
  return job.max_devices == 0 ? job.max_p : std::min(job.max_devices, job.max_p);
}

inline std::vector<DeviceType> types_of(const DeviceSet& set) {
  std::vector<DeviceType> types;
  for (const DeviceCount& c : set.counts) types.push_back(c.type);
  return types;
}

// The types that the scheduler may choose for the job, ascending.
inline std::vector<DeviceType> usable_types(const cluster::JobAdmitted& job,
                                            const std::vector<DeviceType>& all) {
  if (job.device_types.empty()) return all;
  std::vector<DeviceType> types = job.device_types;
  std::sort(types.begin(), types.end());
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

}  // namespace es::actors
