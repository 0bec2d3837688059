#include "actors/companion/shell/companion_actor.h"

#include <caf/all.hpp>

#include <algorithm>
#include <bit>

#include "actors/log/log.h"
#include "actors/protocol/wire/wire_devices.h"
#include "scheduler/model/capability_watch.h"
#include "scheduler/model/device_sets.h"
#include "scheduler/plans/proposal.h"

namespace es::actors {
namespace {

void warn_if_failed(const Status& status) {
  if (!status.ok()) log::warning("companion: " + status.error().message);
}

store::PlanRecord record_of(const scheduler::RankedPlan& plan) {
  store::PlanRecord record;
  for (const scheduler::PlanPart& part : plan.plan.parts)
    record.parts.push_back({part.type, part.devices, part.ests_per_device});
  record.waste = plan.estimate.waste;
  record.throughput_local_steps_per_s = plan.estimate.throughput;
  return record;
}

scheduler::RankedPlan plan_of(const store::PlanRecord& record, const scheduler::PlanQuery& query) {
  scheduler::RankedPlan plan;
  for (const store::PlanPart& part : record.parts)
    plan.plan.parts.push_back({part.type, part.devices, part.ests});
  plan.estimate = scheduler::estimate(plan.plan, query.capabilities, query.max_p);
  return plan;
}

// Everything on which a list of plans depends, except the key under which it is saved.
std::string inputs_of(const scheduler::PlanQuery& query) {
  std::string text = query.available.text() + (query.mix_types ? " mixed" : " apart") +
                     " at most " + std::to_string(query.max_devices);
  for (const auto& [type, capability] : query.capabilities)
    text += " " + type.name + "=" + std::to_string(std::bit_cast<std::uint64_t>(capability));
  return text;
}

void put(wire::PlanInfo::Builder b, const scheduler::RankedPlan& plan) {
  auto parts = b.initParts(plan.plan.parts.size());
  for (unsigned i = 0; i < parts.size(); ++i) {
    parts[i].setDeviceType(plan.plan.parts[i].type.name);
    parts[i].setDevices(plan.plan.parts[i].devices);
    parts[i].setEstsPerDevice(plan.plan.parts[i].ests_per_device);
  }
  b.setSecondsPerStep(plan.estimate.f_seconds_per_step);
  b.setThroughput(plan.estimate.throughput);
  b.setWaste(plan.estimate.waste);
}

}  // namespace

double assumed_capability(const DeviceType& type) {
  if (type.name == "cpu-scalar") return 1;
  if (type.name == "cpu-avx2") return 12;
  if (type.name == "cpu-avx512") return 20;
  if (type.name.starts_with("cuda-sm")) return 1000;
  return 1;
}

void CompanionState::init(CompanionOptions options, std::shared_ptr<HeadStore> store) {
  options_ = std::move(options);
  store_ = std::move(store);
  learn_history();
}

// Loads the speeds of types that this job has not measured itself. A similar job that runs at the
// same time may have measured them since.
void CompanionState::learn_history() {
  const auto history = store_->plans().load_capabilities(options_.model_key, options_.batch_size);
  if (!history) return warn_if_failed(history.error());
  for (const store::CapabilityRecord& record : *history)
    known_.try_emplace(record.type, Known{record.local_steps_per_s, record.measurements});
}

scheduler::Capabilities CompanionState::capabilities_of(const DeviceSet& devices) {
  const auto is_known = [this](const DeviceCount& c) { return known_.contains(c.type); };
  if (!std::ranges::all_of(devices.counts, is_known)) learn_history();
  std::vector<double> ratios;
  for (const auto& [type, known] : known_)
    ratios.push_back(known.steps_per_second / assumed_capability(type));
  std::sort(ratios.begin(), ratios.end());
  const double scale = ratios.empty() ? 1 : ratios[(ratios.size() - 1) / 2];
  scheduler::Capabilities capabilities;
  for (const DeviceCount& c : devices.counts) {
    const auto at = known_.find(c.type);
    capabilities[c.type] =
        at == known_.end() ? scale * assumed_capability(c.type) : at->second.steps_per_second;
  }
  return capabilities;
}

scheduler::PlanQuery CompanionState::query_for(const DeviceSet& available,
                                               const DeviceSet& addable) {
  scheduler::PlanQuery query;
  query.max_p = options_.max_p;
  query.available = available;
  query.max_devices = options_.max_devices;
  query.mix_types = options_.mix_types;
  query.capabilities = capabilities_of(scheduler::sum(available, addable));
  return query;
}

caf::message CompanionState::answer(wire::PlanQuery::Reader query) {
  const DeviceSet addable = device_set_from(query.getAddable());
  const scheduler::PlanQuery plan_query = query_for(device_set_from(query.getHeld()), addable);
  // Without any measurement it is not known how long a step is compared with a pause.
  const double pause = known_.empty() ? 0 : query.getRescaleSeconds();
  const auto proposals =
      scheduler::propose(plan_query, addable,
                         {.per_type = kProposalsPerType,
                          .pause = scheduler::Seconds(pause),
                          .steps_left = static_cast<double>(query.getStepsLeft())});
  return caf::make_message(Msg<wire::PlanAnswer>::build({}, [&](wire::PlanAnswer::Builder b) {
    auto list = b.initProposals(proposals.size());
    for (std::size_t i = 0; i < proposals.size(); ++i) {
      list[i].setDeviceType(proposals[i].type.name);
      list[i].setCount(proposals[i].count);
      list[i].setSpeedup(proposals[i].speedup);
    }
    auto capabilities = b.initCapabilities(plan_query.capabilities.size());
    unsigned i = 0;
    for (const auto& [type, steps_per_second] : plan_query.capabilities) {
      capabilities[i].setDeviceType(type.name);
      capabilities[i].setStepsPerSecond(steps_per_second);
      capabilities[i++].setMeasured(known_.contains(type));
    }
  }));
}

// Returns the stored list if it was made from the same inputs, otherwise computes and stores it.
scheduler::PlanList CompanionState::plans_for(const scheduler::PlanQuery& query) {
  const std::string inputs = inputs_of(query);
  const auto stored = store_->plans().load_plans(options_.model_key, options_.max_p);
  scheduler::PlanList list;
  if (stored && stored->has_value() && (*stored)->inputs == inputs) {
    list.complete = (*stored)->complete;
    for (const store::PlanRecord& plan : (*stored)->plans)
      list.plans.push_back(plan_of(plan, query));
    return list;
  }
  list = scheduler::list_plans(query);
  store::PlanListRecord record{inputs, list.complete, {}};
  for (const scheduler::RankedPlan& plan : list.plans) record.plans.push_back(record_of(plan));
  warn_if_failed(store_->plans().save_plans(options_.model_key, options_.max_p, record));
  return list;
}

caf::message CompanionState::list(wire::PlanListQuery::Reader query, std::uint64_t request) {
  const scheduler::PlanQuery plan_query = query_for(device_set_from(query.getAvailable()), {});
  const scheduler::PlanList list = plans_for(plan_query);
  const auto fill = [&](wire::PlanList::Builder b) {
    b.setComplete(list.complete);
    auto plans = b.initPlans(list.plans.size());
    for (unsigned i = 0; i < plans.size(); ++i) put(plans[i], list.plans[i]);
    auto speeds = b.initSpeeds(plan_query.capabilities.size());
    unsigned i = 0;
    for (const auto& [type, steps_per_second] : plan_query.capabilities) {
      speeds[i].setDeviceType(type.name);
      speeds[i].setStepsPerSecond(steps_per_second);
      speeds[i++].setMeasured(known_.contains(type));
    }
  };
  return caf::make_message(Msg<wire::PlanList>::build({.request = request}, fill));
}

void CompanionState::on_report(wire::CapabilityReport::Reader report) {
  for (const auto r : report.getReports()) {
    const DeviceType type{r.getDeviceType().cStr()};
    Known& known = known_[type];
    if (known.measurements > 0 &&
        !scheduler::capability_differs(known.steps_per_second, r.getStepsPerSecond()))
      continue;
    known.steps_per_second = r.getStepsPerSecond();
    ++known.measurements;
    unsaved_.insert(type);
  }
  save_speeds();
}

// A speed that could not be written is written with the next report.
void CompanionState::save_speeds() {
  while (!unsaved_.empty()) {
    const DeviceType type = *unsaved_.begin();
    const Known& known = known_.at(type);
    const Status saved =
        store_->plans().save_capability(options_.model_key, options_.batch_size,
                                        {type, known.steps_per_second, known.measurements});
    if (!saved.ok()) return warn_if_failed(saved);
    unsaved_.erase(type);
  }
}

caf::behavior companion_actor(caf::stateful_actor<CompanionState>* self, CompanionOptions options,
                              std::shared_ptr<HeadStore> store) {
  self->state.init(std::move(options), std::move(store));
  // The end of the job sends an exit message with the reason `normal`, which CAF actors ignore
  // unless they have a handler.
  self->set_exit_handler([=](caf::exit_msg& exit) { self->quit(std::move(exit.reason)); });
  return {
      [=](const Msg<wire::PlanQuery>& m) {
        self->send(caf::actor_cast<caf::actor>(self->current_sender()),
                   self->state.answer(*m.view()));
      },
      [=](const Msg<wire::PlanListQuery>& m) {
        self->send(caf::actor_cast<caf::actor>(self->current_sender()),
                   self->state.list(*m.view(), m.head().request));
      },
      [=](const Msg<wire::CapabilityReport>& m) { self->state.on_report(*m.view()); },
  };
}

}  // namespace es::actors
