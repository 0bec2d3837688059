#pragma once
// JobJournal keeps what the head must know after a restart. Every write is on disk before the call
// returns, so the head may act on it (the rule "make durable first, then send" of
// docs/PROTOCOL.md).
//
// One thread of the head owns it. Not thread-safe, because the counters are read and then written.
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
  kRunning = 1,    // holds devices, or will get them back after a restart of the head
  kCompleted = 2,  // final: all steps are done
  kFailed = 3,     // final: `error` contains the reason
  kCancelled = 4,  // final: stopped on request
  // Paused on request: holds no device; resuming it continues from its newest checkpoint.
  kPaused = 5,
};
const char* phase_name(JobPhase phase);
constexpr bool is_final(JobPhase phase) {
  return phase >= JobPhase::kCompleted && phase <= JobPhase::kCancelled;
}

// A checkpoint that the head has accepted as valid.
struct CheckpointRef {
  std::string path;
  Version version = 0;
  bool periodic = false;                // part of the job's own series
  std::vector<std::string> nodes = {};  // nodes on whose disks it was written, ascending
  Digest params = {}, state = {};       // as in its manifest
  bool operator==(const CheckpointRef&) const = default;
};

// A worker process that may hold state of the last generation, and its address.
struct KnownWorker {
  Incarnation incarnation;
  std::string node;
  DeviceType device_type;
  std::uint32_t device_index = 0;
  std::string address;
  std::string host_id;
  bool operator==(const KnownWorker&) const = default;
};

// A measured refusal: the job was slower on `held` with more devices of these types than without
// them.
struct Refusal {
  DeviceSet held;
  std::vector<DeviceType> types;
  std::map<DeviceType, double> capabilities;  // local steps per second, as known before
  bool operator==(const Refusal&) const = default;
};

struct JobRecord {
  JobId id;
  std::string spec_toml;  // canonical text of the spec
  // Directory from which the run began; empty if it began from the seed.
  std::string start_checkpoint;
  JobPhase phase = JobPhase::kQueued;
  Generation generation;  // the last one that was started; 0 if none was
  std::vector<KnownWorker> known;
  std::optional<DeviceSet> pinned;  // devices of the last accepted scale command
  DeviceType bound_type{};          // the only type that it may use; an empty name for any type
  std::vector<CheckpointRef> checkpoints;  // newest first
  std::vector<CheckpointRef> spoiled;      // void checkpoints, to be removed from the disk
  // Paths of states that a recovery of the journal could not interpret. No job continues from them,
  // and they are never removed.
  std::vector<std::string> set_aside{};
  std::vector<Refusal> refusals;
  std::optional<Version> rewinding;  // ledger and history after this version are void
  std::uint64_t sequence = 0;        // order of submission, unique (next_sequence)
  std::uint64_t submitted_unix_ms = 0;
  std::string error;       // for kFailed
  std::string request_id;  // given by the client, to recognise a repeated request; may be empty
  bool operator==(const JobRecord&) const = default;
};

std::string encode_job_record(const JobRecord& record);
// Error (failure): the bytes were not written by encode_job_record.
Result<JobRecord> decode_job_record(std::string_view bytes, const JobId& id);

std::string encode_counter(std::uint64_t number);
// Error (failure): the bytes were not written by encode_counter.
Result<std::uint64_t> decode_counter(std::string_view bytes, std::string_view counter);

// Error (failure): the bytes are damaged.
Result<std::string> decode_tag(std::string_view bytes);

class JobJournal {
 public:
  // `store` must outlive the journal.
  explicit JobJournal(KeyValueStore& store) : store_(store) {}

  // Inserts or replaces the record of record.id.
  Status save(const JobRecord& record);
  // Returns nullopt if there is no such job.
  Result<std::optional<JobRecord>> load(const JobId& id) const;
  // All jobs, in the order of their submission. Error (failure): a record cannot be read; the error
  // names the job.
  Result<std::vector<JobRecord>> load_all() const;
  // It is no error if there is no such job.
  Status remove(const JobId& id);

  // The newest incarnation that may have been used; 0 if none was.
  Result<Incarnation> last_incarnation() const;
  // Must return before `last` is used.
  Status keep_incarnation(Incarnation last);
  // A number, from 1 on, that this state directory has never given out before.
  Result<std::uint64_t> next_sequence();

  // A text that distinguishes the jobs of this state directory from those of any other one. It is
  // the `fresh` of the first call ever. REQUIRES: `fresh` is random and not empty.
  Result<std::string> keep_tag(const std::string& fresh);

 private:
  Result<std::uint64_t> last_number(const char* counter) const;
  Status keep_number(const char* counter, std::uint64_t number);

  KeyValueStore& store_;
};

}  // namespace es::store
