#pragma once
// JobHistory keeps what people want to know about a job after a restart of the head, in addition to
// its record and its ledger: its evaluations and how it ended. The contents are opaque bytes here.
//
// Writes are buffered. If a power cut loses an entry of a running job, its workers report it again.
// The job's thread owns the object. Errors are those of the storage.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

class JobHistory {
 public:
  // `store` must outlive this object.
  explicit JobHistory(KeyValueStore& store) : store_(store) {}

  // Inserts or replaces the evaluation of this version.
  Status save_evaluation(const JobId& job, Version version, std::string_view totals);
  // Ascending by version.
  Result<std::vector<std::pair<Version, std::string>>> evaluations(const JobId& job) const;
  // Removes the evaluations after this version.
  Status rewind(const JobId& job, Version through);

  // The digest of the optimizer arrays and the contexts at the last version.
  Status save_final_state(const JobId& job, const Digest& state);
  Result<std::optional<Digest>> final_state(const JobId& job) const;

  // Details of the job that has ended, as they are displayed.
  Status save_end(const JobId& job, std::string_view details);
  // Returns nullopt if the job has not ended.
  Result<std::optional<std::string>> end(const JobId& job) const;

  // Adds the removal of all entries of the job to the batch.
  Status add_removal(const JobId& job, WriteBatch& batch) const;

 private:
  Status add_erased_evaluations(const JobId& job, Version from, WriteBatch& batch) const;

  KeyValueStore& store_;
};

}  // namespace es::store
