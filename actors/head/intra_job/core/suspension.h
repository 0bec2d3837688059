#pragma once
// Suspension lets a job give up all its devices and continue later, through a checkpoint. Either a
// user pauses it until it is resumed, or its last devices are about to end and it is queued until
// it is given others.
//
// The members drain, so that nothing is computed that the checkpoint does not contain. One of them
// writes it. After the head has journaled it, all processes end and the devices go back. Until then
// the job can continue at any moment, so a checkpoint that cannot be written costs nothing. A job
// that fails, or may fail soon, is saved in the same way.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/head/intra_job/core/checkpoints.h"
#include "actors/head/intra_job/core/device_demand.h"
#include "actors/head/intra_job/core/job_context.h"
#include "actors/head/intra_job/core/rounds.h"

namespace es::actors::intra_job {

// A job that must give up all its devices and could not be saved tries again after this time.
inline constexpr Instant kSaveAgainAfter = std::chrono::seconds(30);

class Suspension {
 public:
  Suspension(JobContext& context, RestartPoint& restart, DeviceDemand& demand,
             Checkpoints& checkpoints, Rounds& rounds)
      : context_(context),
        restart_(restart),
        demand_(demand),
        checkpoints_(checkpoints),
        rounds_(rounds) {}

  void pause(const PauseCommand& command);
  void resume(const ResumeCommand& command, const std::string& waiting_for);
  // The time limit of the job is used up: it is saved, and does not continue.
  void time_out();
  // The job is saved and goes on, because it may lose the workers that hold its state.
  void save();
  // The job is saved and fails.
  void fail(std::string why);
  // Why it fails when it may end; empty: its time limit is used up.
  const std::string& failure() const { return failure_; }
  // Whether more than its budget would be spent. If so it is saved, and paused until it is given
  // more. It goes on if it is given more before it is saved.
  void keep_within_budget(bool used_up);
  // Whether it was saved after time_out() or fail(), or cannot be saved. REQUIRES of the owner:
  // ends the job.
  bool may_end() const { return may_end_; }
  // The cluster scheduler has given or called back devices.
  void take(const Allocation& allocation);
  // The devices that a resumed job wants are not available any more. The job stays paused until a
  // user decides.
  void refuse_resume(const std::string& why);
  // Returns whether the job was resumed and not given any device since.
  bool is_resuming() const { return resumed_; }
  // Why the job is still paused after `resume`; empty: it was not refused.
  const std::string& resume_refusal() const { return resume_refusal_; }

  // Returns whether the job is about to give up its devices.
  bool is_active() const { return becomes_.has_value(); }
  // Draws the consequences of a new state. REQUIRES: the job is not ending, paused or cancelled.
  void consider();
  // The checkpoint was written, or could not be.
  void written(const Status& status);
  // Tries again after a failure, if it is time.
  void tick();
  // The earliest time at which tick() or consider() may have something to do; nullopt: none.
  std::optional<Instant> next_limit() const;

  void answer_pauses(const Status& status);
  // The job ends: it gives its devices up anyway.
  void drop() { becomes_.reset(); }
  // Tells the cluster scheduler why the job keeps devices that were called back, if the reason has
  // changed; empty: it keeps none.
  void report_kept(const std::string& reason);

 private:
  bool must_suspend() const;
  // Until then members whose devices are about to end wait for processes that take over.
  Instant hand_over_until() const;
  void suspend();
  void stay();

  JobContext& context_;
  RestartPoint& restart_;
  DeviceDemand& demand_;
  Checkpoints& checkpoints_;
  Rounds& rounds_;
  std::vector<std::uint64_t> pause_requests_;
  // The state that the job takes after its checkpoint is written: paused, queued until it is given
  // devices, timed out, failed, or running again.
  std::optional<JobState> becomes_;
  std::string failure_;
  bool over_budget_ = false;  // it is to be paused because its budget is used up
  bool may_end_ = false;
  Instant urgent_since_{};                // when JobContext::urgent began
  bool failed_ = false;                   // saving the job failed since the last allocation
  std::optional<Instant> save_again_at_;  // when to try again after such a failure
  std::string kept_;                      // the reason last reported by report_kept()
  bool resumed_ = false;
  std::string resume_refusal_;
};

}  // namespace es::actors::intra_job
