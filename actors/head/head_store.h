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
#include "store/kv/guarded_key_value_store.h"
#include "store/ledger/ledger.h"
#include "store/plans/plan_store.h"

namespace es::actors {

// After a write that failed (a full disk, one that cannot be written or is broken) all writes fail
// at once, with the reason, until recover() succeeds. Whoever has something to write keeps it, and
// sends nothing that must be durable first. The cluster scheduler calls recover() once a second,
// and tells the others; whoever meets such an error tells it (store_atoms.h).
//
// Thread-safe: each job writes only its own records, and the counters are behind a lock.
class HeadStore {
 public:
  explicit HeadStore(std::unique_ptr<store::KeyValueStore> values)
      : values_(std::make_unique<store::GuardedKeyValueStore>(std::move(values))),
        journal_(*values_),
        history_(*values_),
        suspects_(*values_),
        claims_(*values_),
        ledger_(*values_),
        plans_(*values_) {}

  Status save(const store::JobRecord& record) { return journal_.save(record); }
  Result<std::vector<store::JobRecord>> load_all() const { return journal_.load_all(); }
  // Never given out before. Before a process is started in its name: keep_incarnations().
  // Error: only of the first call, which reads.
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
  // No later head gives those out that this one has given out by now.
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
  // From now on the ids of new jobs end in a tag of this store: `fresh` the first time, and the
  // same ever after. So no two heads give the same id. Call it before the store is shared.
  Status keep_tag(const std::string& fresh) {
    auto tag = journal_.keep_tag(fresh);
    if (tag) job_tag_ = *std::move(tag);
    return tag ? Status() : Status(tag.error());
  }
  // Empty: ids are unique in this store only.
  const std::string& job_tag() const { return job_tag_; }
  Result<std::optional<store::JobRecord>> load(const JobId& id) const { return journal_.load(id); }
  // Everything of a job that is over.
  Status forget(const JobId& id) {
    ES_RETURN_IF_ERROR(ledger_.remove(id));
    ES_RETURN_IF_ERROR(history_.remove(id));
    return journal_.remove(id);
  }
  // Everything that was written is on the disk when it returns.
  Status sync() { return values_->sync(); }
  // Why nothing can be written, as far as is known.
  std::optional<Error> trouble() const { return values_->trouble(); }
  // Whether something new may be accepted: the disk takes a write.
  Status check_writable() { return values_->try_write(); }
  Status recover() { return values_->recover(); }
  // Of the cluster scheduler.
  store::SuspectDevices& suspects() { return suspects_; }
  // Of the cluster scheduler.
  store::ClaimJournal& claims() { return claims_; }
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
  store::Ledger ledger_;
  store::PlanStore plans_;
  std::string job_tag_;
};

}  // namespace es::actors
