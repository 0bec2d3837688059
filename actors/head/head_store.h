#pragma once
// HeadStore: what the head keeps on disk, shared by its actors: jobs, ledgers, plans and the
// numbers that are given out once. One RocksDB directory in a daemon, memory in simulations.
#include <memory>
#include <mutex>
#include <optional>

#include "store/journal/claim_journal.h"
#include "store/journal/job_history.h"
#include "store/journal/job_journal.h"
#include "store/journal/suspect_devices.h"
#include "store/kv/key_value_store.h"
#include "store/ledger/ledger.h"
#include "store/plans/plan_store.h"

namespace es::actors {

// Thread-safe: each job writes only its own records, and the counters are behind a lock.
class HeadStore {
 public:
  explicit HeadStore(std::unique_ptr<store::KeyValueStore> values)
      : values_(std::move(values)),
        journal_(*values_),
        history_(*values_),
        suspects_(*values_),
        claims_(*values_),
        ledger_(*values_),
        plans_(*values_) {}

  Status save(const store::JobRecord& record) { return journal_.save(record); }
  Result<std::vector<store::JobRecord>> load_all() const { return journal_.load_all(); }
  Result<Incarnation> next_incarnation() {
    const std::lock_guard lock(mutex_);
    return journal_.next_incarnation();
  }
  Result<std::uint64_t> next_sequence() {
    const std::lock_guard lock(mutex_);
    return journal_.next_sequence();
  }
  Result<std::optional<store::JobRecord>> load(const JobId& id) const { return journal_.load(id); }
  // Everything of a job that is over.
  Status forget(const JobId& id) {
    ES_RETURN_IF_ERROR(ledger_.remove(id));
    ES_RETURN_IF_ERROR(history_.remove(id));
    return journal_.remove(id);
  }
  // Of the cluster scheduler.
  store::SuspectDevices& suspects() { return suspects_; }
  // Of the cluster scheduler.
  store::ClaimJournal& claims() { return claims_; }
  store::JobHistory& history() { return history_; }
  store::Ledger& ledger() { return ledger_; }
  store::PlanStore& plans() { return plans_; }

 private:
  std::unique_ptr<store::KeyValueStore> values_;
  std::mutex mutex_;
  store::JobJournal journal_;
  store::JobHistory history_;
  store::SuspectDevices suspects_;
  store::ClaimJournal claims_;
  store::Ledger ledger_;
  store::PlanStore plans_;
};

}  // namespace es::actors
