#pragma once
// JobJournal: what the head must know again after a restart. Every write is on the disk before the
// call returns, so the head may act on it ("journal, then send").
//
// Owned by one thread of the head. Not thread-safe: the counters are read, then written.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

enum class JobPhase : std::uint8_t {
  kQueued = 0,     // accepted, holds no device yet
  kRunning = 1,    // holds devices, or is about to get them back after a restart of the head
  kCompleted = 2,  // final: all steps done
  kFailed = 3,     // final: `error` says why
  kCancelled = 4,  // final: stopped on request
  kPaused = 5,     // on request: holds no device, goes on from its newest checkpoint when resumed
};
const char* phase_name(JobPhase phase);
constexpr bool is_final(JobPhase phase) {
  return phase >= JobPhase::kCompleted && phase <= JobPhase::kCancelled;
}

// A checkpoint that the head has accepted as valid.
struct CheckpointRef {
  std::string path;
  Version version = 0;
  bool periodic = false;                // of the job's own series
  std::vector<std::string> nodes = {};  // on whose disks it was written, ascending
  Digest params = {}, state = {};       // as its manifest has them
  bool operator==(const CheckpointRef&) const = default;
};

// A worker process that may hold state of the last generation, and where it is reached.
struct KnownWorker {
  Incarnation incarnation;
  std::string node;
  DeviceType device_type;
  std::uint32_t device_index = 0;
  std::string address;
  std::string host_id;
  bool operator==(const KnownWorker&) const = default;
};

// Devices that the job was slower with than without: `held` and more of these types.
struct Refusal {
  DeviceSet held;
  std::vector<DeviceType> types;
  std::map<DeviceType, double> capabilities;  // local steps per second, as known before
  bool operator==(const Refusal&) const = default;
};

struct JobRecord {
  JobId id;
  std::string spec_toml;         // canonical text
  std::string start_checkpoint;  // directory that the run began from; empty = from the seed
  JobPhase phase = JobPhase::kQueued;
  Generation generation;  // last one that was started; 0 = none yet
  std::vector<KnownWorker> known;
  std::optional<DeviceSet> pinned;         // the last accepted explicit scale
  DeviceType bound_type{};                 // the only type that it may use; no name: any
  std::vector<CheckpointRef> checkpoints;  // newest first
  std::vector<CheckpointRef> spoiled;      // void, to be removed from the disk
  // Paths of states that a recovery of the journal could not make sense of: nobody goes on from
  // them, and nobody removes them.
  std::vector<std::string> set_aside{};
  std::vector<Refusal> refusals;
  std::optional<Version> rewinding;  // what is after it in ledger and history is void
  std::uint64_t sequence = 0;        // order of submission, unique (next_sequence)
  std::uint64_t submitted_unix_ms = 0;
  std::string error;       // for kFailed
  std::string request_id;  // of the client that submitted it, to know it again; may be empty
  bool operator==(const JobRecord&) const = default;
};

std::string encode_job_record(const JobRecord& record);
// Error (failure): not a record that encode_job_record wrote.
Result<JobRecord> decode_job_record(std::string_view bytes, const JobId& id);

std::string encode_counter(std::uint64_t number);
// Error (failure): not what encode_counter wrote.
Result<std::uint64_t> decode_counter(std::string_view bytes, std::string_view counter);

// Error (failure): damaged.
Result<std::string> decode_tag(std::string_view bytes);

class JobJournal {
 public:
  // `store` must outlive the journal.
  explicit JobJournal(KeyValueStore& store) : store_(store) {}

  // Inserts or replaces the record of record.id.
  Status save(const JobRecord& record);
  // None when there is no such job.
  Result<std::optional<JobRecord>> load(const JobId& id) const;
  // All jobs, in order of submission. Error (failure): a record cannot be read; it names the job.
  Result<std::vector<JobRecord>> load_all() const;
  // No error when there is no such job.
  Status remove(const JobId& id);

  // The newest incarnation that may have been used; 0 when none was.
  Result<Incarnation> last_incarnation() const;
  // Before `last` is used.
  Status keep_incarnation(Incarnation last);
  // A number that this state directory has never given out before, from 1 on.
  Result<std::uint64_t> next_sequence();

  // What tells the jobs of this state directory from those of any other: the first `fresh` that it
  // was ever called with. REQUIRES: `fresh` is random, and not empty.
  Result<std::string> keep_tag(const std::string& fresh);

 private:
  Result<std::uint64_t> last_number(const char* counter) const;
  Status keep_number(const char* counter, std::uint64_t number);

  KeyValueStore& store_;
};

}  // namespace es::store
