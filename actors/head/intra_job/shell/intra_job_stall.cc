// The intra-job scheduler while the state directory cannot be written.
#include <caf/all.hpp>

#include <type_traits>

#include "actors/head/intra_job/shell/intra_job_actor.h"

namespace es::actors {

void IntraJobState::perform(intra_job::Effects effects) {
  if (!stalled_) act(planner_->report_lost_progress(planner_view()));
  for (intra_job::Effect& effect : effects) {
    // After one effect has failed, all later ones wait, also those that need no disk: a message
    // must not leave before the record that it depends on is durable.
    if (!stalled_) {
      const Status performed = perform_now(effect);
      if (performed.ok()) continue;
      stall(performed.error());
    }
    hold(std::move(effect));
  }
  encoded_ = {};
  if (progress_due_) tell_followers_progress();
  progress_due_ = false;
  arm_tick();
}

Status IntraJobState::perform_now(const intra_job::Effect& effect) {
  return std::visit(
      [this](const auto& e) -> Status {
        if constexpr (std::is_void_v<decltype(perform_effect(e))>) {
          perform_effect(e);
          return {};
        } else {
          return perform_effect(e);
        }
      },
      effect);
}

// A step is counted for the speed and for followers when it is reported; only its consequences
// wait.
void IntraJobState::hold(intra_job::Effect effect) {
  if (awaits_an_answer(effect) && !stands_still_at_) stands_still_at_ = now();
  const bool is_step = std::holds_alternative<intra_job::LedgerLineAdded>(effect);
  held_.add(std::move(effect));
  if (!is_step) return;
  on_step();
  progress_due_ = true;
}

void IntraJobState::stall(const Error& reason) {
  stalled_ = reason;
  log(store_warning(), log::Level::kWarning);
  tell_waiting_clients(reason);
  // The cluster scheduler tries to write and sends StoreRecoveredAtom when it succeeds.
  self_->send(peers_.cluster, StoreFailedAtom::value, reason.message);
}

// Refuses the open commands of clients. They were accepted before the write failed, and cannot be
// taken back.
void IntraJobState::tell_waiting_clients(const Error& reason) {
  for (const auto& [number, client] : commands_)
    refuse(client.first, client.second,
           failure(reason.message +
                   "; the request is performed when the state directory can be written again"));
  commands_.clear();
}

void IntraJobState::on_store_recovered() {
  if (!stalled_) return;
  stalled_.reset();
  writes_held_ = true;
  write_held();
  writes_held_ = false;
  if (!stalled_) {
    // The total time in which the core stood still, including earlier stalls, because
    // stands_still_at_ is in the core's time.
    if (stands_still_at_)
      stood_still_ = self_->clock().now().time_since_epoch() - *stands_still_at_;
    stands_still_at_.reset();
    log("the state directory can be written again: the job continues");
  }
  if (progress_due_) tell_followers_progress();
  progress_due_ = false;
  arm_tick();
}

void IntraJobState::write_held() {
  // The refusals come before the held effects: one of them may give a device back, and the cluster
  // scheduler must not grant it again.
  if (refusals_wait_) {
    if (const Status saved = save_refusals(); !saved.ok()) return stall(saved.error());
  }
  while (!held_.empty()) {
    if (const Status performed = perform_now(held_.front()); !performed.ok())
      return stall(performed.error());
    // An effect is removed only after it was performed, so a failed one stays the first.
    held_.pop();
  }
}

// Checked before a command is accepted, because the change has to be journaled.
Status IntraJobState::check_accepting() {
  if (stalled_) return *stalled_;
  const Status writable = peers_.store->check_writable();
  if (!writable.ok()) self_->send(peers_.cluster, StoreFailedAtom::value, writable.error().message);
  return writable;
}

std::string IntraJobState::store_warning() const {
  if (stalled_)
    return stalled_->message + "; the job continues to train on the devices that it has";
  const auto trouble = peers_.store->trouble();
  return trouble ? trouble->message : "";
}

}  // namespace es::actors
