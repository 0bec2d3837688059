// Simulation: effects of the cores, and the invariants that are checked on the way.
#include <algorithm>

#include "actors/base/protocol/core/decisions.h"
#include "tests/actors/base/protocol/simulation.h"

namespace es::test {

using namespace actors;
using namespace actors::protocol;
using intra_job::Effects;
using intra_job::JobCore;

// A restart may happen between any two effects of one step.
void Simulation::perform_head(Effects effects) {
  const bool restart = std::exchange(restart_in_effects_, false);
  const std::size_t count = restart ? pick(effects.size() + 1) : effects.size();
  for (std::size_t i = 0; i < count; ++i) perform(effects[i]);
  if (restart) restart_head();
}

void Simulation::perform(const intra_job::Effect& effect) {
  std::visit(
      [this](const auto& e) {
        if constexpr (requires { this->perform_one(e); }) perform_one(e);
      },
      effect);
}

void Simulation::perform_one(const intra_job::SaveRecord& effect) {
  if (effect.record.generation < journal_.generation) violated("the journal goes backwards");
  journal_ = effect.record;
  // They were released on purpose: a checkpoint holds their state.
  if (journal_.known.empty()) given_up_.insert(last_members_.begin(), last_members_.end());
  if (journal_.state == JobState::kPaused) mark("paused");
}

void Simulation::perform_one(const intra_job::StartWorker& effect) {
  if (process_on(effect.device)) violated("two processes on device " + effect.device.text());
  if (!occupied_.contains(effect.device)) violated("device is not the job's");
  Process& started = processes_[effect.incarnation.value];
  started.device = effect.device;
  worker::WorkerConfig config{
      .self = effect.incarnation,
      .device = effect.device,
      .address = "address",
      .host_id = "host " + std::to_string(effect.device.index % options_.hosts),
      .max_p = options_.max_p,
      .eval_every = options_.eval_every,
      .decided_every = decided_every(job_.spec),
      .may_stop = !job_.spec.stop.metric.empty(),
      .step_timeout = std::chrono::seconds(30)};
  started.core = std::make_unique<worker::WorkerCore>(config);
  started.engine = std::make_unique<ToyEngine>(
      job_, effect.incarnation, [this](Incarnation of) { return lives(of.value) || chance(50); },
      [this](const std::string& path) -> std::optional<ToyVersion> {
        if (!damaged_.contains(path)) return checkpoints_.at(path);
        mark("damage found");
        return std::nullopt;
      });
  started.engine->gone = gone_parts_;
  started.engine->sharded = options_.sharded;
  started.engine->on_checkpoint = [this](const std::string& path, const ToyVersion& version) {
    const bool is_new = checkpoints_.emplace(path, version).second;
    if (!path.starts_with("series/")) return is_new;
    damaged_.erase(path);  // It was found to be damaged, and is written again.
    return checkpoints_.at(path) == version;
  };
}

void Simulation::perform_one(const intra_job::KillWorker& effect) {
  if (lives(effect.incarnation.value)) process(effect.incarnation.value).kill_ordered = true;
}

void Simulation::perform_one(const intra_job::SendWorker& effect) {
  check_head_message(effect.to.value, *effect.message);
  send(0, effect.to.value, *effect.message);
}

void Simulation::perform_one(const intra_job::Demand& effect) {
  serve_demand(*effect.exact);
}

void Simulation::perform_one(const intra_job::DemandLifted&) {
  serve_demand(std::nullopt);
}

void Simulation::perform_one(const intra_job::DeviceReleased& effect) {
  if (process_on(effect.device)) violated("a device was given back while a process is on it");
  ++releases_seen_;
  occupied_.erase(effect.device);
  granted_.erase(effect.device);
  if (demand_) serve_demand(demand_);
}

// The path is found by its name. The damage is found when the checkpoint is loaded.
void Simulation::perform_one(const intra_job::FindStates& effect) {
  intra_job::StatesFound found{effect.node, {}};
  for (const CheckpointRef& state : effect.states)
    found.states.push_back(
        {state, checkpoints_.contains(state.path) ? Sight::kWhole : Sight::kGone, "not there"});
  from_nodes_.push_back(std::move(found));
}

void Simulation::perform_one(const intra_job::LedgerLineAdded& effect) {
  check_ledger(effect.line);
}

void Simulation::perform_one(const intra_job::EvaluationAdded& effect) {
  if (!evaluated_.emplace(effect.version, effect.totals).second)
    violated("an evaluation was added twice");
}

void Simulation::perform_one(const intra_job::CommandDone& effect) {
  if (open_requests_.erase(effect.request) != 1) violated("a command was answered twice");
}

void Simulation::perform_one(const intra_job::CheckpointDone& effect) {
  if (open_requests_.erase(effect.request) != 1) violated("a command was answered twice");
  if (!effect.result.ok()) return;
  const ToyVersion& at = checkpoints_.at(effect.result->checkpoint.path);
  if (at != reference_version(job_, at.version)) violated("a checkpoint differs");
  mark("checkpoint written");
}

void Simulation::perform_one(const intra_job::JobEnded&) {
  ended_ = true;
}

bool Simulation::process_on(const DeviceId& device) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    return entry.second.device == device && entry.second.life != Process::Life::kGone;
  });
}

void Simulation::check_ledger(const LedgerLine& line) {
  if (line.version != ledger_.size() + 1) violated("the ledger has a gap or a repetition");
  if (line != reference_line(job_, line.version)) {
    violated("version " + std::to_string(line.version) + " differs from the undisturbed run");
  }
  ledger_.push_back(line);
}

void Simulation::check_head_message(std::uint64_t to, const HeadMessage& message) {
  if (stamp_of(message).generation > journal_.generation) violated("sent before it was journaled");
  if (const auto* install = std::get_if<Install>(&message)) {
    const std::uint64_t generation = install->stamp.generation.value;
    const auto [known, first] = installs_.emplace(generation, *install);
    if (known->second.members != install->members || known->second.target != install->target) {
      violated("S2: two placements in generation " + std::to_string(generation));
    }
    if (first && !std::holds_alternative<FromPeer>(install->source) && !last_members_.empty()) {
      mark("state was lost with all members");
      for (const std::uint64_t member : last_members_) {
        if (!given_up_.contains(member) && !lost_a_shard())
          violated("S1: the state of a member was thrown away");
      }
      newest_commit_ = install->target;
    }
    if (first && install->target + 1 < newest_commit_) violated("S4: more than one step is lost");
  }
  if (const auto* decided = std::get_if<Decided>(&message)) check_decided(*decided);
  if (std::holds_alternative<Go>(message) && lives(to)) check_go(stamp_of(message).generation);
}

// Whether both members that held a bucket in the last placement are gone, or were evicted because
// others could not reach them.
bool Simulation::lost_a_shard() const {
  const auto is_lost = [this](Incarnation holder) {
    return given_up_.contains(holder.value) || processes_.at(holder.value).kill_ordered;
  };
  return std::ranges::any_of(last_holders_, [&](const Holders& holders) {
    return is_lost(holders.owner) && is_lost(holders.buddy);
  });
}

// A worker holds the version, and of its moments at least those that it shall hold.
bool Simulation::holds(const Process& process, const Install& install) const {
  const auto& held = process.engine->held();
  if (install.holders.empty()) return held == reference_version(job_, install.target);
  if (!held) return false;
  ToyVersion expected = reference_version(job_, install.target);
  for (std::uint32_t bucket = 0; bucket < install.bucket_count; ++bucket) {
    const Holders& holders = install.holders[bucket];
    const Incarnation self = process.core->incarnation();
    const bool own = holders.owner == self || holders.buddy == self;
    if (!own && held->moments[bucket] == 0) expected.moments[bucket] = 0;
  }
  return *held == expected;
}

// A step is released with what the undisturbed run decides, after its evaluation was stored and the
// best version up to it is kept.
void Simulation::check_decided(const Decided& decided) {
  if (decided.decisions != reference_version(job_, decided.step + 1).decisions)
    violated("another decision than that of the undisturbed run");
  if (!evaluated_.contains(decided.step)) violated("a decision without a stored evaluation");
  const Version best =
      job_.spec.checkpoint.keep_best.empty() ? 0 : reference_best(job_, decided.step);
  if (best == 0) return;
  const bool kept =
      journal_.best && journal_.best->version == best && checkpoints_.contains(journal_.best->path);
  if (!kept && journal_.best && journal_.best->version < best) violated("the best version is lost");
  if (!kept && !journal_.best) violated("no best version is kept");
}

// Invariant S4: at Go all members hold the target.
void Simulation::check_go(Generation generation) {
  if (go_generation_ == generation.value) return;
  go_generation_ = generation.value;
  const Install& install = installs_.at(generation.value);
  last_members_.clear();
  last_holders_ = install.holders;
  for (const Member& member : install.members) {
    last_members_.insert(member.incarnation.value);
    const Process& process = processes_.at(member.incarnation.value);
    if (process.life == Process::Life::kGone) continue;
    if (process.core->generation() == generation && !holds(process, install)) {
      violated("S4: member " + std::to_string(member.incarnation.value) +
               " does not hold the target");
    }
  }
}

void Simulation::perform_worker(std::uint64_t self, worker::Effects effects) {
  for (const worker::Effect& effect : effects) {
    if (process(self).life == Process::Life::kGone) return;
    if (const auto* to_head = std::get_if<worker::SendHead>(&effect)) {
      const auto* committed = std::get_if<Committed>(&to_head->message);
      if (committed != nullptr && !given_up_.contains(self)) {
        newest_commit_ = std::max(newest_commit_, committed->line.version);
      }
      send(self, 0, to_head->message);
    } else if (const auto* to_peer = std::get_if<worker::SendPeer>(&effect)) {
      if (to_peer->to.value == self) violated("a worker sends to itself");
      send(self, to_peer->to.value, to_peer->message);
    } else if (const auto* abort = std::get_if<worker::Abort>(&effect)) {
      violated("abort: " + abort->reason);
    } else if (const auto* anomaly = std::get_if<worker::ReportAnomaly>(&effect)) {
      violated("anomaly: " + anomaly->text);
    } else if (std::holds_alternative<worker::Exit>(effect)) {
      given_up_.insert(self);
      end_process(self);
    } else {
      const auto* reduce = std::get_if<worker::ReduceBucket>(&effect);
      if (reduce != nullptr && reduce->is_partial) mark("partial sum made");
      if (std::holds_alternative<worker::AbandonGenerations>(effect)) {
        // The connections are new, so a link that was cut may return.
        std::erase_if(cut_, [&](Channel c) { return c.first == self && chance(30); });
      }
      process(self).engine->add(effect);
    }
  }
}

void Simulation::send(std::uint64_t from, std::uint64_t to, Message message) {
  const bool is_cut = cut_.contains({from, to}) || cut_.contains({to, from});
  if (is_cut || (to != 0 && !lives(to))) return;
  channels_[{from, to}].push_back(std::move(message));
}

// The process is reaped. The messages that it has sent are on their way, and messages to it are
// lost.
void Simulation::end_process(std::uint64_t incarnation) {
  Process& ended = process(incarnation);
  ended.life = Process::Life::kGone;
  if (ended.orphan) {
    occupied_.erase(ended.device);
    if (demand_ && !ended_) serve_demand(demand_);
  }
  for (auto& [channel, queue] : channels_) {
    if (channel.second == incarnation) queue.clear();
  }
  from_nodes_.push_back(
      intra_job::WorkerExited{Incarnation{incarnation}, "ended by the simulation"});
}

void Simulation::serve_demand(const std::optional<DeviceSet>& demand) {
  demand_ = demand;
  if (!demand) return;
  std::set<DeviceId> devices = granted_;
  DeviceSet have;
  for (const DeviceId& device : devices) have.add(device.type, 1);
  for (const DeviceId& device : inventory_) {
    if (have.count_of(device.type) >= demand->count_of(device.type)) continue;
    if (occupied_.contains(device)) continue;
    have.add(device.type, 1);
    devices.insert(device);
  }
  if (devices != granted_) allocate(devices);
}

void Simulation::allocate(std::set<DeviceId> devices, bool urgent) {
  granted_ = devices;
  occupied_.insert(devices.begin(), devices.end());
  from_cluster_.push_back(intra_job::Allocation{.sequence = ++sequence_,
                                                .releases_seen = releases_seen_,
                                                .devices = {devices.begin(), devices.end()},
                                                .urgent = urgent});
}

void Simulation::restart_head() {
  mark("head restarted");
  for (auto& [channel, queue] : channels_) {
    const bool unsent = channel.first == 0 && chance(50);
    if (channel.second == 0 || unsent) queue.clear();
  }
  for (auto* queue : {&from_nodes_, &from_cluster_, &from_clients_}) queue->clear();
  open_requests_.clear();  // The clients of these requests are gone.
  head_ = std::make_unique<JobCore>(
      config(), services(), journal_,
      intra_job::LedgerHistory{.lines = ledger_,
                               .evaluations = {evaluated_.begin(), evaluated_.end()}});
  sequence_ = releases_seen_ = 0;
  demand_.reset();  // The cluster scheduler is in the same process.
  // Processes that the journal does not contain are killed. Their devices are not used until then.
  std::set<std::uint64_t> known;
  for (const KnownWorker& worker : journal_.known) {
    known.insert(worker.incarnation.value);
    if (!lives(worker.incarnation.value)) {
      from_nodes_.push_back(intra_job::WorkerExited{worker.incarnation, "gone meanwhile"});
    }
  }
  for (auto& [incarnation, process] : processes_) {
    if (process.life == Process::Life::kGone || known.contains(incarnation)) continue;
    process.kill_ordered = process.orphan = true;
    given_up_.insert(incarnation);
    granted_.erase(process.device);
    if (process.life == Process::Life::kRunning && chance(50)) say_hello(incarnation);
  }
  // A device is in use when the job may use it or a process runs on it.
  occupied_ = granted_;
  for (const auto& [incarnation, process] : processes_) {
    if (process.life != Process::Life::kGone) occupied_.insert(process.device);
  }
  perform_head(head_->start(now_));
  perform_head(
      head_->on(intra_job::Event(intra_job::NodesPresent(std::set<std::string>{"node"})), now_));
  allocate(granted_);
}

}  // namespace es::test
