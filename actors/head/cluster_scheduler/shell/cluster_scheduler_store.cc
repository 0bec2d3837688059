// ClusterScheduler: a state directory that cannot be written or read.
#include <caf/all.hpp>

#include "actors/base/log/log.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"

namespace es::actors {
namespace {

constexpr auto kTryStoreAgain = std::chrono::seconds(1);

}  // namespace

// A write of this actor or of a job has failed and waits.
void ClusterSchedulerState::on_store_failed(const std::string& reason) {
  // A warning is set exactly while a timer for the next attempt runs. It is not started twice.
  const bool tries = !store_warning_.empty();
  if (!tries) log::warning(reason);
  store_warning_ = reason;
  if (!tries) self_->delayed_send(self_, kTryStoreAgain, TryStoreAtom::value);
}

void ClusterSchedulerState::on_try_store() {
  Status status = store_->recover();
  // A write that fails stays at the front, so the order of the writes is kept.
  while (status.ok() && !waiting_writes_.empty()) {
    status = waiting_writes_.front()();
    if (status.ok()) waiting_writes_.pop_front();
  }
  if (!status.ok()) {
    store_warning_ = status.error().message;
    self_->delayed_send(self_, kTryStoreAgain, TryStoreAtom::value);
    return;
  }
  log::warning("the state directory can be written again");
  store_warning_.clear();
  // The jobs have waiting effects of their own, which they perform now.
  for (const JobId& id : live_jobs_) self_->send(jobs_.at(id).actor, StoreRecoveredAtom::value);
}

// Checked before anything new is accepted.
Status ClusterSchedulerState::check_accepting() {
  if (!store_warning_.empty()) return refused(store_warning_);
  return not_written(store_->check_writable());
}

// Passes a failed write on. The request is refused, and writing is tried again for everything that
// waits.
Status ClusterSchedulerState::not_written(const Status& failed) {
  if (!failed.ok()) on_store_failed(failed.error().message);
  return failed;
}

// For facts that cannot be refused: writes now, or as soon as it is possible. Later writes queue
// behind earlier ones.
void ClusterSchedulerState::write_when_possible(std::function<Status()> write) {
  if (waiting_writes_.empty() && not_written(write()).ok()) return;
  waiting_writes_.push_back(std::move(write));
}

std::string ClusterSchedulerState::store_warning() const {
  const auto trouble = store_->trouble();
  return trouble ? trouble->message : store_warning_;
}

// A job of an earlier head has met damage that was not found when the head started.
void ClusterSchedulerState::on_history_unreadable(const std::string& reason) {
  options_.on_unreadable(failure(reason));
}

}  // namespace es::actors
