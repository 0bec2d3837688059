#pragma once
// Lifecycle ends a job: it is finished, failed, cancelled or timed out.
//
// A job is cancelled at once, unless a checkpoint was requested at its end. Then the members drain,
// so that nothing is computed that the checkpoint does not contain, and one of them writes it. The
// job ends when it is written or has failed.
//
// Invariant: the outcome is durable before any worker is released, because a restarted head must
// not continue the job.
#include <cstdint>
#include <string>
#include <vector>

#include "actors/head/intra_job/core/rounds.h"
#include "actors/head/intra_job/core/suspension.h"

namespace es::actors::intra_job {

class Lifecycle {
 public:
  Lifecycle(RoundParts parts, Rounds& rounds, Suspension& suspension)
      : parts_(parts), context_(parts.context), rounds_(rounds), suspension_(suspension) {}

  void cancel(const CancelCommand& command);
  // Returns whether the job is cancelled and does not end yet.
  bool is_stopping() const { return !cancel_requests_.empty() && !context_.is_ending(); }
  // Draws the consequences of a cancellation, if there is one.
  void consider_stop();
  // Ends the job if its last version is computed, evaluated and saved.
  void finish_if_done();
  // Ends the job. Does nothing if it ends already. `error`: why it failed.
  void end(JobState state, std::string error);
  void fail(std::string error) { end(JobState::kFailed, std::move(error)); }
  // Reports the end when every process was reaped and every device released.
  void report_end();

 private:
  void refuse_open_commands();
  void report_kept_state();

  RoundParts parts_;
  JobContext& context_;
  Rounds& rounds_;
  Suspension& suspension_;
  std::vector<std::uint64_t> cancel_requests_;
  bool reported_ = false;
};

}  // namespace es::actors::intra_job
