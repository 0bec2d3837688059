#include "actors/base/protocol/wire/job_cluster_codec.h"

#include "actors/base/protocol/wire/wire_devices.h"

namespace es::actors::protocol {
namespace {

using actors::put;

using ProposalList = capnp::List<wire::Proposal>;
using CapabilityList = capnp::List<wire::Capability>;
using SyncList = capnp::List<wire::SyncPoint>;

void put_proposals(ProposalList::Builder b, const std::vector<scheduler::Proposal>& proposals) {
  for (unsigned i = 0; i < b.size(); ++i) {
    b[i].setDeviceType(proposals[i].type.name);
    b[i].setCount(proposals[i].count);
    b[i].setSpeedup(proposals[i].speedup);
  }
}

std::vector<scheduler::Proposal> proposals_from(ProposalList::Reader r) {
  std::vector<scheduler::Proposal> proposals;
  for (const auto p : r)
    proposals.push_back({{p.getDeviceType().cStr()}, p.getCount(), p.getSpeedup()});
  return proposals;
}

void put_capabilities(CapabilityList::Builder b, const std::vector<Capability>& capabilities) {
  for (unsigned i = 0; i < b.size(); ++i) {
    b[i].setDeviceType(capabilities[i].type.name);
    b[i].setStepsPerSecond(capabilities[i].steps_per_second);
    b[i].setMeasured(capabilities[i].measured);
  }
}

std::vector<Capability> capabilities_from(CapabilityList::Reader r) {
  std::vector<Capability> capabilities;
  for (const auto c : r)
    capabilities.push_back({{c.getDeviceType().cStr()}, c.getStepsPerSecond(), c.getMeasured()});
  return capabilities;
}

void put_sync(SyncList::Builder b, const std::vector<scheduler::SyncPoint>& points) {
  for (unsigned i = 0; i < b.size(); ++i) {
    b[i].setDevices(points[i].devices);
    b[i].setSeconds(points[i].seconds);
  }
}

// Points that are not valid are left out, as the curve would ignore them.
std::vector<scheduler::SyncPoint> sync_from(SyncList::Reader r) {
  std::vector<scheduler::SyncPoint> points;
  for (const auto p : r) points.push_back({p.getDevices(), p.getSeconds()});
  return scheduler::SyncCurve(points).points();
}

void put_progress(wire::JobProgress::Builder b, const JobProgress& progress) {
  b.setTotalSteps(progress.total_steps);
  b.setRemainingSteps(progress.remaining_steps);
  b.setStepsPerSecond(progress.steps_per_second);
  b.setRescaleSeconds(progress.rescale_seconds);
  b.setSuspendSeconds(progress.suspend_seconds);
  b.setStarted(progress.started);
  b.setAdopted(progress.adopted);
  put_capabilities(b.initCapabilities(progress.capabilities.size()), progress.capabilities);
  put_sync(b.initSync(progress.sync.size()), progress.sync);
  b.setBudgetLeft(progress.budget_left);
}

JobProgress progress_from(wire::JobProgress::Reader r) {
  return {.total_steps = r.getTotalSteps(),
          .remaining_steps = r.getRemainingSteps(),
          .steps_per_second = r.getStepsPerSecond(),
          .rescale_seconds = r.getRescaleSeconds(),
          .suspend_seconds = r.getSuspendSeconds(),
          .started = r.getStarted(),
          .adopted = r.getAdopted(),
          .capabilities = capabilities_from(r.getCapabilities()),
          .sync = sync_from(r.getSync()),
          .budget_left = r.getBudgetLeft()};
}

JobRefusals refusals_from(capnp::List<wire::RefusedDevices>::Reader r) {
  JobRefusals value;
  for (const auto refusal : r) {
    value.refusals.push_back({device_set_from(refusal.getHeld()), {}, {}});
    for (const auto type : refusal.getTypes()) value.refusals.back().types.push_back({type.cStr()});
  }
  return value;
}

}  // namespace

// --- between a job and the cluster scheduler

Msg<wire::Allocation> message_of(const Allocation& value) {
  return Msg<wire::Allocation>::build({}, [&](wire::Allocation::Builder b) {
    b.setSequence(value.sequence);
    b.setReleasesSeen(value.releases_seen);
    auto devices = b.initDevices(value.devices.size());
    for (unsigned i = 0; i < devices.size(); ++i) put(devices[i], value.devices[i]);
    b.setUrgent(value.urgent);
    auto prices = b.initPricesPerHour(static_cast<unsigned>(value.prices_per_hour.size()));
    for (unsigned i = 0; i < prices.size(); ++i) prices.set(i, value.prices_per_hour[i]);
  });
}

Msg<wire::DemandRefused> message_of(const DemandRefused& value) {
  return Msg<wire::DemandRefused>::build(
      {}, [&](wire::DemandRefused::Builder b) { b.setReason(value.reason); });
}

Msg<wire::Demand> message_of(const JobId& job, const Demand& value) {
  return Msg<wire::Demand>::build({.job = job}, [&](wire::Demand::Builder b) {
    if (value.exact)
      put(b.initExact(value.exact->counts.size()), *value.exact);
    else
      put_proposals(b.initProposals(value.proposals.size()), value.proposals);
    b.setSequence(value.sequence);
    if (value.progress) put_progress(b.initProgress(), *value.progress);
  });
}

Msg<wire::Demand> message_of(const JobId& job, const JobRefusals& value) {
  return Msg<wire::Demand>::build({.job = job}, [&](wire::Demand::Builder b) {
    auto list = b.initRefusals(value.refusals.size());
    for (unsigned i = 0; i < list.size(); ++i) {
      const scheduler::Refusal& refusal = value.refusals[i];
      put(list[i].initHeld(refusal.held.counts.size()), refusal.held);
      auto types = list[i].initTypes(refusal.types.size());
      for (unsigned t = 0; t < types.size(); ++t) types.set(t, refusal.types[t].name);
    }
  });
}

Msg<wire::Demand> message_of(const JobId& job, const BoundToType& value) {
  return Msg<wire::Demand>::build(
      {.job = job}, [&](wire::Demand::Builder b) { b.setBoundType(value.type.name); });
}

Msg<wire::DeviceReleased> message_of(const JobId& job, const DeviceReleased& value) {
  return Msg<wire::DeviceReleased>::build(
      {.job = job}, [&](wire::DeviceReleased::Builder b) { put(b.initDevice(), value.device); });
}

Msg<wire::DeviceSuspected> message_of(const JobId& job, const DeviceSuspected& value) {
  return Msg<wire::DeviceSuspected>::build({.job = job}, [&](wire::DeviceSuspected::Builder b) {
    put(b.initDevice(), value.device);
    b.setReason(value.reason);
  });
}

Msg<wire::DeviceFailed> message_of(const JobId& job, const DeviceFailed& value) {
  return Msg<wire::DeviceFailed>::build({.job = job}, [&](wire::DeviceFailed::Builder b) {
    put(b.initDevice(), value.device);
    b.setReason(value.reason);
    b.setFault(static_cast<std::uint8_t>(value.fault));
    b.setOther(value.other);
  });
}

Msg<wire::DevicesWork> message_of(const JobId& job, const DevicesWork& value) {
  return Msg<wire::DevicesWork>::build({.job = job}, [&](wire::DevicesWork::Builder b) {
    auto devices = b.initDevices(static_cast<unsigned>(value.devices.size()));
    for (unsigned i = 0; i < devices.size(); ++i) put(devices[i], value.devices[i]);
  });
}

Msg<wire::DevicesKept> message_of(const JobId& job, const DevicesKept& value) {
  return Msg<wire::DevicesKept>::build(
      {.job = job}, [&](wire::DevicesKept::Builder b) { b.setReason(value.reason); });
}

Msg<wire::JobEnded> message_of(const JobId& job, const JobEnded&) {
  return Msg<wire::JobEnded>::build({.job = job}, [](wire::JobEnded::Builder) {});
}

Allocation value_of(wire::Allocation::Reader r) {
  Allocation value{r.getSequence(), r.getReleasesSeen(), {}, r.getUrgent()};
  for (const auto device : r.getDevices()) value.devices.push_back(device_from(device));
  for (const double price : r.getPricesPerHour()) value.prices_per_hour.push_back(price);
  return value;
}

DemandRefused value_of(wire::DemandRefused::Reader r) {
  return {r.getReason().cStr()};
}

std::variant<Demand, JobRefusals, BoundToType> value_of(wire::Demand::Reader r) {
  if (r.isRefusals()) return refusals_from(r.getRefusals());
  if (r.isBoundType()) return BoundToType{{r.getBoundType().cStr()}};
  Demand value;
  if (r.isExact())
    value.exact = device_set_from(r.getExact());
  else
    value.proposals = proposals_from(r.getProposals());
  value.sequence = r.getSequence();
  if (r.hasProgress()) value.progress = progress_from(r.getProgress());
  return value;
}

DeviceReleased value_of(wire::DeviceReleased::Reader r) {
  return {device_from(r.getDevice())};
}

DeviceSuspected value_of(wire::DeviceSuspected::Reader r) {
  return {device_from(r.getDevice()), r.getReason().cStr()};
}

DeviceFailed value_of(wire::DeviceFailed::Reader r) {
  return {device_from(r.getDevice()), r.getReason().cStr(),
          static_cast<DeviceFailed::Fault>(r.getFault()), r.getOther().cStr()};
}

DevicesWork value_of(wire::DevicesWork::Reader r) {
  DevicesWork value;
  for (const auto device : r.getDevices()) value.devices.push_back(device_from(device));
  return value;
}

DevicesKept value_of(wire::DevicesKept::Reader r) {
  return {r.getReason().cStr()};
}

// --- between a job and its companion

Msg<wire::PlanQuery> message_of(const JobId& job, const PlanQuery& value) {
  return Msg<wire::PlanQuery>::build({.job = job}, [&](wire::PlanQuery::Builder b) {
    put(b.initHeld(value.held.counts.size()), value.held);
    put(b.initAddable(value.addable.counts.size()), value.addable);
    b.setStepsLeft(value.steps_left);
    b.setRescaleSeconds(value.rescale_seconds);
    put_capabilities(b.initMeasured(value.measured.size()), value.measured);
    put_sync(b.initSync(value.sync.size()), value.sync);
  });
}

Msg<wire::PlanListQuery> message_of(const PlanListQuery& value, std::uint64_t request) {
  return Msg<wire::PlanListQuery>::build({.request = request}, [&](wire::PlanListQuery::Builder b) {
    put(b.initAvailable(value.available.counts.size()), value.available);
    put_capabilities(b.initMeasured(value.measured.size()), value.measured);
    put_sync(b.initSync(value.sync.size()), value.sync);
  });
}

Msg<wire::CapabilityReport> message_of(const JobId& job, const CapabilityReport& value) {
  return Msg<wire::CapabilityReport>::build({.job = job}, [&](wire::CapabilityReport::Builder b) {
    put_capabilities(b.initReports(value.reports.size()), value.reports);
    put_sync(b.initSync(value.sync.size()), value.sync);
  });
}

Msg<wire::PlanAnswer> message_of(const PlanAnswer& value) {
  return Msg<wire::PlanAnswer>::build({}, [&](wire::PlanAnswer::Builder b) {
    put_proposals(b.initProposals(value.proposals.size()), value.proposals);
    put_capabilities(b.initCapabilities(value.capabilities.size()), value.capabilities);
    put_sync(b.initSync(value.sync.size()), value.sync);
  });
}

PlanQuery value_of(wire::PlanQuery::Reader r) {
  return {.held = device_set_from(r.getHeld()),
          .addable = device_set_from(r.getAddable()),
          .steps_left = r.getStepsLeft(),
          .rescale_seconds = r.getRescaleSeconds(),
          .measured = capabilities_from(r.getMeasured()),
          .sync = sync_from(r.getSync())};
}

PlanListQuery value_of(wire::PlanListQuery::Reader r) {
  return {.available = device_set_from(r.getAvailable()),
          .measured = capabilities_from(r.getMeasured()),
          .sync = sync_from(r.getSync())};
}

CapabilityReport value_of(wire::CapabilityReport::Reader r) {
  return {capabilities_from(r.getReports()), sync_from(r.getSync())};
}

PlanAnswer value_of(wire::PlanAnswer::Reader r) {
  return {proposals_from(r.getProposals()), capabilities_from(r.getCapabilities()),
          sync_from(r.getSync())};
}

}  // namespace es::actors::protocol
