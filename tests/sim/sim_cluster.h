#pragma once
// What the simulated processes of a cluster share: the speeds of its devices, its disks, and which
// process really runs where. A broken promise of the scheduler is therefore noticed where it has
// its effect.
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/core/messages.h"
#include "actors/base/protocol/core/process_exit.h"
#include "proto/base/job_spec.h"
#include "store/dataset/epoch_sampler.h"
#include "tests/actors/base/protocol/toy_engine.h"

namespace es::test {

struct SimCluster {
  // The time of one local step, by device type. Other types take 10 ms.
  std::map<std::string, actors::Instant> step_time;
  // This factor applies to the time; a device that is not listed has the factor 1.
  std::map<DeviceId, double> slower;
  // The factor on the time of a step in a job with this number of processes, which slow each other
  // down. Its local steps do not become longer. Empty: 1.
  std::function<double(std::size_t processes)> drag;
  // Whether all nodes see one disk. Otherwise each has its own, which outlives the node.
  bool shared_disk = true;
  std::map<std::string, std::map<std::string, ToyVersion>> disks;  // By node and directory.
  std::map<std::string, ToyVersion>& disk_of(const std::string& node) {
    return disks[shared_disk ? "" : node];
  }
  bool disk_fails = false;  // No checkpoint can be written.
  // How each process ends that is started on the node, or as part of the job.
  std::map<std::string, actors::ProcessExit> ends_at_start;
  std::map<std::string, actors::ProcessExit> program_ends;  // by the name of the job
  // The newest version of the job that was ever journaled as saved and can be read on some disk;
  // none if there is none. It serves to find a forbidden event: the job continues from an older
  // version. A worker of a generation that is over may still execute its last command, and for it
  // the value is none.
  std::function<std::optional<Version>(const JobId&, Generation)> newest_saved;
  std::map<DeviceId, Incarnation> running;  // Existing processes, by their device.
  std::map<Incarnation, JobId> job_of;      // The jobs of these processes.
  // The samples that made each committed version, by virtual rank.
  std::map<JobId, std::map<Version, std::vector<std::uint64_t>>> samples_used;
  std::uint64_t processes_started = 0;
  std::uint64_t refused_starts = 0;     // on nodes that are about to end
  std::set<std::string> ended_daemons;  // nodes whose daemons have ended in good order
  std::uint64_t waits_in_vain = 0;      // Workers that exceeded the time limit of a step.
  std::vector<std::string> violations;  // Forbidden events that happened.

  double drag_of(const JobId& job) const {
    if (!drag) return 1;
    std::size_t processes = 0;
    for (const auto& [incarnation, of] : job_of) processes += of == job ? 1 : 0;
    return drag(processes);
  }
  actors::Instant step_time_of(const DeviceId& device) const {
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

// The toy job that represents training by this spec.
inline ToyJob toy_job(const JobSpec& spec) {
  return {.seed = spec.seed,
          .max_p = spec.max_p,
          .bucket_count = kToyBuckets,
          .last_version = spec.steps};
}

// A toy version as the only piece of a saved state (wire::StatePart).
inline std::vector<std::uint64_t> words_of(const ToyVersion& version) {
  std::vector<std::uint64_t> words = {version.version, version.params.size()};
  words.insert(words.end(), version.params.begin(), version.params.end());
  words.insert(words.end(), version.moments.begin(), version.moments.end());
  words.insert(words.end(), version.contexts.begin(), version.contexts.end());
  return words;
}
inline ToyVersion toy_version_from(std::span<const unsigned char> data) {
  std::vector<std::uint64_t> words(data.size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), data.data(), data.size());
  ToyVersion version{
      .version = words.at(0), .params = {}, .moments = {}, .contexts = {}, .decisions = {}};
  const auto buckets = static_cast<std::ptrdiff_t>(words.at(1));
  const auto params = words.begin() + 2, moments = params + buckets, contexts = moments + buckets;
  version.params = {params, moments};
  version.moments = {moments, contexts};
  version.contexts = {contexts, words.end()};
  return version;
}

}  // namespace es::test
