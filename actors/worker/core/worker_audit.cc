// WorkerCore: steps that the head has to release. Of an audited step two members compute the local
// step of one rank, and no member commits it before the head has compared their digests. A decided
// step waits for what the evaluation of its version has decided.
#include "actors/base/protocol/core/audit.h"
#include "actors/base/protocol/core/decisions.h"
#include "actors/worker/core/worker_core.h"

namespace es::actors::worker {

using namespace protocol;

void WorkerCore::start_local_steps() {
  steps_started_ = true;
  step_begin_ = now_;
  StartLocalSteps start{.generation = generation_, .step = *version_, .ranks = ranks_};
  const auto plan = plan_audit(*version_, config_.audit_every, install_.members);
  if (plan && plan->owner == config_.self) start.audited = plan->rank;
  effects_.push_back(start);
  if (plan && plan->auditor == config_.self)
    effects_.push_back(RunAudit{generation_, *version_, plan->rank});
  start_asked_audit();
}

// Starts an audit that the head has asked for. The request may arrive before this worker has
// reached the step, and then waits.
void WorkerCore::start_asked_audit() {
  if (!audit_asked_ || audit_asked_->step != version_ || !steps_started_) return;
  effects_.push_back(RunAudit{generation_, audit_asked_->step, audit_asked_->rank});
  audit_asked_.reset();
}

// The comparison is `<`, because audit_passed_ may be a later step: two faster members may have
// committed this step and passed the audit of the next one while this worker still waits for
// buckets of this step. They could commit this step only after its audit had passed.
bool WorkerCore::audit_holds() const {
  return is_audited(*version_, config_.audit_every) &&
         (!audit_passed_ || *audit_passed_ < *version_);
}

// All buckets are staged, but the head has not passed the audit: one of the two computing members
// may hang.
std::set<Incarnation> WorkerCore::awaited_for_audit() const {
  std::set<Incarnation> peers;
  const auto plan = plan_audit(*version_, config_.audit_every, install_.members);
  if (plan && audit_holds()) peers = {plan->owner, plan->auditor};
  peers.erase(config_.self);
  return peers;
}

void WorkerCore::on_audit_request(const Audit& message) {
  if (message.stamp.generation != generation_ || phase_ != Phase::kActive) return;
  audit_asked_ = message;
  start_asked_audit();
}

void WorkerCore::on_audit_passed(const AuditPassed& message) {
  if (message.stamp.generation != generation_ || phase_ != Phase::kActive) return;
  audit_passed_ = message.step;
  advance();
}

// The decision may be the next one: the other members may have reached it while this one waits.
void WorkerCore::on_decided(const Decided& message) {
  const bool relevant = message.stamp.generation == generation_ && phase_ == Phase::kActive &&
                        message.step >= *version_;
  if (!relevant) return;
  decided_[message.step] = message.decisions;
  advance();
}

bool WorkerCore::decision_holds() const {
  return operation_ == Operation::kNone && is_decided(*version_, config_.decided_every) &&
         !decided_.contains(*version_);
}

void WorkerCore::on_audit_done(const AuditDone& event) {
  if (event.generation != generation_ || phase_ != Phase::kActive) return;
  last_progress_ = now_;
  send_head(Audited{stamp(), event.step, event.rank, event.digest});
}

}  // namespace es::actors::worker
