#include "actors/head/companion/shell/companion_actor.h"

#include <caf/all.hpp>

#include <algorithm>
#include <bit>

#include "actors/base/log/log.h"
#include "actors/base/protocol/wire/job_cluster_codec.h"
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
  // The record does not contain the whole estimate. The inputs are equal, so it is the same as
  // before.
  plan.estimate = scheduler::estimate(plan.plan, query.capabilities, query.max_p, query.sync);
  return plan;
}

// Everything on which a list of plans depends, except the key under which it is saved.
std::string inputs_of(const scheduler::PlanQuery& query) {
  std::string text = query.available.text() + (query.mix_types ? " mixed" : " apart") +
                     " at most " + std::to_string(query.max_devices);
  for (const auto& [type, capability] : query.capabilities)
    // The bits are compared, because a rounded decimal text could be equal for different values.
    text += " " + type.name + "=" + std::to_string(std::bit_cast<std::uint64_t>(capability));
  for (const scheduler::SyncPoint& point : query.sync.points())
    text += " sync " + std::to_string(point.devices) + "=" +
            std::to_string(std::bit_cast<std::uint64_t>(point.seconds));
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

// These are rough local steps per second, until a type is measured. As soon as one type is, only
// their ratios matter, because speeds_of() scales them.
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
}

void CompanionState::load_history() {
  const auto history = store_->plans().load_capabilities(options_.model_key, options_.batch_size);
  if (!history) return warn_if_failed(history.error());
  for (const store::CapabilityRecord& record : *history)
    if (!unsaved_.contains(record.type))
      history_[record.type] = {record.local_steps_per_s, record.measurements};
}

void CompanionState::load_sync() {
  if (sync_unsaved_) return;
  const auto points = store_->plans().load_sync(options_.model_key, options_.batch_size);
  if (!points) return warn_if_failed(points.error());
  for (const store::SyncRecord& point : *points) sync_history_.set({point.devices, point.seconds});
}

scheduler::SyncCurve CompanionState::sync_of(const std::vector<scheduler::SyncPoint>& measured) {
  load_sync();
  scheduler::SyncCurve curve = sync_history_;
  for (const scheduler::SyncPoint& point : measured) curve.set(point);
  return curve;
}

// The speeds that the job has measured, completed from the history or by assumed values.
CompanionState::Speeds CompanionState::speeds_of(
    const DeviceSet& devices, const std::vector<protocol::Capability>& measured) {
  std::map<DeviceType, double> known;
  for (const protocol::Capability& c : measured) known[c.type] = c.steps_per_second;
  load_history();
  for (const auto& [type, stored] : history_) known.try_emplace(type, stored.steps_per_second);
  // `scale` is the factor by which this model is faster or slower than the assumed speeds say. It
  // is the median over the known types, the lower one of two middle values.
  std::vector<double> ratios;
  for (const auto& [type, steps_per_second] : known)
    ratios.push_back(steps_per_second / assumed_capability(type));
  std::sort(ratios.begin(), ratios.end());
  const double scale = ratios.empty() ? 1 : ratios[(ratios.size() - 1) / 2];
  Speeds speeds{{}, !known.empty()};
  for (const DeviceCount& c : devices.counts) {
    const auto at = known.find(c.type);
    const bool is_known = at != known.end();
    speeds.capabilities.push_back(
        {c.type, is_known ? at->second : scale * assumed_capability(c.type), is_known});
  }
  return speeds;
}

scheduler::PlanQuery CompanionState::query_for(const DeviceSet& available, const Speeds& speeds,
                                               const std::vector<scheduler::SyncPoint>& measured) {
  scheduler::PlanQuery query;
  query.max_p = options_.max_p;
  query.available = available;
  query.max_devices = options_.max_devices;
  query.mix_types = options_.mix_types;
  query.sync = sync_of(measured);
  for (const protocol::Capability& c : speeds.capabilities)
    query.capabilities[c.type] = c.steps_per_second;
  return query;
}

protocol::PlanAnswer CompanionState::answer(const protocol::PlanQuery& query) {
  Speeds speeds = speeds_of(scheduler::sum(query.held, query.addable), query.measured);
  // Without any measurement it is not known how long a step is compared with a pause.
  const double pause_seconds = speeds.any_measured ? query.rescale_seconds : 0;
  auto proposals = scheduler::propose(query_for(query.held, speeds, query.sync), query.addable,
                                      {.per_type = kProposalsPerType,
                                       .pause = scheduler::Seconds(pause_seconds),
                                       .steps_left = static_cast<double>(query.steps_left)});
  // The job knows what it has measured itself, and needs only the other types.
  std::erase_if(speeds.capabilities, [&](const protocol::Capability& c) {
    return std::ranges::find(query.measured, c.type, &protocol::Capability::type) !=
           query.measured.end();
  });
  std::vector<scheduler::SyncPoint> sync = sync_history_.points();
  std::erase_if(sync, [&](const scheduler::SyncPoint& point) {
    return std::ranges::find(query.sync, point.devices, &scheduler::SyncPoint::devices) !=
           query.sync.end();
  });
  return {std::move(proposals), std::move(speeds.capabilities), std::move(sync)};
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

Msg<wire::PlanList> CompanionState::list(const protocol::PlanListQuery& query,
                                         std::uint64_t request) {
  const Speeds speeds = speeds_of(query.available, query.measured);
  const scheduler::PlanList list = plans_for(query_for(query.available, speeds, query.sync));
  return Msg<wire::PlanList>::build({.request = request}, [&](wire::PlanList::Builder b) {
    b.setComplete(list.complete);
    auto plans = b.initPlans(list.plans.size());
    for (unsigned i = 0; i < plans.size(); ++i) put(plans[i], list.plans[i]);
    auto types = b.initSpeeds(speeds.capabilities.size());
    for (unsigned i = 0; i < types.size(); ++i) {
      types[i].setDeviceType(speeds.capabilities[i].type.name);
      types[i].setStepsPerSecond(speeds.capabilities[i].steps_per_second);
      types[i].setMeasured(speeds.capabilities[i].measured);
    }
  });
}

protocol::CapabilityReport CompanionState::on_report(const protocol::CapabilityReport& report) {
  protocol::CapabilityReport replaced;
  load_history();
  load_sync();
  for (const protocol::Capability& reported : report.reports) {
    Stored& stored = history_[reported.type];
    // A difference that is too small to change a plan is not worth a write.
    if (stored.measurements > 0 &&
        !scheduler::capability_differs(stored.steps_per_second, reported.steps_per_second))
      continue;
    stored.steps_per_second = reported.steps_per_second;
    ++stored.measurements;
    unsaved_.insert(reported.type);
    replaced.reports.push_back(reported);
  }
  for (const scheduler::SyncPoint& point : report.sync) {
    sync_history_.set(point);
    sync_unsaved_ = true;
  }
  save_history();
  if (sync_unsaved_) save_sync();
  return replaced;
}

void CompanionState::save_sync() {
  std::vector<store::SyncRecord> records;
  for (const scheduler::SyncPoint& point : sync_history_.points())
    records.push_back({point.devices, point.seconds});
  const Status saved = store_->plans().save_sync(options_.model_key, options_.batch_size, records);
  if (!saved.ok()) return warn_if_failed(saved);
  sync_unsaved_ = false;
}

// A speed that could not be written is written with the next report.
void CompanionState::save_history() {
  while (!unsaved_.empty()) {
    const DeviceType type = *unsaved_.begin();
    const Stored& stored = history_.at(type);
    const Status saved =
        store_->plans().save_capability(options_.model_key, options_.batch_size,
                                        {type, stored.steps_per_second, stored.measurements});
    if (!saved.ok()) return warn_if_failed(saved);
    unsaved_.erase(type);
  }
}

caf::behavior companion_actor(caf::stateful_actor<CompanionState>* self, CompanionOptions options,
                              std::shared_ptr<HeadStore> store, caf::actor cluster) {
  self->state.init(std::move(options), std::move(store));
  // The end of the job sends an exit message with the reason `normal`, which CAF actors ignore
  // unless they have a handler.
  self->set_exit_handler([=](caf::exit_msg& exit) { self->quit(std::move(exit.reason)); });
  return {
      [=](const Msg<wire::PlanQuery>& m) {
        self->send(caf::actor_cast<caf::actor>(self->current_sender()),
                   protocol::message_of(self->state.answer(protocol::value_of(*m.view()))));
      },
      [=](const Msg<wire::PlanListQuery>& m) {
        self->send(caf::actor_cast<caf::actor>(self->current_sender()),
                   self->state.list(protocol::value_of(*m.view()), m.envelope().request));
      },
      [=](const Msg<wire::CapabilityReport>& m) {
        const auto replaced = self->state.on_report(protocol::value_of(*m.view()));
        if (!replaced.reports.empty())
          self->send(cluster, protocol::message_of(m.envelope().job, replaced));
      },
  };
}

}  // namespace es::actors
