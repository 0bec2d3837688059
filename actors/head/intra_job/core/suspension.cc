#include "actors/head/intra_job/core/suspension.h"

#include <algorithm>
#include <utility>

#include "actors/head/intra_job/core/usage_limits.h"

namespace es::actors::intra_job {

void Suspension::pause(const PauseCommand& command) {
  if (context_.is_ending()) return context_.answer(command.request, refused("the job has ended"));
  if (context_.is_paused())
    return context_.answer(command.request, refused("the job is paused already"));
  if (becomes_ == JobState::kTimedOut)
    return context_.answer(command.request, refused("the time limit of the job is used up"));
  if (becomes_ == JobState::kFailed)
    return context_.answer(command.request, refused("the job is about to fail: " + failure_));
  pause_requests_.push_back(command.request);
  becomes_ = JobState::kPaused;
}

// A job that is about to be paused stays paused, and ends when it is resumed.
void Suspension::time_out() {
  if (becomes_ != JobState::kPaused && failure_.empty()) becomes_ = JobState::kTimedOut;
}

void Suspension::save() {
  if (becomes_) return;  // it is about to be saved
  becomes_ = JobState::kRunning;
  rounds_.hold();
}

void Suspension::fail(std::string why) {
  becomes_ = JobState::kFailed;
  failure_ = std::move(why);
  rounds_.hold();
}

void Suspension::keep_within_budget(bool used_up) {
  if (!failure_.empty()) return;
  if (!used_up && over_budget_ && pause_requests_.empty()) stay();
  over_budget_ = used_up && !failed_ && becomes_ != JobState::kTimedOut;
  if (over_budget_) becomes_ = JobState::kPaused;
}

// The job keeps its devices after all.
void Suspension::stay() {
  becomes_.reset();
  checkpoints_.forget_suspension();
  // The answer to a forgotten request is lost, and the next request needs another directory.
  rounds_.go_on();
}

void Suspension::resume(const ResumeCommand& command, const std::string& waiting_for) {
  const bool waits = restart_.is_missing();
  if (!context_.is_paused() && !(command.accept_loss && waits)) {
    std::string why = context_.is_ending() ? "the job has ended" : "the job is not paused";
    if (waits) why += "; it waits for " + waiting_for;
    if (command.accept_loss && !context_.is_ending()) why += ", and waits for no saved state";
    return context_.answer(command.request, refused(std::move(why)));
  }
  if (context_.record.over_budget)
    return context_.answer(command.request, refused(budget_text(context_.record)));
  std::string note;
  if (command.accept_loss) {
    Result<std::string> accepted = restart_.accept_loss();
    if (!accepted) return context_.answer(command.request, accepted.error());
    note = *std::move(accepted);
  }
  answer_pauses({});
  restart_.forget();  // the nodes may see other states now
  resumed_ = true;
  resume_refusal_.clear();
  context_.show_state(JobState::kQueued);
  context_.save();
  context_.answer(command.request, Status(), std::move(note));
}

void Suspension::take(const Allocation& allocation) {
  const Fleet& fleet = context_.fleet;
  const auto leaves = [&](const auto& entry) {
    return entry.second.phase == Worker::Phase::kKnown && !fleet.allocated(entry.second.device);
  };
  // A later list that is not urgent does not end the urgency while members are still on devices
  // that an earlier one has called back.
  const bool was_urgent = context_.urgent;
  context_.urgent =
      allocation.urgent || (context_.urgent && std::ranges::any_of(fleet.workers(), leaves));
  if (!was_urgent) urgent_since_ = context_.now;
  failed_ = false;
  report_kept("");
  if (!allocation.devices.empty()) resumed_ = false;
}

void Suspension::refuse_resume(const std::string& why) {
  resumed_ = false;
  resume_refusal_ = why;
  context_.warn("the job stays paused: " + why);
  context_.show_state(JobState::kPaused);
  context_.save();
}

// Returns whether the job can use no device except those that it must give away, or whether the
// process on another one does not come up in time.
bool Suspension::must_suspend() const {
  if (!context_.urgent || failed_ || context_.fleet.placed().empty()) return false;
  if (context_.now >= hand_over_until() && context_.fleet.choose({}, true).workers.empty())
    return true;
  const Wanted wanted = demand_.at(restart_.next_version());
  const DeviceSet left = context_.fleet.allocated_set();
  return std::ranges::none_of(left.counts, [&](const DeviceCount& count) {
    return !wanted || wanted->count_of(count.type) > 0;
  });
}

void Suspension::consider() {
  if (!becomes_ && must_suspend()) becomes_ = JobState::kQueued;
  if (becomes_ == JobState::kQueued && !must_suspend()) stay();  // it was given devices meanwhile
  if (!becomes_) return;
  // In phase Idle no worker holds more than the restart point, nor while the members load it, which
  // can take longer than the devices are there.
  if (context_.phase == Phase::kIdle || rounds_.loads_saved()) return suspend();
  // At the last version the members do not stop; the job ends by itself.
  const bool ends = rounds_.ends_at(restart_.next_version());
  if (ends && becomes_ == JobState::kFailed) return suspend();
  if (ends && becomes_ == JobState::kRunning) return stay();
  if (context_.phase != Phase::kNormal || ends) return;
  if (rounds_.all_stopped()) {
    checkpoints_.ask_for_suspension();
  } else {
    rounds_.stop();
  }
}

void Suspension::written(const Status& status) {
  if (!becomes_) return;
  if (becomes_ == JobState::kRunning) {
    if (!status.ok()) context_.warn("the job could not be saved: " + status.error().message);
    stay();
    return;
  }
  if (status.ok()) return suspend();
  if (becomes_ == JobState::kTimedOut || becomes_ == JobState::kFailed) {
    context_.warn("the last state of the job is not saved: " + status.error().message);
    may_end_ = true;
    return;
  }
  context_.warn("the job keeps its devices: " + status.error().message);
  failed_ = becomes_ == JobState::kQueued || over_budget_;
  // A failed pause is reported to its user, who may repeat it. A failed suspension repeats itself,
  // because the devices are about to end, or cost what the job may not spend.
  if (failed_) {
    save_again_at_ = context_.now + kSaveAgainAfter;
    report_kept(status.error().message);
  }
  becomes_.reset();
  answer_pauses(status);
  rounds_.go_on();
}

Instant Suspension::hand_over_until() const {
  return urgent_since_ + context_.config.urgent_drain_timeout;
}

std::optional<Instant> Suspension::next_limit() const {
  if (failed_) return save_again_at_;
  const bool waits = context_.urgent && !becomes_ && context_.now < hand_over_until();
  return waits ? std::optional(hand_over_until()) : std::nullopt;
}

void Suspension::tick() {
  if (save_again_at_ && context_.now >= *save_again_at_) failed_ = false;
  if (!failed_) save_again_at_.reset();
}

void Suspension::report_kept(const std::string& reason) {
  if (kept_ == reason) return;
  kept_ = reason;
  context_.emit(DevicesKept{reason});
}

void Suspension::suspend() {
  if (becomes_ == JobState::kTimedOut || becomes_ == JobState::kFailed) {
    may_end_ = true;
    return;
  }
  // The last worker was lost before it was saved.
  if (becomes_ == JobState::kRunning) return stay();
  rounds_.note_suspension();
  // The checkpoint that was just written is the restart point now, and no node was asked about it.
  restart_.forget();
  report_kept("");
  if (std::exchange(over_budget_, false)) {
    context_.record.over_budget = true;
    context_.log("the job is saved and paused: " + budget_text(context_.record));
  }
  // The state is set first: release_everybody() saves the record with it.
  context_.show_state(*std::exchange(becomes_, std::nullopt));
  // The new placement applies after the pause.
  if (context_.is_paused() && demand_.has_open_scale()) demand_.answer_scale({});
  rounds_.release_everybody();
}

void Suspension::answer_pauses(const Status& status) {
  for (const std::uint64_t request : std::exchange(pause_requests_, {}))
    context_.answer(request, status);
}

}  // namespace es::actors::intra_job
