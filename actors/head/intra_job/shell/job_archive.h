#pragma once
// JobArchive keeps what a head must know of one job after a restart: its record, its ledger, its
// evaluations and how it ended. It writes to the store that the head shares (head_store.h); what
// becomes durable before what is in docs/ARCHITECTURE.md.
//
// Errors are those of the store: nothing was written, and the call may be repeated. One owner;
// writes block.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/head_store.h"
#include "actors/head/intra_job/core/job_events.h"
#include "proto/messages.h"

namespace es::actors {

// What an earlier head stored of a job.
struct StoredHistory {
  intra_job::LedgerHistory ledger;
  std::vector<std::pair<Version, std::string>> evaluations;  // totals; ascending by version
};
// Error: the history cannot be read. Without its ledger the head could not notice that the job
// computes other bits than before.
Result<StoredHistory> read_history(HeadStore& store, const JobId& job,
                                   const intra_job::Config& config);

class JobArchive {
 public:
  // `record`: as admitted, or as the journal has it.
  JobArchive(std::shared_ptr<HeadStore> store, JobRecord record)
      : store_(std::move(store)), record_(std::move(record)) {}

  // What was saved last, or will be when the disk accepts it.
  const JobRecord& record() const { return record_; }
  // When the core ended the job; 0: it has not, or there is no date.
  std::uint64_t ended_unix_ms() const { return ended_unix_ms_; }

  // Takes over the record of the core, for save(). The refusals are not the core's, so they stay.
  // `unix_ms`: the date.
  void adopt(const JobRecord& record, std::uint64_t unix_ms);
  // Makes the record durable.
  Status save();
  Status save_refusals(std::vector<Refusal> refusals);
  // How the job ended, for clients that ask after a restart of the head.
  Status save_end(const Msg<wire::JobDetails>& details);

  // Written without waiting for the disk; sync() waits.
  Status append(const protocol::LedgerLine& line);
  Status save_evaluation(Version version, const std::vector<std::byte>& totals);
  Status sync() { return store_->sync(); }
  // Removes the lines and the evaluations after this version.
  Status rewind(Version through);
  // Makes the incarnations durable that were given out so far.
  Status keep_incarnations() { return store_->keep_incarnations(); }

  Status check_writable() { return store_->check_writable(); }
  // The reason why nothing can be written, if one is known.
  std::optional<Error> trouble() const { return store_->trouble(); }

 private:
  const JobId& job() const { return record_.id; }

  std::shared_ptr<HeadStore> store_;
  JobRecord record_;
  std::uint64_t ended_unix_ms_ = 0;
};

}  // namespace es::actors
