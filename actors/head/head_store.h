#pragma once
// HeadStore: what the head keeps on disk and its actors share: jobs, ledgers, plans, and the
// numbers that are given out only once. A daemon uses one RocksDB directory; a simulation uses
// memory.
#include <memory>
#include <mutex>
#include <optional>

#include "store/journal/claim_journal.h"
#include "store/journal/job_history.h"
#include "store/journal/job_journal.h"
#include "store/journal/suspect_devices.h"
#include "store/journal/usage_journal.h"
#include "store/journal/vacated_nodes.h"
#include "store/kv/guarded_key_value_store.h"
#include "store/ledger/ledger.h"
#include "store/plans/plan_store.h"

namespace es::actors {

// After a failed write (the disk is full, read-only or broken) all writes fail at once, with the
// same reason, until recover() succeeds. An actor that could not write keeps its data in memory and
// sends nothing that depends on this data being durable. An actor that gets such an error reports
// it to the cluster scheduler, which calls recover() once a second and informs the other actors
// when it succeeds (store_atoms.h).
//
// Thread-safe: each job writes only its own records, and a lock protects the counters.
class HeadStore {
 public:
  explicit HeadStore(std::unique_ptr<store::KeyValueStore> values)
      : values_(std::make_unique<store::GuardedKeyValueStore>(std::move(values))),
        journal_(*values_),
        history_(*values_),
        suspects_(*values_),
        claims_(*values_),
        usage_(*values_),
        vacated_(*values_),
        ledger_(*values_),
        plans_(*values_) {}

  Status save(const JobRecord& record) { return journal_.save(record); }
  Result<std::vector<JobRecord>> load_all() const { return journal_.load_all(); }
  // Returns an incarnation that was never given out before. Call keep_incarnations() before a
  // process is started under it. Only the first call can fail, because it reads the store.
  Result<Incarnation> next_incarnation() {
    const std::lock_guard lock(mutex_);
    if (!given_out_) {
      const Result<Incarnation> last = journal_.last_incarnation();
      if (!last) return last.error();
      given_out_ = kept_ = *last;
    }
    ++given_out_->value;
    return *given_out_;
  }
  // Makes the incarnations that were given out so far durable, so that no later head gives them
  // out.
  Status keep_incarnations() {
    const std::lock_guard lock(mutex_);
    if (given_out_ == kept_) return {};
    ES_RETURN_IF_ERROR(journal_.keep_incarnation(*given_out_));
    kept_ = given_out_;
    return {};
  }
  Result<std::uint64_t> next_sequence() {
    const std::lock_guard lock(mutex_);
    return journal_.next_sequence();
  }
  // The ids of jobs submitted from now on end in a tag of this store, so that two heads never give
  // the same id. The first call stores `fresh` as the tag; later calls keep the stored one.
  // REQUIRES: it is called before other threads use this object.
  Status keep_tag(const std::string& fresh) {
    auto tag = journal_.keep_tag(fresh);
    if (!tag) return tag.error();
    job_tag_ = *std::move(tag);
    return {};
  }
  // An empty tag means that ids are unique only within this store.
  const std::string& job_tag() const { return job_tag_; }
  Result<std::optional<JobRecord>> load(const JobId& id) const { return journal_.load(id); }
  // Removes all records of a job that has ended, all of them or none, so that no part of a job is
  // left after a crash.
  Status forget(const JobId& id) {
    store::WriteBatch batch;
    store::JobJournal::add_removal(id, batch);
    ES_RETURN_IF_ERROR(history_.add_removal(id, batch));
    ES_RETURN_IF_ERROR(ledger_.add_removal(id, batch));
    return values_->write(batch, store::Durability::kSynced);
  }
  // When it returns without an error, everything written before is on the disk.
  Status sync() { return values_->sync(); }
  // The reason why nothing can be written, if one is known.
  std::optional<Error> trouble() const { return values_->trouble(); }
  // Returns an error if the disk does not accept a write; then the head must not accept anything
  // new.
  Status check_writable() { return values_->try_write(); }
  Status recover() { return values_->recover(); }
  // Used by the cluster scheduler only.
  store::SuspectDevices& suspects() { return suspects_; }
  // Used by the cluster scheduler only.
  store::ClaimJournal& claims() { return claims_; }
  // Used by the cluster scheduler only.
  store::UsageJournal& usage() { return usage_; }
  // Used by the cluster scheduler only.
  store::VacatedNodes& vacated() { return vacated_; }
  store::JobHistory& history() { return history_; }
  store::Ledger& ledger() { return ledger_; }
  store::PlanStore& plans() { return plans_; }

 private:
  std::unique_ptr<store::GuardedKeyValueStore> values_;
  std::mutex mutex_;
  std::optional<Incarnation> given_out_, kept_;  // guarded by mutex_
  store::JobJournal journal_;
  store::JobHistory history_;
  store::SuspectDevices suspects_;
  store::ClaimJournal claims_;
  store::UsageJournal usage_;
  store::VacatedNodes vacated_;
  store::Ledger ledger_;
  store::PlanStore plans_;
  std::string job_tag_;
};

}  // namespace es::actors
