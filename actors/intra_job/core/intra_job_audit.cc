// IntraJobCore: audits. A device that computes wrongly is taken out, and nothing that it may have
// spoiled stays.
#include <algorithm>

#include "actors/intra_job/core/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

// The devices of the members contribute from here on; their later results are not verified yet.
void IntraJobCore::begin_audits() {
  audits_.place(members_);
  for (const Member& member : members_)
    trusted_through_.try_emplace(fleet_.find(member.incarnation)->device, target_);
}

void IntraJobCore::handle(Worker& worker, const Audited& message) {
  if (phase_ != Phase::kNormal && phase_ != Phase::kDraining) return;
  if (!worker.placed) return;
  switch (audits_.add(message, worker.incarnation)) {
    case AuditBook::Next::kWait:
      break;
    case AuditBook::Next::kPassed:
      pass_audit(message);
      break;
    case AuditBook::Next::kAsk:
      log("audit of step " + std::to_string(message.step) + ", EST " +
          std::to_string(message.rank) +
          ": two devices got different gradients; all members compute it once more");
      for (const Incarnation incarnation : fleet_.placed())
        send(*fleet_.find(incarnation), Audit{stamp(), message.step, message.rank});
      break;
    case AuditBook::Next::kJudged:
      condemn(audits_.verdict(), message.step);
      break;
  }
}

// Both devices computed this rank correctly, so an error that is found later began after this step.
void IntraJobCore::pass_audit(const Audited& message) {
  const auto plan = plan_audit(message.step, config_.spec.audit.every_steps, members_);
  for (const Incarnation incarnation : {plan->owner, plan->auditor})
    trusted_through_[fleet_.find(incarnation)->device] = message.step + 1;
  for (const Incarnation incarnation : fleet_.placed())
    send(*fleet_.find(incarnation), AuditPassed{stamp(), message.step});
}

// No member has committed the audited step, so `step` is the newest version.
void IntraJobCore::condemn(const Verdict& verdict, Version step) {
  Version good = step;
  for (const Incarnation incarnation : verdict.guilty) {
    const DeviceId device = fleet_.find(incarnation)->device;
    std::string why = "job " + config_.spec.name + ", step " + std::to_string(step) +
                      ": a gradient that was computed again was different";
    if (!verdict.decided) why += ", and nobody could say which of two devices is wrong";
    log("audit: " + device.text() + " computes wrongly and is not used any more: " + why);
    good = std::min(good, trusted_through_.at(device));
    fleet_.give_up(device);
    effects_.push_back(DeviceSuspected{device, std::move(why)});
  }
  if (good < step) return go_back_to(good);
  for (const Incarnation incarnation : verdict.guilty)
    evict(*fleet_.find(incarnation), "is taken out by an audit");
}

// Versions after `good` may be spoiled, and every worker holds one of them. All workers end, and
// the job begins again from the newest saved state that is not newer than `good`.
void IntraJobCore::go_back_to(Version good) {
  give_up_unfinished(good);
  const std::vector<CheckpointRef> void_ones = give_up_newer(good);
  periodic_ = PeriodicCheckpoints(config_.spec.checkpoint, config_.last_version, record_);
  const Version restart = restart_point().second;
  log("audit: versions after " + std::to_string(good) + " may be spoiled; going back to version " +
      std::to_string(restart));
  drop_written_checkpoints("an audit has found that it may be spoiled");
  forget_after(restart);
  // The record is saved first, with `rewinding` set: a head that restarts from here must not use
  // any of the spoiled versions.
  record_.rewinding = restart;
  record_.known.clear();
  effects_.push_back(SaveRecord{record_});
  // Workers that are leaving may still report a checkpoint, which must not count, so they are
  // killed too.
  for (const auto phase : {Worker::Phase::kLeaving, Worker::Phase::kKnown})
    for (const Incarnation incarnation : fleet_.in_phase(phase))
      if (Worker& worker = *fleet_.find(incarnation); !worker.killed) kill(worker);
  finish_rewinding();
  begin_round();
  keep_suspensions();
  remove_from_nodes(void_ones);
}

void IntraJobCore::forget_after(Version version) {
  ledger_.rewind(version);
  evaluations_.erase(evaluations_.upper_bound(version), evaluations_.end());
}

// The checkpoint of the series that was requested from a worker may be on the disk already.
void IntraJobCore::give_up_unfinished(Version good) {
  const std::optional<PeriodicRequest>& pending = periodic_.pending();
  if (!pending) return;
  CheckpointRef ref{config_.checkpoint_directory + "/step-" + std::to_string(pending->at),
                    pending->at, true};
  if (!members_.empty()) ref.nodes = {fleet_.find(members_.front().incarnation)->device.node};
  for (const auto& [message, node] : written_)
    if (message.request == pending->number)
      ref = {message.path, message.version, true, {node}, message.digests};
  if (ref.version > good && ref.version <= ledger_.through()) record_.spoiled.push_back(ref);
}

// Forgets the checkpoints that may be spoiled. Those of the job's own series are removed by the
// nodes that wrote them or by the next writer. Those of clients stay.
std::vector<CheckpointRef> IntraJobCore::give_up_newer(Version good) {
  std::vector<CheckpointRef> void_ones;
  for (const CheckpointRef& ref : drop_newer(record_, good)) {
    if (ref.periodic) {
      void_ones.push_back(ref);
      record_.spoiled.push_back(ref);
    } else if (!is_suspension(ref, config_.suspend_prefix)) {
      log("warning: checkpoint " + ref.path + " of version " + std::to_string(ref.version) +
          " may be spoiled, and stays where it is");
    }
  }
  return void_ones;
}

// A head that dies before the second record is durable repeats this. It is safe, because nothing is
// added to the ledger before.
void IntraJobCore::finish_rewinding() {
  effects_.push_back(LedgerRewound{*record_.rewinding});
  record_.rewinding.reset();
  save();
}

}  // namespace es::actors::intra_job
