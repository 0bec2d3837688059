// JobCore: the way back after an audit. A device that computes wrongly is taken out, and nothing
// that it may have spoiled stays.
#include "actors/head/intra_job/core/job_core.h"

namespace es::actors::intra_job {

void JobCore::condemn(const Verdict& verdict, Version step) {
  const Version good = audits_.condemn(verdict, step);
  // If good is the audited step itself, the guilty devices have spoiled no version: it is enough to
  // continue without them.
  if (good < step) return go_back_to(good);
  for (const Incarnation incarnation : verdict.guilty)
    evict(*context_.fleet.find(incarnation),
          {.why = "is taken out by an audit", .pause = PauseCause::kAudit});
}

// Versions after `good` may be spoiled, and every worker holds one of them. All workers end, and
// the job begins again from the newest saved state that is not newer than `good`.
void JobCore::go_back_to(Version good) {
  checkpoints_.give_up_unfinished(good);
  const std::vector<CheckpointRef> void_ones = checkpoints_.give_up_newer(good);
  const Version restart = restart_.version();
  context_.warn("audit: versions after " + std::to_string(good) +
                " may be spoiled; the job goes back to version " + std::to_string(restart));
  checkpoints_.drop_written("an audit has found that it may be spoiled");
  progress_.forget_after(restart);
  checkpoints_.restart_series();
  // The record is saved first, with `rewinding` set: a head that restarts from here must not use
  // any of the spoiled versions.
  context_.record.rewinding = restart;
  context_.record.known.clear();
  context_.emit(SaveRecord{context_.record});
  // Workers that are leaving may still report a checkpoint, which must not count, so they are
  // killed too.
  for (const auto phase : {Worker::Phase::kLeaving, Worker::Phase::kKnown})
    for (const Incarnation incarnation : context_.fleet.in_phase(phase))
      if (Worker& worker = *context_.fleet.find(incarnation); !worker.killed) fleet_.kill(worker);
  finish_rewinding();
  rounds_.begin(PauseCause::kAudit);
  checkpoints_.keep_suspensions();
  checkpoints_.remove_from_nodes(void_ones);
}

// A head that dies before the second record is durable repeats this. It is safe, because nothing is
// added to the ledger before.
void JobCore::finish_rewinding() {
  context_.emit(LedgerRewound{*context_.record.rewinding});
  context_.record.rewinding.reset();
  context_.save();
}

}  // namespace es::actors::intra_job
