#include "actors/companion/companion_actor.h"

#include <caf/all.hpp>

#include <iostream>

#include "actors/common/wire_devices.h"
#include "scheduler/proposal.h"

namespace es::actors {
namespace {

void warn_if_failed(const Status& status) {
  if (!status.ok()) std::cerr << "companion: " << status.error().message << std::endl;
}

std::vector<store::PlanRecord> records_of(const std::vector<scheduler::RankedPlan>& plans) {
  std::vector<store::PlanRecord> records;
  for (const scheduler::RankedPlan& plan : plans) {
    store::PlanRecord record;
    for (const scheduler::PlanPart& part : plan.plan.parts)
      record.parts.push_back({part.type, part.devices, part.ests_per_device});
    record.waste = plan.estimate.waste;
    record.throughput_local_steps_per_s = plan.estimate.throughput;
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

double assumed_capability(const DeviceType& type) {
  if (type.name == "cpu-scalar") return 1;
  if (type.name == "cpu-avx2") return 12;
  if (type.name == "cpu-avx512") return 20;
  return 20;
}

void CompanionState::init(CompanionOptions options, std::shared_ptr<HeadStore> store) {
  options_ = std::move(options);
  store_ = std::move(store);
  const auto history = store_->plans().load_capabilities(options_.model_key, options_.batch_size);
  if (!history) return warn_if_failed(history.error());
  for (const store::CapabilityRecord& record : *history)
    known_[record.type] = {record.local_steps_per_s, record.measurements};
}

scheduler::PlanQuery CompanionState::query_for(const DeviceSet& available,
                                               const DeviceSet& addable) const {
  scheduler::PlanQuery query;
  query.max_p = options_.max_p;
  query.available = available;
  query.max_devices = options_.max_devices;
  query.mix_types = options_.mix_types;
  for (const DeviceSet* set : {&available, &addable})
    for (const DeviceCount& count : set->counts) {
      const auto at = known_.find(count.type);
      query.capabilities[count.type] =
          at == known_.end() ? assumed_capability(count.type) : at->second.steps_per_second;
    }
  return query;
}

void CompanionState::remember_plans(const DeviceSet& everything) {
  if (!plans_stale_ && everything == planned_for_) return;
  plans_stale_ = false;
  planned_for_ = everything;
  const auto plans = scheduler::enumerate_plans(query_for(everything, {}));
  warn_if_failed(
      store_->plans().save_plans(options_.model_key, options_.max_p, records_of(plans)));
}

caf::message CompanionState::answer(wire::PlanQuery::Reader query) {
  const DeviceSet held = device_set_from(query.getHeld());
  const DeviceSet addable = device_set_from(query.getAddable());
  DeviceSet everything = held;
  for (const DeviceCount& c : addable.counts) everything.add(c.type, c.count);
  remember_plans(everything);
  const scheduler::PlanQuery plan_query = query_for(held, addable);
  const auto proposals = scheduler::propose(plan_query, addable, kProposalsPerType);
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
      const auto at = known_.find(type);
      capabilities[i++].setMeasured(at != known_.end());
    }
  }));
}

void CompanionState::on_report(wire::CapabilityReport::Reader report) {
  for (const auto r : report.getReports()) {
    Known& known = known_[{r.getDeviceType().cStr()}];
    known.steps_per_second = r.getStepsPerSecond();
    ++known.measurements;
    plans_stale_ = true;
    warn_if_failed(store_->plans().save_capability(
        options_.model_key, options_.batch_size,
        {{r.getDeviceType().cStr()}, known.steps_per_second, known.measurements}));
  }
}

caf::behavior companion_actor(caf::stateful_actor<CompanionState>* self, CompanionOptions options,
                              std::shared_ptr<HeadStore> store) {
  self->state.init(std::move(options), std::move(store));
  return {
      [=](const Msg<wire::PlanQuery>& m) {
        self->send(caf::actor_cast<caf::actor>(self->current_sender()),
                   self->state.answer(*m.view()));
      },
      [=](const Msg<wire::CapabilityReport>& m) { self->state.on_report(*m.view()); },
  };
}

}  // namespace es::actors
