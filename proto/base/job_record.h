#pragma once
// JobRecord: what the head must know of a job after a restart. The head of the job changes it
// (actors/head/intra_job/core), the journal keeps it (store/journal). Values; thread-safe.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/device_id.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"

namespace es {

// The states of a job that its users see. The journal does not distinguish kStarting, kRunning and
// kRescaling, because a restarted head begins each of these with a new round.
enum class JobState {
  kQueued,
  kStarting,
  kRunning,
  kRescaling,
  kPaused,
  kFinished,
  kFailed,
  kCancelled,
  kTimedOut  // its resources.max_seconds are used up
};
// In lower case, such as "queued".
const char* state_name(JobState state);
constexpr bool is_over(JobState state) {
  return state >= JobState::kFinished;
}

// Digests of one version. `state` covers the optimizer state and all EST contexts.
struct VersionDigests {
  Digest params;
  Digest state;
  bool operator==(const VersionDigests&) const = default;
};

// A checkpoint that the head has accepted as valid.
struct CheckpointRef {
  std::string path;
  Version version = 0;
  bool periodic = false;          // of the job's own series, which removes old checkpoints
  std::set<std::string> nodes{};  // nodes on whose disks it was written; empty: not known
  VersionDigests digests{};       // as in its manifest; both zero: not known
  bool operator==(const CheckpointRef&) const = default;
};

// A worker process that may hold state of the last generation, and its address.
struct KnownWorker {
  Incarnation incarnation;
  DeviceId device;
  std::string address;
  std::string host_id;
  bool operator==(const KnownWorker&) const = default;
};

// A measured refusal: the job was slower on `held` with additional devices of these types than
// without them. It refuses `held` together with any number of devices of these types and of no
// other type (scheduler/grants/refusal.h).
struct Refusal {
  DeviceSet held;                 // the devices to which it fell back, not empty
  std::vector<DeviceType> types;  // types that were added to it: ascending, not empty
  std::map<DeviceType, double>
      capabilities;  // local steps per second, known before they were added
  bool operator==(const Refusal&) const = default;
};

// The record does not contain target and placement: a restarted head runs a new round and computes
// both from the reports of sealed workers.
struct JobRecord {
  // --- fixed when the job is admitted
  JobId id;
  std::string spec_toml;         // canonical text of the spec
  std::string start_checkpoint;  // directory from which the run began; empty: from the seed
  std::uint64_t sequence = 0;    // order of submission, unique in a state directory
  std::uint64_t submitted_unix_ms = 0;
  std::string request_id;  // given by the client, to recognise a repeated request; may be empty
  std::string submitter;   // name of the key or token that submitted it; empty: not known

  // --- the course of the job
  JobState state = JobState::kQueued;
  std::string error;      // why the job failed or ended early
  Generation generation;  // the last one that was started; 0 if none was
  std::vector<KnownWorker> known{};
  std::vector<CheckpointRef> checkpoints{};  // valid ones that this run wrote, newest first
  std::optional<DeviceSet> pinned{};         // the devices of the last accepted `scale`
  // At D0 and D1: the device type on which the job began to compute. Its kernels decide the bits,
  // so the job uses no other type from then on. nullopt at D2, for a job with stages, and before
  // the first step.
  std::optional<DeviceType> bound_type{};
  // Checkpoints of the job's own series that an audit has made void. They must be removed from
  // disks.
  std::vector<CheckpointRef> spoiled{};
  // Paths of states that a recovery of the journal could not interpret. No job continues from them,
  // and they are never removed.
  std::vector<std::string> set_aside{};
  std::vector<Refusal> refusals{};
  // Ledger lines and evaluations after this version are void but may still be on the disk.
  std::optional<Version> rewinding{};
  // The time in which it has held devices, as far as it is journaled; 0 without a time limit.
  std::uint64_t held_ms = 0;
  // The date up to which held_ms and spent count, while the job holds devices for which they do; 0
  // otherwise.
  std::uint64_t counted_unix_ms = 0;
  // What the devices cost that it holds then.
  double price_per_hour = 0;
  // What its devices have cost, as far as it is journaled, in the unit of the prices of the head.
  double spent = 0;
  double budget = 0;  // the most that it may spend; 0: no limit
  // It is paused because more than its budget would be spent.
  bool over_budget = false;
  // The checkpoint of the best version that is kept (CheckpointSpec::keep_best). A better one takes
  // its place when it is complete.
  std::optional<CheckpointRef> best{};

  // Returns the first of `checkpoints`, valid until they change; nullptr: there is none.
  const CheckpointRef* newest_checkpoint() const {
    return checkpoints.empty() ? nullptr : &checkpoints.front();
  }
  bool operator==(const JobRecord&) const = default;
};

}  // namespace es
