#pragma once
// EffectPerformer performs the effects of a job's core, each by the part of the shell that it
// concerns. OrderedEffects calls it in the order of the effects.
//
// It owns nothing but the last message to workers in its wire form; what it refers to outlives it.
// One owner.
#include <memory>

#include "actors/head/intra_job/core/job_events.h"
#include "actors/head/intra_job/core/lost_steps.h"
#include "actors/head/intra_job/shell/job_archive.h"
#include "actors/head/intra_job/shell/job_followers.h"
#include "actors/head/intra_job/shell/job_log.h"
#include "actors/head/intra_job/shell/job_mail.h"
#include "actors/head/intra_job/shell/job_nodes.h"
#include "actors/head/intra_job/shell/job_plans.h"
#include "actors/head/intra_job/shell/job_requests.h"
#include "actors/head/intra_job/shell/job_traces.h"
#include "actors/head/intra_job/shell/job_views.h"

namespace es::actors {

class EffectPerformer {
 public:
  struct Parts {
    const intra_job::JobCore& core;
    intra_job::LostSteps& lost_steps;
    JobClock& clock;
    JobLog& log;
    JobMail& mail;
    JobArchive& archive;
    EvaluationViews& evaluations;
    JobViews& views;
    JobFollowers& followers;
    JobRequests& requests;
    JobTraces& traces;
    JobNodes& nodes;
    JobPlans& plans;
  };
  explicit EffectPerformer(const Parts& parts) : parts_(parts) {}

  // Error: the effect was not performed, because the state directory cannot be written, and has to
  // be tried again.
  Status perform(const intra_job::Effect& effect);
  // One message often has several receivers, and its wire form is kept for them. Call when all
  // effects of an event are performed.
  void forget_message() { encoded_ = {}; }

 private:
  Status perform_one(const intra_job::SaveRecord& effect);
  Status perform_one(const intra_job::SendWorker& effect);
  Status perform_one(const intra_job::LedgerRewound& effect);
  Status perform_one(const intra_job::LedgerLineAdded& effect);
  Status perform_one(const intra_job::EvaluationAdded& effect);
  Status perform_one(const intra_job::JobEnded& effect);
  void perform_one(const intra_job::StateChanged& effect);
  void perform_one(const intra_job::LogLine& effect);
  void perform_one(const intra_job::Demand& effect) { parts_.plans.demand_exactly(effect); }
  void perform_one(const intra_job::DemandLifted&) { parts_.plans.exact_demand_lifted(); }
  // All others go to a node, to a client or to the cluster scheduler.
  template <class Other>
  auto perform_one(const Other& effect);
  void tell_loss(const protocol::Install& install);

  Parts parts_;
  struct Encoded {
    std::shared_ptr<const protocol::HeadMessage> message;
    std::shared_ptr<const Frame> frame;
  };
  Encoded encoded_;
};

}  // namespace es::actors
