#include "tests/actors/sim/head_oracle.h"

#include <caf/all.hpp>

#include <algorithm>
#include <utility>

#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/node/shell/node_agent_actor.h"
#include "scheduler/model/device_sets.h"

namespace es::actors::simulator {
namespace {

constexpr std::size_t kViolationsMax = 10;

template <class T>
const T* content(const caf::type_erased_tuple& tuple) {
  return tuple.match_elements<T>() ? &tuple.get_as<T>(0) : nullptr;
}

// The index in the workload. Ids are "NAME-SEQUENCE" in the order of the workload.
std::size_t number_of(const JobId& id) {
  return std::stoul(id.substr(id.rfind('-') + 1)) - 1;
}

}  // namespace

void HeadOracle::violated(const std::string& what) {
  if (violations_.size() < kViolationsMax)
    violations_.push_back("at " + std::to_string(now_s_) + " s: " + what);
}

bool HeadOracle::is_lost(const DeviceId& device) const {
  return lost_nodes_.contains(node_peer(device.node));
}

void HeadOracle::advance(double now_s) {
  const double passed = now_s - std::exchange(now_s_, now_s);
  if (passed <= 0) return;
  for (const auto& [device, owner] : owner_)
    if (!is_lost(device)) owned_device_s_[owner] += passed;
}

void HeadOracle::see(Instant now, std::uint64_t receiver, const caf::mailbox_element& message) {
  advance(in_seconds(now));
  const caf::type_erased_tuple& tuple = message.content();
  const std::uint64_t sender = message.sender ? message.sender->id() : 0;
  if (const auto* demand = content<Msg<wire::Demand>>(tuple)) return on(*demand, sender);
  if (const auto* released = content<Msg<wire::DeviceReleased>>(tuple)) return on(*released);
  if (const auto* ended = content<Msg<wire::JobEnded>>(tuple))
    return on_ended(ended->envelope().job);
  if (const auto* given = content<Msg<wire::Allocation>>(tuple)) return on(*given, receiver);
  if (const auto* inbound = content<Inbound>(tuple)) return on_inbound(*inbound);
  if (const auto* outbound = content<Outbound>(tuple)) return on_outbound(*outbound);
  if (const auto* down = content<PeerDown>(tuple)) return on_peer_down(*down);
}

void HeadOracle::on(const Msg<wire::Demand>& demand, std::uint64_t sender) {
  const JobId& id = demand.envelope().job;
  job_of_actor_[sender] = id;
  auto view = demand.view();
  if (view->isRefusals()) return note_refusals(jobs_[id], *view);
  if (view->hasProgress()) judge_progress(id, jobs_[id], view->getProgress());
  if (view->isExact()) return;
  auto& proposed = jobs_[id].proposed[view->getSequence()];
  for (const auto p : view->getProposals()) {
    std::uint32_t& most = proposed[{p.getDeviceType().cStr()}];
    most = std::max(most, p.getCount());
  }
}

void HeadOracle::note_refusals(Job& job, wire::Demand::Reader r) {
  job.refusals.clear();
  for (const auto refusal : r.getRefusals()) {
    job.refusals.push_back({device_set_from(refusal.getHeld()), {}, {}});
    for (const auto type : refusal.getTypes()) job.refusals.back().types.push_back({type.cStr()});
  }
}

void HeadOracle::judge_progress(const JobId& id, Job& job, wire::JobProgress::Reader r) {
  job.told_steps = r.getTotalSteps() - r.getRemainingSteps();
  if (job.members.empty() || !(r.getStepsPerSecond() > 0)) return;
  const double held = static_cast<double>(job.version) * job.members.back().ranks.end;
  if (job.told_steps > held)
    violated(id + " steps from version " + std::to_string(job.version) +
             ", says that it has done " + std::to_string(job.told_steps) + " local steps");
}

void HeadOracle::on(const Msg<wire::DeviceReleased>& released) {
  const JobId& id = released.envelope().job;
  const DeviceId device = device_from(released.view()->getDevice());
  jobs_[id].releases.push_back(device);
  jobs_[id].allocated.erase(device);
  const auto owner = owner_.find(device);
  if (owner == owner_.end() || owner->second != id) return;
  if (running_.contains(device)) violated(id + " gives " + device.text() + " back, in use");
  owner_.erase(owner);
  ++taken_back_;
}

void HeadOracle::on_ended(const JobId& id) {
  for (const auto& [device, owner] : owner_)
    if (owner == id && running_.contains(device))
      violated(id + " is over, a process is left on " + device.text());
  std::erase_if(owner_, [&](const auto& entry) { return entry.second == id; });
  jobs_.erase(id);
}

void HeadOracle::on(const Msg<wire::Allocation>& allocation, std::uint64_t receiver) {
  const auto known = job_of_actor_.find(receiver);
  if (known == job_of_actor_.end() || !jobs_.contains(known->second)) return;
  const JobId& id = known->second;
  Job& job = jobs_.at(id);
  auto view = allocation.view();
  std::set<DeviceId> now;
  for (const auto device : view->getDevices()) now.insert(device_from(device));
  // Devices that the job has released while this message was on its way do not belong to it any
  // more.
  for (std::size_t i = view->getReleasesSeen(); i < job.releases.size(); ++i)
    now.erase(job.releases[i]);
  for (const DeviceId& device : now) {
    if (job.allocated.contains(device)) continue;
    ++grants_;
    const auto [owner, is_free] = owner_.try_emplace(device, id);
    if (!is_free && owner->second != id)
      violated(device.text() + " of " + owner->second + " is granted to " + id);
    if (lost_nodes_.contains(node_peer(device.node)))
      violated(device.text() + " of a lost node is granted to " + id);
  }
  judge_growth(id, job, now, view->getSequence());
  job.allocated = std::move(now);
  judge_holding(id, job);
  job.sequence = view->getSequence();
}

void HeadOracle::judge_holding(const JobId& id, const Job& job) {
  const std::size_t max_p = workload_.jobs.at(number_of(id)).spec.max_p;
  const auto owned = std::count_if(owner_.begin(), owner_.end(), [&](const auto& entry) {
    return entry.second == id && !is_lost(entry.first);
  });
  if (static_cast<std::size_t>(owned) > max_p) ++beyond_max_p_;
  if (job.allocated.size() > max_p)
    violated(id + " is given " + std::to_string(job.allocated.size()) + " devices, its max_p is " +
             std::to_string(max_p));
  if (static_cast<std::size_t>(owned) > 2 * max_p)
    violated(id + " holds " + std::to_string(owned) + " devices, its max_p is " +
             std::to_string(max_p));
}

void HeadOracle::judge_growth(const JobId& id, const Job& job, const std::set<DeviceId>& now,
                              std::uint64_t sequence) {
  if (sequence != job.sequence + 1) violated(id + ": allocation " + std::to_string(sequence));
  DeviceSet kept, granted;
  for (const DeviceId& device : now)
    (job.allocated.contains(device) ? kept : granted).add(device.type, 1);
  const DeviceSet all = scheduler::sum(kept, granted);
  if (!granted.empty() && scheduler::refusal_of(job.refusals, all) != nullptr)
    violated(id + " is left with " + all.text() + ", which it refuses");
  if (kept.empty() || granted.empty()) return;
  ++growths_;
  const auto proposed = job.proposed.find(job.sequence);
  for (const DeviceCount& c : granted.counts) {
    const bool asked = proposed != job.proposed.end() && proposed->second.contains(c.type) &&
                       proposed->second.at(c.type) >= c.count;
    if (!asked) violated(id + " is granted " + granted.text() + ", which it did not propose");
  }
}

void HeadOracle::on_inbound(const Inbound& inbound) {
  if (const auto exited = Msg<wire::WorkerExited>::from_frame(inbound.frame))
    end_process({exited->view()->getIncarnation()});
  if (inbound.frame->envelope.type == MessageType::kNodeHello) lost_nodes_.erase(inbound.from);
  if (inbound.frame->envelope.type == MessageType::kCommitted) on_committed(inbound);
}

void HeadOracle::on_committed(const Inbound& inbound) {
  const auto message = protocol::decode_worker(inbound.frame);
  const auto job = jobs_.find(inbound.frame->envelope.job);
  if (!message || job == jobs_.end()) return;
  const auto& committed = std::get<protocol::Committed>(*message);
  job->second.version = std::max(job->second.version, committed.line.version);
}

void HeadOracle::on_peer_down(const PeerDown& down) {
  lost_nodes_.insert(down.peer);
  std::vector<Incarnation> gone;
  for (const auto& [incarnation, device] : processes_)
    if (node_peer(device.node) == down.peer) gone.push_back(incarnation);
  for (const Incarnation incarnation : gone) end_process(incarnation);
}

void HeadOracle::end_process(Incarnation incarnation) {
  const auto at = processes_.find(incarnation);
  if (at == processes_.end()) return;
  running_.erase(at->second);
  processes_.erase(at);
}

void HeadOracle::on_outbound(const Outbound& outbound) {
  const Frame& frame = *outbound.frame;
  if (frame.envelope.type == MessageType::kStartWorker) return on_start(outbound.frame);
  if (!protocol::is_head_message(frame.envelope.type)) return;
  const auto message = protocol::decode_head(outbound.frame);
  if (!message) return violated(message.error().message);
  const auto job = jobs_.find(frame.envelope.job);
  if (job == jobs_.end()) return;
  if (const auto* install = std::get_if<protocol::Install>(&*message))
    on(job->first, *install);
  else if (const auto* go = std::get_if<protocol::Go>(&*message))
    on(job->first, *go);
  else if (std::holds_alternative<protocol::Drain>(*message) ||
           std::holds_alternative<protocol::Prepare>(*message))
    end_placement(job->second);
}

void HeadOracle::on_start(const std::shared_ptr<const Frame>& frame) {
  const auto start = Msg<wire::StartWorker>::from_frame(frame);
  auto view = start->view();
  const DeviceId device = device_from(view->getDevice());
  // No process is there that could do it.
  if (lost_nodes_.contains(node_peer(device.node))) return;
  const auto owner = owner_.find(device);
  if (owner == owner_.end() || owner->second != frame->envelope.job)
    violated(frame->envelope.job + " starts a process on " + device.text() + ", not its own");
  const Incarnation incarnation{view->getIncarnation()};
  if (!running_.try_emplace(device, incarnation).second)
    violated("two processes on " + device.text());
  processes_[incarnation] = device;
}

void HeadOracle::on(const JobId& id, const protocol::Install& install) {
  Job& job = jobs_.at(id);
  VirtualRank next = 0;
  std::set<Incarnation> members;
  for (const protocol::Member& member : install.members) {
    if (member.ranks.begin != next || member.ranks.empty() ||
        !members.insert(member.incarnation).second)
      violated(id + ": ranks of a placement overlap or are missing");
    next = member.ranks.end;
  }
  job.index = number_of(id);
  if (next != workload_.jobs.at(job.index).spec.max_p)
    violated(id + ": a placement has " + std::to_string(next) + " ESTs");
  job.members = install.members;
  job.version = install.target;
  const bool held = std::holds_alternative<protocol::FromPeer>(install.source);
  if (!held && job.told_steps > static_cast<double>(install.target) * next)
    violated(id + " goes back to version " + std::to_string(install.target) +
             ", and said that it had done " + std::to_string(job.told_steps) + " local steps");
}

void HeadOracle::on(const JobId& id, const protocol::Go&) {
  Job& job = jobs_.at(id);
  if (job.placement > 0) return;  // The first member has received it already.
  const WorkJob& work = workload_.jobs.at(job.index);
  Placement placement{.job = id, .from_s = now_s_, .devices = {}};
  for (const protocol::Member& member : job.members) {
    const auto at = processes_.find(member.incarnation);
    if (at == processes_.end()) return;  // It was lost meanwhile, and another round follows.
    const DeviceType& type = at->second.type;
    placement.devices.add(type, 1);
    placement.step_s = std::max(placement.step_s, member.ranks.size() / work.capabilities.at(type));
  }
  placement.step_s += sync_s_ * static_cast<double>(job.members.size() - 1);
  placements_.push_back(std::move(placement));
  job.placement = placements_.size();
}

void HeadOracle::end_placement(Job& job) {
  if (job.placement > 0) placements_[job.placement - 1].to_s = now_s_;
  job.placement = 0;
}

}  // namespace es::actors::simulator
