// IntraJobCore: audits. Who computes wrongly is taken out, and nothing that it may have touched
// stays.
#include <algorithm>

#include "actors/intra_job/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

// From here on the members' devices contribute; what they do from now on is not proven yet.
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

// Who computed the rank right has computed right until now: what is found later began later.
void IntraJobCore::pass_audit(const Audited& message) {
  const auto plan = plan_audit(message.step, config_.spec.audit.every_steps, members_);
  for (const Incarnation incarnation : {plan->owner, plan->auditor})
    trusted_through_[fleet_.find(incarnation)->device] = message.step + 1;
  for (const Incarnation incarnation : fleet_.placed())
    send(*fleet_.find(incarnation), AuditPassed{stamp(), message.step});
}

// No member has committed the step, so version `step` is the newest there is.
void IntraJobCore::condemn(const Verdict& verdict, Version step) {
  Version good = step;
  for (const Incarnation incarnation : verdict.guilty) {
    const DeviceId device = fleet_.find(incarnation)->device;
    std::string why = "job " + config_.spec.name + ", step " + std::to_string(step) +
                      ": a gradient that was computed again was different";
    if (!verdict.decided) why += ", and nobody could say which of two devices is wrong";
    log("audit: " + device.text() + " computes wrongly and is not used any more: " + why);
    good = std::min(good, trusted_through_.at(device));
    fleet_.distrust(device);
    effects_.push_back(DeviceSuspected{device, std::move(why)});
  }
  if (good < step) return go_back_to(good);
  for (const Incarnation incarnation : verdict.guilty)
    evict(*fleet_.find(incarnation), "is taken out by an audit");
}

// Versions after `good` may be spoiled, and every worker holds one of them: all end, and the job
// begins again from the newest checkpoint that is not younger.
void IntraJobCore::go_back_to(Version good) {
  while (record_.checkpoint && record_.checkpoint->version > good)
    drop_checkpoint(record_, std::string(record_.checkpoint->path));
  periodic_ = PeriodicCheckpoints(config_.spec.checkpoint, config_.last_version, record_);
  const Version restart = restart_point().second;
  log("audit: versions after " + std::to_string(good) + " may be spoiled; going back to version " +
      std::to_string(restart));
  drop_written_checkpoints("an audit has found that it may be spoiled");
  ledger_.rewind(restart);
  evaluations_.erase(evaluations_.upper_bound(restart), evaluations_.end());
  for (const Incarnation incarnation : fleet_.in_phase(Worker::Phase::kKnown))
    kill(*fleet_.find(incarnation));
  begin_round();
  // After the record, which names none of these workers any more: a head that dies in between finds
  // lines that the job cannot repeat, and says so.
  effects_.push_back(LedgerRewound{restart});
}

}  // namespace es::actors::intra_job
