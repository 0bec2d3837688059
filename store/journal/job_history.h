#pragma once
// JobHistory: what people want to know of a job after the head was restarted, beside its record and
// its ledger: the evaluations, and how it ended. Opaque bytes here.
//
// Writes are buffered: what a power cut takes away of a running job is told again by its workers.
// Owned by the job's thread. Errors are those of the storage.
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
  // Forgets the evaluations after this version.
  Status rewind(const JobId& job, Version through);

  // The digest of the optimizer's state and the contexts at the last version.
  Status save_final_state(const JobId& job, const Digest& state);
  Result<std::optional<Digest>> final_state(const JobId& job) const;

  // What the job came to, as it is shown.
  Status save_end(const JobId& job, std::string_view details);
  // None when it has not ended.
  Result<std::optional<std::string>> end(const JobId& job) const;

  // Forgets the job.
  Status remove(const JobId& job);

 private:
  KeyValueStore& store_;
};

}  // namespace es::store
