#pragma once
// What the simulated processes of a cluster share: its devices' speeds, its disks, and what is
// really running where, so that a broken promise of the scheduler is noticed where it hurts.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol/instant.h"
#include "actors/protocol/messages.h"
#include "proto/base/job_spec.h"
#include "store/dataset/epoch_sampler.h"
#include "tests/actors/protocol/toy_engine.h"

namespace es::test {

struct SimCluster {
  // One local step, by device type; what is not listed takes 10 ms.
  std::map<std::string, actors::Instant> step_time;
  std::map<actors::DeviceId, double> slower;  // so many times; what is not listed: 1
  // How many times longer a step takes in a job of so many processes, which lose time to each
  // other; its local steps are not longer. Empty: 1.
  std::function<double(std::size_t processes)> drag;
  std::map<std::string, ToyVersion> checkpoints;    // by directory
  bool disk_fails = false;                          // no checkpoint can be written
  std::map<actors::DeviceId, Incarnation> running;  // processes that exist, by their device
  std::map<Incarnation, JobId> job_of;              // of these
  // The samples that made each committed version, by virtual rank.
  std::map<JobId, std::map<Version, std::vector<std::uint64_t>>> samples_used;
  std::uint64_t processes_started = 0;
  std::uint64_t waits_in_vain = 0;      // workers that ran into the time limit of a step
  std::vector<std::string> violations;  // what must never happen, but did

  double drag_of(const JobId& job) const {
    if (!drag) return 1;
    std::size_t processes = 0;
    for (const auto& [incarnation, of] : job_of) processes += of == job ? 1 : 0;
    return drag(processes);
  }
  actors::Instant step_time_of(const actors::DeviceId& device) const {
    const auto at = step_time.find(device.type.name);
    const actors::Instant time = at == step_time.end() ? std::chrono::milliseconds(10) : at->second;
    const auto slow = slower.find(device);
    return slow == slower.end() ? time
                                : std::chrono::duration_cast<actors::Instant>(time * slow->second);
  }
};

inline constexpr std::uint32_t kToyBuckets = 2;

// REQUIRES: a training set of at least one global batch.
inline store::EpochSampler sampler_of(const JobSpec& spec) {
  return store::EpochSampler::create({.samples = spec.data.samples,
                                      .max_p = spec.max_p,
                                      .batch_size = spec.batch_size,
                                      .seed = spec.seed})
      .value();
}

// The toy job that stands for training by this spec.
inline ToyJob toy_job(const JobSpec& spec) {
  return {.seed = spec.seed,
          .max_p = spec.max_p,
          .bucket_count = kToyBuckets,
          .last_version = spec.steps};
}

}  // namespace es::test
