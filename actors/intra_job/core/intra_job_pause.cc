// IntraJobCore: how a job gives up all its devices and comes back, through a checkpoint. Either a
// user pauses it until it is resumed, or its last devices are about to end and it is queued until
// it is given others.
//
// The members drain, so that nothing is computed that the checkpoint does not contain. One of them
// writes it. After the head has journaled it, all processes end and the devices go back. Until then
// the job can continue at any moment, so a checkpoint that cannot be written costs nothing.
#include <algorithm>
#include <utility>

#include "actors/intra_job/core/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

namespace {

// Above the request numbers of clients and below those of the job's own series.
constexpr std::uint64_t kSuspensionRequest = (std::uint64_t{1} << 63) - 1;

}  // namespace

void IntraJobCore::handle(const PauseCommand& event) {
  const auto refuse = [&](const char* why) {
    effects_.push_back(CommandDone{event.request, refused(why)});
  };
  if (phase_ == Phase::kEnding) return refuse("the job has ended");
  if (paused()) return refuse("the job is paused already");
  pause_requests_.push_back(event.request);
  suspending_ = JobState::kPaused;
}

void IntraJobCore::handle(const ResumeCommand& event) {
  const bool waits = waits_for_state();
  if (!paused() && !(event.accept_loss && waits)) {
    std::string why = phase_ == Phase::kEnding ? "the job has ended" : "the job is not paused";
    if (waits) why += "; it waits for " + waiting_for();
    if (event.accept_loss && phase_ != Phase::kEnding) why += ", and waits for no saved state";
    effects_.push_back(CommandDone{event.request, refused(std::move(why))});
    return;
  }
  std::string note;
  if (event.accept_loss) {
    Result<std::string> accepted = accept_loss();
    if (!accepted) {
      effects_.push_back(CommandDone{event.request, accepted.error()});
      return;
    }
    note = *std::move(accepted);
  }
  answer_pauses({});
  saved_.forget();  // the nodes may see other states now
  resumed_ = true;
  resume_refusal_.clear();
  show_state(JobState::kQueued);
  save();
  effects_.push_back(CommandDone{event.request, Status(), std::move(note)});
}

// The devices that the job wants cannot be had any more. The job stays paused until a user decides.
void IntraJobCore::refuse_resume(const std::string& why) {
  resumed_ = false;
  resume_refusal_ = why;
  log("the job stays paused: " + why);
  show_state(JobState::kPaused);
  save();
}

// Returns whether the job can use no device except those that it must give away.
bool IntraJobCore::must_suspend() const {
  if (!urgent_ || suspension_failed_ || fleet_.placed().empty()) return false;
  const Wanted wanted = wanted_at(next_version());
  const DeviceSet left = fleet_.allocated_set();
  return std::ranges::none_of(left.counts, [&](const DeviceCount& count) {
    return !wanted || wanted->count_of(count.type) > 0;
  });
}

void IntraJobCore::consider_suspension() {
  if (phase_ == Phase::kEnding || paused() || stops()) return;
  if (!suspending_ && must_suspend()) suspending_ = JobState::kQueued;
  if (suspending_ == JobState::kQueued && !must_suspend()) {  // it was given devices meanwhile
    suspending_.reset();
    forget_suspension_request();
    // The answer to a forgotten request is lost, and the next request needs another directory.
    if (phase_ == Phase::kNormal && all_stopped()) begin_round();
  }
  if (!suspending_) return;
  if (phase_ == Phase::kIdle) return suspend();  // no worker holds more than the restart point
  // At the last version the members do not stop; the job ends by itself.
  if (phase_ != Phase::kNormal || next_version() == config_.last_version) return;
  if (all_stopped()) {
    ask_for_suspension();
  } else {
    drain();
  }
}

// A directory is never used twice: each generation makes one request, and after a failed request a
// new generation begins.
void IntraJobCore::ask_for_suspension() {
  const bool asked = std::ranges::any_of(checkpoints_, [](const PendingCheckpoint& pending) {
    return pending.request == kSuspensionRequest;
  });
  const bool written = std::ranges::any_of(written_, [](const WrittenCheckpoint& taken) {
    return taken.message.request == kSuspensionRequest;
  });
  if (asked || written) return;
  checkpoints_.push_back(
      {.request = kSuspensionRequest,
       .directory = config_.suspend_prefix + std::to_string(record_.generation.value),
       .make_parent = true});
  ask_for_checkpoints();
}

// Forgets the request of this generation. The next generation writes to a directory of its own.
void IntraJobCore::forget_suspension_request() {
  std::erase_if(checkpoints_, [](const PendingCheckpoint& pending) {
    return pending.request == kSuspensionRequest;
  });
  std::erase_if(written_, [](const WrittenCheckpoint& taken) {
    return taken.message.request == kSuspensionRequest;
  });
}

void IntraJobCore::checkpoint_done(std::uint64_t request, Result<CheckpointTaken> result) {
  at_end_.erase(request);
  first_errors_.erase(request);
  if (request != kSuspensionRequest) {
    effects_.push_back(CheckpointDone{request, std::move(result)});
  } else if (suspending_) {
    suspension_written(result ? Status() : Status(result.error()));
  }
}

void IntraJobCore::suspension_written(const Status& status) {
  if (status.ok()) return suspend();
  log("the job keeps its devices: " + status.error().message);
  suspension_failed_ = suspending_ == JobState::kQueued;
  if (suspension_failed_) {
    save_again_at_ = now_ + kSaveAgainAfter;
    tell_kept(status.error().message);
  }
  suspending_.reset();
  answer_pauses(status);
  begin_round();
}

// Tells the cluster scheduler, if the reason has changed.
void IntraJobCore::tell_kept(const std::string& reason) {
  if (kept_ == reason) return;
  kept_ = reason;
  effects_.push_back(DevicesKept{reason});
}

void IntraJobCore::suspend() {
  saved_.forget();
  tell_kept("");
  show_state(*std::exchange(suspending_, std::nullopt));
  if (paused() && scale_request_) answer_scale({});  // the new placement applies after the pause
  release_everybody();
}

// The record is saved first. From then on a restarted head expects nothing of these processes, so
// they may be released.
void IntraJobCore::release_everybody() {
  phase_ = Phase::kIdle;
  members_.clear();
  placement_ = {};
  waits_for_stage_ = false;
  progress_ = restart_point().second;
  if (staged()) stage_ = schedule_.stage_at(progress_);
  record_.known.clear();
  effects_.push_back(SaveRecord{record_});
  for (auto& [incarnation, worker] : fleet_.workers()) {
    if (worker.phase == Worker::Phase::kStarting) {
      kill(worker);
    } else if (worker.phase != Worker::Phase::kLeaving) {
      release(worker);
    }
  }
}

void IntraJobCore::answer_pauses(const Status& status) {
  for (const std::uint64_t request : std::exchange(pause_requests_, {})) {
    effects_.push_back(CommandDone{request, status});
  }
}

std::string IntraJobCore::waiting_for() const {
  if (phase_ == Phase::kEnding) return {};
  if (paused()) return resume_refusal_;
  if (phase_ == Phase::kIdle || all_reported())
    if (std::string state = state_text(go_on()); !state.empty()) return state;
  const Wanted wanted = wanted_at(next_version());
  const DeviceSet have = fleet_.allocated_set();
  if (wanted && !have.contains(*wanted)) {
    return "devices " + wanted->text() + ", has " + (have.empty() ? "none" : have.text());
  }
  if (phase_ != Phase::kIdle) return {};
  if (!have.empty()) return "its worker processes to start";
  return "at least " + std::to_string(std::max(config_.spec.resources.min_devices, 1U)) +
         " free devices" + (record_.bound_type ? " of type " + record_.bound_type->name : "");
}

}  // namespace es::actors::intra_job
