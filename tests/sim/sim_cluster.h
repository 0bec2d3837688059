#pragma once
// What the simulated processes of a cluster share: its devices' speeds, its disks, and what is
// really running where, so that a broken promise of the scheduler is noticed where it hurts.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol/instant.h"
#include "actors/protocol/messages.h"
#include "proto/base/job_spec.h"
#include "tests/actors/protocol/toy_engine.h"

namespace es::test {

struct SimCluster {
  // One local step, by device type; what is not listed takes 10 ms.
  std::map<std::string, actors::Instant> step_time;
  std::map<std::string, ToyVersion> checkpoints;    // by directory
  std::map<actors::DeviceId, Incarnation> running;  // processes that exist, by their device
  std::map<Incarnation, JobId> job_of;              // of these
  std::uint64_t processes_started = 0;
  std::vector<std::string> violations;  // what must never happen, but did

  actors::Instant step_time_of(const DeviceType& type) const {
    const auto at = step_time.find(type.name);
    return at == step_time.end() ? std::chrono::milliseconds(10) : at->second;
  }
};

inline constexpr std::uint32_t kToyBuckets = 2;

// The toy job that stands for training by this spec.
inline ToyJob toy_job(const JobSpec& spec) {
  return {.seed = spec.seed,
          .max_p = spec.max_p,
          .bucket_count = kToyBuckets,
          .last_version = spec.steps};
}

}  // namespace es::test
