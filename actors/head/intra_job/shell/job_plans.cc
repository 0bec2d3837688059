#include "actors/head/intra_job/shell/job_plans.h"

#include <variant>

namespace es::actors {

intra_job::PlannerView JobPlans::view() const {
  return intra_job::planner_view_of(needs_.core, needs_.effects.is_stalled(), needs_.clock.now());
}

void JobPlans::act(const intra_job::PlannerEffects& effects) {
  for (const intra_job::PlannerEffect& effect : effects)
    std::visit([this](const auto& e) { act_on(e); }, effect);
}

void JobPlans::act_on(const intra_job::LogLine& effect) {
  needs_.log.write(effect.text, effect.is_warning ? log::Level::kWarning : log::Level::kInfo);
}

void JobPlans::act_on(const intra_job::RefusalsChanged&) {
  // Refusals do not go through the core, so they are saved here and not in the list of held
  // effects.
  const Status saved = save_refusals();
  if (saved.ok()) return;
  refusals_wait_ = true;
  needs_.effects.stall(saved.error());
}

void JobPlans::act_on(const intra_job::ConsiderChanges&) {
  // Each call needs a view of its own, because the one before may have changed the job.
  act(planner().fall_back(view()));
  act(planner().release_unused(view()));
  act(planner().rebalance(view()));
}

void JobPlans::demand_exactly(const protocol::Demand& demand) {
  planner().exact_demand();
  needs_.mail.to_cluster(demand);
}

void JobPlans::list(std::uint64_t number) {
  needs_.mail.list_plans(planner().list_query(view()), number);
}

Status JobPlans::save_refusals() {
  ES_RETURN_IF_ERROR(needs_.archive.save_refusals(planner().refusals()));
  refusals_wait_ = false;
  tell_refusals();
  return {};
}

void JobPlans::tell_refusals() {
  needs_.mail.to_cluster(protocol::JobRefusals{planner().refusals()});
}

void JobPlans::tell_journaled_refusals() {
  if (!planner().refusals().empty()) tell_refusals();
}

}  // namespace es::actors
