#pragma once
// JobPlans performs what the planner of one job (core/job_planner.h) decides: it asks the
// companion, tells the cluster scheduler what the job wants, and has the job's core change its
// devices.
//
// One owner. The calls may be nested, because an event of the core may lead to another decision.
#include <cstdint>
#include <functional>

#include "actors/head/intra_job/core/job_core.h"
#include "actors/head/intra_job/core/job_planner.h"
#include "actors/head/intra_job/shell/job_archive.h"
#include "actors/head/intra_job/shell/job_clock.h"
#include "actors/head/intra_job/shell/job_log.h"
#include "actors/head/intra_job/shell/job_mail.h"
#include "actors/head/intra_job/shell/ordered_effects.h"

namespace es::actors {

class JobPlans {
 public:
  struct Needs {
    intra_job::JobPlanner& planner;
    const intra_job::JobCore& core;
    const JobClock& clock;
    OrderedEffects& effects;
    JobArchive& archive;
    JobLog& log;
    JobMail& mail;
    std::function<void(const intra_job::Event&)> happens;  // gives the event to the core
  };
  // What `needs` refers to outlives this object.
  explicit JobPlans(Needs needs) : needs_(std::move(needs)) {}

  void report_lost_progress() { act(planner().report_lost_progress(view())); }
  void devices_exist(DeviceSet devices) { planner().devices_exist(std::move(devices)); }
  void ask_for_plans() { act(planner().ask_for_plans(view())); }
  void answered(const protocol::PlanAnswer& answer) { act(planner().on(answer, view())); }
  void allocated(std::uint64_t sequence) { act(planner().allocated(sequence, view())); }
  void step_added() { act(planner().step_added(view())); }
  void state_changed(JobState state) { act(planner().state_changed(state, view())); }
  void measured(const intra_job::StragglerWatch::Measurement& measurement) {
    act(planner().measured(measurement, view()));
  }
  // The job wants exactly these devices, until exact_demand_lifted().
  void demand_exactly(const protocol::Demand& demand);
  void exact_demand_lifted() { act(planner().exact_demand_lifted(view())); }
  // Has the companion list the plans, under this number.
  void list(std::uint64_t number);

  // Refusals that could not be written. They come before the held effects: one of these may give a
  // device back, and the cluster scheduler must not grant it again.
  Status save_waiting_refusals() { return refusals_wait_ ? save_refusals() : Status(); }
  // Tells the cluster scheduler those of an earlier head.
  void tell_journaled_refusals();

 private:
  intra_job::JobPlanner& planner() { return needs_.planner; }
  intra_job::PlannerView view() const;
  void act(const intra_job::PlannerEffects& effects);
  void act_on(const intra_job::LogLine& effect);
  void act_on(const protocol::PlanQuery& effect) { needs_.mail.to_companion(effect); }
  void act_on(const protocol::CapabilityReport& effect) { needs_.mail.to_companion(effect); }
  void act_on(const protocol::Demand& effect) { needs_.mail.to_cluster(effect); }
  void act_on(const intra_job::RefusalsChanged&);
  void act_on(const intra_job::ConsiderChanges&);
  void act_on(const intra_job::GiveBackCommand& effect) { needs_.happens(effect); }
  void act_on(const intra_job::RebalanceCommand& effect) { needs_.happens(effect); }
  Status save_refusals();
  void tell_refusals();

  Needs needs_;
  bool refusals_wait_ = false;
};

}  // namespace es::actors
