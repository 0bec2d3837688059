#pragma once
// DecidedSteps lets members update a step whose version was evaluated (protocol::Decided), after
// the evaluation is stored and, if the version is the best one up to now, after its checkpoint is
// kept. The members hold exactly this version until then, so the checkpoint can still be written
// after any loss.
#include "actors/head/intra_job/core/checkpoints.h"
#include "actors/head/intra_job/core/job_context.h"
#include "actors/head/intra_job/core/run_progress.h"

namespace es::actors::intra_job {

class DecidedSteps {
 public:
  DecidedSteps(JobContext& context, const RunProgress& progress, Checkpoints& checkpoints)
      : context_(context), progress_(progress), checkpoints_(checkpoints) {}

  // Sends what the members of the present placement may know and were not told. `target` is the
  // version with which they began.
  void release(Version target);

 private:
  JobContext& context_;
  const RunProgress& progress_;
  Checkpoints& checkpoints_;
  Generation generation_;  // of the members that were told
  Version next_ = 0;       // evaluations before this version were sent to them, or are not needed
};

}  // namespace es::actors::intra_job
