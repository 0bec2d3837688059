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
#include <utility>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/job_record.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

std::string encode_job_record(const JobRecord& record);
// Error (failure): the bytes were not written by encode_job_record.
Result<JobRecord> decode_job_record(std::string_view bytes, const JobId& id);

std::string encode_counter(std::uint64_t number);
// Error (failure): the bytes were not written by encode_counter.
Result<std::uint64_t> decode_counter(std::string_view bytes, std::string_view counter);

// Error (failure): the bytes are damaged.
Result<std::string> decode_tag(std::string_view bytes);

// The oldest version of a job record that is read, and the one that is written.
std::pair<std::uint32_t, std::uint32_t> job_record_versions();

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
  // Adds the removal of the record to the batch. It is no error if there is no such job.
  static void add_removal(const JobId& id, WriteBatch& batch);

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
