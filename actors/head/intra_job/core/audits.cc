#include "actors/head/intra_job/core/audits.h"

#include <algorithm>
#include <utility>

namespace es::actors::intra_job {

using namespace protocol;

Audits::Audits(JobContext& context)
    : context_(context), book_(context.config.spec.audit.every_steps) {
  // The journal does not say which audits these devices have passed, so nothing that they computed
  // is trusted.
  for (const KnownWorker& known : context.record.known)
    trusted_through_[known.device] = context.config.start_version;
}

void Audits::begin(Version target) {
  book_.place(context_.members);
  // A device that joins computes nothing before `target`. One that was a member before keeps the
  // version of its last audit.
  for (const Member& member : context_.members)
    trusted_through_.try_emplace(context_.fleet.find(member.incarnation)->device, target);
}

std::optional<Verdict> Audits::take(const Worker& worker, const Audited& message) {
  switch (book_.add(message, worker.incarnation)) {
    case AuditBook::Next::kWait:
      break;
    case AuditBook::Next::kPassed:
      pass(message);
      break;
    case AuditBook::Next::kAsk:
      context_.warn("audit of step " + std::to_string(message.step) + ", EST " +
                    std::to_string(message.rank) +
                    ": two devices got different gradients; all members compute it again");
      context_.send_to_members(Audit{context_.stamp(), message.step, message.rank});
      break;
    case AuditBook::Next::kJudged:
      return book_.verdict();
  }
  return std::nullopt;
}

// Both devices computed this rank correctly, so an error that is found later began after this step.
void Audits::pass(const Audited& message) {
  const auto plan =
      plan_audit(message.step, context_.config.spec.audit.every_steps, context_.members);
  for (const Incarnation incarnation : {plan->owner, plan->auditor})
    trusted_through_[context_.fleet.find(incarnation)->device] = message.step + 1;
  context_.send_to_members(AuditPassed{context_.stamp(), message.step});
}

Version Audits::condemn(const Verdict& verdict, Version step) {
  Version good = step;
  for (const Incarnation incarnation : verdict.guilty) {
    const DeviceId device = context_.fleet.find(incarnation)->device;
    std::string why = "job " + context_.config.spec.name + ", step " + std::to_string(step) +
                      ": a gradient that was computed again was different";
    if (!verdict.decided) why += ", and it cannot be decided which of the two devices is wrong";
    context_.warn("audit: " + device.text() + " computes wrongly and is not used any more: " + why);
    // The error of the device may be older than the step in which it was found.
    good = std::min(good, trusted_through_.at(device));
    context_.fleet.give_up(device);
    context_.emit(DeviceSuspected{device, std::move(why)});
  }
  return good;
}

}  // namespace es::actors::intra_job
