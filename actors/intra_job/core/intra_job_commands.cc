// IntraJobCore: commands of clients, and the end of the job.
#include <utility>

#include "actors/intra_job/core/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

void IntraJobCore::handle(const ScaleCommand& event) {
  const auto refuse = [&](std::string why) {
    effects_.push_back(CommandDone{event.request, refused(std::move(why))});
  };
  if (phase_ == Phase::kEnding) return refuse("the job has ended");
  if (staged()) return refuse("the job goes through fixed stages; it cannot be scaled");
  if (event.devices && (event.devices->empty() || event.devices->total() > config_.spec.max_p)) {
    return refuse("devices = " + event.devices->text() +
                  ": allowed are 1 to max_p = " + std::to_string(config_.spec.max_p) + " devices");
  }
  if (std::string why = refuse_types(event.devices); !why.empty()) return refuse(std::move(why));
  if (scale_request_) {
    answer_scale(refused("a later scale request has replaced this one"));
  } else {
    pin_before_scale_ = record_.pinned;
  }
  record_.pinned = event.devices;
  save();
  scale_request_ = event.request;
  const bool granted =
      !event.devices || paused() || fleet_.allocated_set().contains(*event.devices);
  if (granted) answer_scale({});
}

// Returns why a job whose bits depend on the device type cannot have these devices; empty: it can.
std::string IntraJobCore::refuse_types(const Wanted& wanted) const {
  const DeterminismLevel level = config_.spec.level;
  if (level == DeterminismLevel::kD2 || !wanted) return {};
  const std::string why = "devices = " + wanted->text() + ": at level " + level_name(level) +
                          " the kernels of a device type decide the bits; allowed are devices of ";
  if (wanted->counts.size() > 1) return why + "one type";
  const std::optional<DeviceType>& bound = record_.bound_type;
  if (!bound || wanted->counts.front().type == *bound) return {};
  return why + bound->name + ", on which the job began";
}

void IntraJobCore::answer_scale(Status status) {
  effects_.push_back(CommandDone{*scale_request_, std::move(status)});
  scale_request_.reset();
}

void IntraJobCore::handle(const CancelCommand& event) {
  if (phase_ == Phase::kEnding) {
    effects_.push_back(CommandDone{event.request, refused("the job has ended")});
    return;
  }
  cancel_requests_.push_back(event.request);
  consider_stop();
}

void IntraJobCore::finish_if_done() {
  if (phase_ != Phase::kNormal && phase_ != Phase::kDraining) return;
  if (ledger_.through() != config_.last_version || !checkpoints_.empty()) return;
  if (periodic_.pending()) return;
  if (!evaluations_.contains(config_.last_version)) return;
  for (const Incarnation incarnation : fleet_.placed()) {
    if (fleet_.find(incarnation)->version != config_.last_version) return;
  }
  const std::string why = unsaved();
  end(why.empty() ? JobState::kFinished : JobState::kFailed, why);
}

void IntraJobCore::end(JobState state, std::string error) {
  if (phase_ == Phase::kEnding) return;
  phase_ = Phase::kEnding;
  clock_.pause(now_);
  suspending_.reset();
  record_.error = std::move(error);
  if (!record_.error.empty()) log(record_.error);
  for (const PendingCheckpoint& pending : std::exchange(checkpoints_, {})) {
    checkpoint_done(pending.request, refused("the job has ended"));
  }
  drop_written_checkpoints("the job has ended");
  if (scale_request_) answer_scale(refused("the job has ended"));
  answer_pauses(refused("the job has ended"));
  show_state(state);
  tell_kept("");
  say_which_suspensions_stay();
  if (state == JobState::kFailed) {
    say_what_is_kept();
  } else {
    drop_suspensions(record_, config_.suspend_prefix, "");
  }
  // The outcome is durable before any worker is released: a restarted head must not continue the
  // job.
  save();
  for (auto& [incarnation, worker] : fleet_.workers()) {
    if (worker.phase == Worker::Phase::kStarting) {
      kill(worker);
    } else if (worker.phase != Worker::Phase::kLeaving) {
      release(worker);
    }
  }
}

// The saved state of a failed job may be all that is left of days of work, so the log names it.
void IntraJobCore::say_what_is_kept() {
  if (!record_.checkpoint) return;
  const CheckpointRef& kept = *record_.checkpoint;
  log("its newest saved state is kept: version " + std::to_string(kept.version) + ", " + kept.path +
      (kept.nodes.empty() ? "" : " on " + nodes_text(kept.nodes)) +
      "; a job that is submitted --from there goes on with it");
}

void IntraJobCore::end_if_empty() {
  if (phase_ != Phase::kEnding || ended_ || !fleet_.holds_nothing()) return;
  ended_ = true;
  for (const std::uint64_t request : std::exchange(cancel_requests_, {})) {
    effects_.push_back(CommandDone{request, Status()});
  }
  remove_void_checkpoints();
  effects_.push_back(JobEnded{record_.state, record_.error});
}

// No worker of this job will write another checkpoint and remove these with it.
void IntraJobCore::remove_void_checkpoints() {
  keep_suspensions();
  remove_from_nodes(record_.spoiled);
}

void IntraJobCore::show_state(JobState state) {
  if (record_.state == state) return;
  record_.state = state;
  effects_.push_back(StateChanged{state});
}

// An ended job has no known workers: a restarted head kills those that are left.
void IntraJobCore::save() {
  record_.known = phase_ == Phase::kEnding ? std::vector<KnownWorker>() : known_workers();
  effects_.push_back(SaveRecord{record_});
}

}  // namespace es::actors::intra_job
