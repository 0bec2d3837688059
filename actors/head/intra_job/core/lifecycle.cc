#include "actors/head/intra_job/core/lifecycle.h"

#include <algorithm>
#include <utility>

namespace es::actors::intra_job {

void Lifecycle::cancel(const CancelCommand& command) {
  if (context_.is_ending()) return context_.answer(command.request, refused("the job has ended"));
  cancel_requests_.push_back(command.request);
  consider_stop();
}

// In phase Idle no worker holds anything newer than the restart point. At the last version the job
// ends by itself, with its checkpoint.
void Lifecycle::consider_stop() {
  if (!is_stopping()) return;
  if (!parts_.checkpoints.has_at_end() || context_.phase == Phase::kIdle)
    return end(JobState::kCancelled, "");
  const bool ends = rounds_.ends_at(parts_.restart.next_version());
  if (context_.phase != Phase::kNormal || ends) return;
  if (!rounds_.all_stopped()) return rounds_.stop();
  // Version 0 means that the writer takes the version at which it stands.
  if (parts_.checkpoints.move_at_end(0)) parts_.checkpoints.ask();
}

void Lifecycle::finish_if_done() {
  const Version last = context_.last_version;
  if (!context_.has_members_at_work() || parts_.progress.through() != last) return;
  if (!parts_.checkpoints.has_no_open_request() || !parts_.progress.has_evaluated(last)) return;
  // The ledger compares the report of each member. The job waits for all of them, so that a member
  // with other bits in the last step fails the job.
  const bool all_there = std::ranges::all_of(context_.fleet.placed(), [&](Incarnation worker) {
    return context_.fleet.find(worker)->version == last;
  });
  if (!all_there) return;
  const Status saved = parts_.checkpoints.check_result_saved();
  saved.ok() ? end(JobState::kFinished, {}) : fail(saved.error().message);
}

void Lifecycle::end(JobState state, std::string error) {
  if (context_.is_ending()) return;
  context_.phase = Phase::kEnding;
  parts_.progress.pause();
  JobRecord& record = context_.record;
  record.error = std::move(error);
  if (!record.error.empty()) context_.log(record.error);
  refuse_open_commands();
  context_.show_state(state);
  suspension_.report_kept("");
  // This reads the record, so it comes before drop_suspensions().
  parts_.checkpoints.report_remaining_suspensions();
  if (state == JobState::kFailed || state == JobState::kTimedOut) {
    report_kept_state();
  } else {
    drop_suspensions(record, context_.config.suspend_prefix, "");
  }
  context_.save();
  parts_.fleet.end_all();
}

void Lifecycle::refuse_open_commands() {
  const std::string why = "the job has ended";
  suspension_.drop();
  parts_.checkpoints.refuse_all(why);
  if (parts_.demand.has_open_scale()) parts_.demand.answer_scale(refused(why));
  suspension_.answer_pauses(refused(why));
}

// The saved state of such a job may be all that is left of days of work, so the log names it.
void Lifecycle::report_kept_state() {
  const CheckpointRef* kept = context_.record.newest_checkpoint();
  if (kept == nullptr) return;
  context_.log("its newest saved state is kept: version " + std::to_string(kept->version) + ", " +
               kept->path + (kept->nodes.empty() ? "" : " on " + nodes_text(kept->nodes)) +
               "; a job that is submitted with `--from` and this path continues from it");
}

void Lifecycle::report_end() {
  if (!context_.is_ending() || reported_ || !context_.fleet.holds_nothing()) return;
  reported_ = true;
  for (const std::uint64_t request : std::exchange(cancel_requests_, {}))
    context_.answer(request, Status());
  // No worker of this job will write another checkpoint and remove these with it.
  parts_.checkpoints.keep_suspensions();
  parts_.checkpoints.remove_from_nodes(context_.record.spoiled);
  context_.emit(JobEnded{context_.record.state, context_.record.error});
}

}  // namespace es::actors::intra_job
