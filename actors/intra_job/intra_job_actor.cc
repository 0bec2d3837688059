#include "actors/intra_job/intra_job_actor.h"

#include <caf/all.hpp>

#include <bit>
#include <set>

#include "actors/common/wire_devices.h"
#include "actors/intra_job/journal_record.h"
#include "actors/node_agent/node_agent_actor.h"
#include "actors/protocol/codec.h"
#include "actors/worker/worker_actor.h"
#include "scheduler/placement.h"
#include "store/metrics/metric.h"

namespace es::actors {
namespace {

using TickAtom = caf::atom_constant<caf::atom("tick")>;

constexpr auto kTickInterval = std::chrono::seconds(1);
// How long a restarted head waits for a worker of its journal.
constexpr auto kReturnTimeout = std::chrono::seconds(30);
// A measurement is reported when it differs by more than this from what is known.
constexpr double kCapabilityChangeMin = 0.10;

template <class Reader>
auto with_capabilities(Reader list) {
  scheduler::Capabilities capabilities;
  for (const auto c : list) capabilities[{c.getDeviceType().cStr()}] = c.getStepsPerSecond();
  return capabilities;
}

}  // namespace

void IntraJobState::init(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                         IntraJobPeers peers) {
  self_ = self;
  options_ = std::move(options);
  peers_ = std::move(peers);
  if (!options_.log_file.empty()) log_file_.open(options_.log_file, std::ios::app);
  core_.emplace(make_core());
  // Unlike those of an earlier head, which workers may still remember.
  next_command_ = (core_->generation().value << 32) + 1;
  for (const auto& [incarnation, worker] : core_->fleet().workers()) awaited_.insert(incarnation);
  awaited_until_ = now() + kReturnTimeout;
  perform(core_->start(now()));
  query_plans();
  self_->delayed_send(self_, kTickInterval, TickAtom::value);
}

intra_job::IntraJobCore IntraJobState::make_core() {
  intra_job::Services services;
  services.next_incarnation = [store = peers_.store] {
    const auto number = store->next_incarnation();
    ES_CHECK_MSG(number.ok(), number.ok() ? "" : number.error().message);
    return *number;
  };
  services.assign_ranks = [this](std::uint32_t max_p, const std::vector<DeviceId>& devices) {
    return assign_ranks(max_p, devices);
  };
  if (!options_.restored) return {options_.config, std::move(services)};
  intra_job::LedgerHistory history;
  const auto lines = peers_.store->ledger().read(options_.job, options_.config.start_version + 1,
                                                 options_.config.last_version + 1);
  ES_CHECK_MSG(lines.ok(), lines.ok() ? "" : lines.error().message);
  for (const store::LedgerLine& line : *lines) {
    protocol::LedgerLine known{line.version, {}, line.params_digest.value_or(Digest{}), {}};
    for (const float loss : line.losses)
      known.loss_bits.push_back(std::bit_cast<std::uint32_t>(loss));
    history.lines.push_back(std::move(known));
  }
  return {options_.config, std::move(services), core_record(options_.record), std::move(history)};
}

Instant IntraJobState::now() const {
  return self_->clock().now().time_since_epoch();
}

std::vector<RankRange> IntraJobState::assign_ranks(std::uint32_t max_p,
                                                   const std::vector<DeviceId>& devices) {
  std::vector<double> capabilities;
  for (const DeviceId& device : devices) {
    const auto at = capabilities_.find(device.type);
    capabilities.push_back(at == capabilities_.end() ? 1.0 : at->second);
  }
  return scheduler::assign_ranks(capabilities, max_p);
}

// --- what comes in

void IntraJobState::on_inbound(const Inbound& inbound) {
  const MessageType type = inbound.frame->head.type;
  if (protocol::is_worker_message(type) || type == MessageType::kWorkerStats)
    return on_worker_message(inbound);
  if (auto exited = Msg<wire::WorkerExited>::from_frame(inbound.frame)) {
    (void)exited->decode([&](wire::WorkerExited::Reader r) {
      on_worker_exited(r);
      return 0;
    });
    return;
  }
  if (auto hello = Msg<wire::NodeHello>::from_frame(inbound.frame)) {
    (void)hello->decode([&](wire::NodeHello::Reader r) {
      on_node_hello(r);
      return 0;
    });
    return;
  }
  on_client(inbound);
}

// A node that says hello names what runs there: whatever else was on it is gone, and what was to be
// killed while it was away is to be killed now.
void IntraJobState::on_node_hello(wire::NodeHello::Reader r) {
  std::set<Incarnation> running;
  for (const std::uint64_t worker : r.getWorkers()) running.insert({worker});
  std::vector<Incarnation> gone;
  for (const auto& [incarnation, worker] : core_->fleet().workers()) {
    if (worker.device.node != r.getName().cStr()) continue;
    if (!running.contains(incarnation)) {
      gone.push_back(incarnation);
    } else if (worker.killed) {
      perform_effect(intra_job::KillWorker{incarnation});
    }
  }
  for (const Incarnation incarnation : gone)
    perform(core_->on(intra_job::Event(intra_job::WorkerExited{
                          incarnation, "is not running any more, says its node"}),
                      now()));
}

void IntraJobState::on_peer_down(const PeerDown& down) {
  std::vector<Incarnation> silent, homeless;
  for (const auto& [incarnation, worker] : core_->fleet().workers()) {
    if (awaited_.contains(incarnation)) continue;  // it has not found this head yet
    if (down.peer == worker_peer(incarnation)) silent.push_back(incarnation);
    if (down.peer == node_peer(worker.device.node)) homeless.push_back(incarnation);
  }
  lose(silent, down.peer + " is silent");
  // As good as reaped: the node joins again only when nothing of this runs there any more.
  for (const Incarnation incarnation : homeless)
    perform(core_->on(
        intra_job::Event(intra_job::WorkerExited{incarnation, "its node is lost"}), now()));
}

void IntraJobState::lose(const std::vector<Incarnation>& workers, const std::string& why) {
  for (const Incarnation incarnation : workers)
    perform(core_->on(intra_job::Event(intra_job::WorkerLost{incarnation, why}), now()));
}

void IntraJobState::on_worker_message(const Inbound& inbound) {
  const Incarnation sender = inbound.frame->head.sender;
  if (inbound.from != worker_peer(sender))
    return log("refused a message of " + inbound.from + " in the name of worker " +
               std::to_string(sender.value));
  awaited_.erase(sender);
  if (auto stats = Msg<wire::WorkerStats>::from_frame(inbound.frame)) {
    (void)stats->decode([&](wire::WorkerStats::Reader r) {
      on_worker_stats(r, sender);
      return 0;
    });
    return;
  }
  const auto message = protocol::decode_worker(inbound.frame);
  if (!message) return log(inbound.from + ": " + message.error().message);
  perform(core_->on(*message, now()));
}

void IntraJobState::on_worker_stats(wire::WorkerStats::Reader r, Incarnation incarnation) {
  pids_[incarnation] = r.getPid();
  peak_rss_mib_ = std::max(peak_rss_mib_, r.getPeakRssMib());
  const auto& workers = core_->fleet().workers();
  const auto at = workers.find(incarnation);
  if (at != workers.end() && r.getLocalStepSeconds() > 0)
    measured(at->second.device.type, 1.0 / r.getLocalStepSeconds());
}

void IntraJobState::measured(const DeviceType& type, double steps_per_second) {
  double& known = capabilities_[type];
  if (std::abs(steps_per_second - known) <= kCapabilityChangeMin * known) return;
  // Half-way: one slow step must not turn the placement over.
  known = known == 0 ? steps_per_second : (known + steps_per_second) / 2;
  self_->send(peers_.companion,
              Msg<wire::CapabilityReport>::build({}, [&](wire::CapabilityReport::Builder b) {
                auto report = b.initReports(1)[0];
                report.setDeviceType(type.name);
                report.setStepsPerSecond(known);
                report.setMeasured(true);
              }));
}

void IntraJobState::on_worker_exited(wire::WorkerExited::Reader r) {
  const Incarnation incarnation{r.getIncarnation()};
  pids_.erase(incarnation);
  const ProcessExit exit{r.getExitCode(), r.getSignal(), r.getLastWords().cStr()};
  perform(core_->on(
      intra_job::Event(intra_job::WorkerExited{incarnation, es::actors::describe(exit)}), now()));
}

void IntraJobState::on_allocation(wire::Allocation::Reader r) {
  intra_job::Allocation allocation{r.getSequence(), r.getReleasesSeen(), {}};
  for (const auto device : r.getDevices()) allocation.devices.push_back(device_from(device));
  allocation_sequence_ = allocation.sequence;
  perform(core_->on(intra_job::Event(std::move(allocation)), now()));
  query_plans();
}

void IntraJobState::on_refused(wire::DemandRefused::Reader r) {
  perform(core_->on(intra_job::Event(intra_job::DemandRefused{r.getReason().cStr()}), now()));
}

void IntraJobState::on_inventory(wire::Inventory::Reader r) {
  inventory_ = device_set_from(r.getDevices());
  query_plans();
}

// The companion ranks what more devices would bring; pointless for a job that wants an exact set.
void IntraJobState::query_plans() {
  if (intra_job::is_over(core_->state())) return;
  DeviceSet held;
  for (const auto& [incarnation, worker] : core_->fleet().workers())
    if (core_->fleet().allocated(worker.device)) held.add(worker.device.type, 1);
  DeviceSet addable;
  for (const DeviceCount& c : inventory_.counts)
    addable.add(c.type, c.count - std::min(c.count, held.count_of(c.type)));
  ++plan_queries_;
  self_->send(peers_.companion, Msg<wire::PlanQuery>::build({}, [&](wire::PlanQuery::Builder b) {
                put(b.initHeld(held.counts.size()), held);
                put(b.initAddable(addable.counts.size()), addable);
              }));
}

void IntraJobState::on_plans(wire::PlanAnswer::Reader r) {
  capabilities_ = with_capabilities(r.getCapabilities());
  if (--plan_queries_ > 0) return;  // a later answer knows the newest allocation
  if (demand_is_exact_ || intra_job::is_over(core_->state())) return;
  const auto proposals = r.getProposals();
  self_->send(peers_.cluster,
              Msg<wire::Demand>::build({.job = options_.job}, [&](wire::Demand::Builder b) {
                b.setProposals(proposals);
                b.setSequence(allocation_sequence_);
              }));
}

void IntraJobState::tick() {
  perform(core_->tick(now()));
  if (now() > awaited_until_) {
    const std::vector<Incarnation> missing(awaited_.begin(), awaited_.end());
    awaited_.clear();
    lose(missing, "did not come back to the restarted head");
  }
  self_->delayed_send(self_, kTickInterval, TickAtom::value);
}

// --- effects

void IntraJobState::perform(intra_job::Effects effects) {
  for (const intra_job::Effect& effect : effects)
    std::visit([this](const auto& e) { perform_effect(e); }, effect);
  if (progress_due_) tell_followers_progress();
  progress_due_ = false;
}

void IntraJobState::perform_effect(const intra_job::SaveRecord& effect) {
  update(options_.record, effect.record);
  const Status status = peers_.store->save(options_.record);
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "journal: " + status.error().message);
}

void IntraJobState::send_to(const PeerId& peer, std::shared_ptr<const Frame> frame) {
  self_->send(peers_.gateway, Outbound{peer, std::move(frame)});
}

void IntraJobState::perform_effect(const intra_job::StartWorker& effect) {
  const auto message =
      Msg<wire::StartWorker>::build({.job = options_.job}, [&](wire::StartWorker::Builder b) {
        b.setIncarnation(effect.incarnation.value);
        put(b.initDevice(), effect.device);
        b.setSpecToml(options_.spec_toml);
      });
  send_to(node_peer(effect.device.node), message.frame());
}

void IntraJobState::perform_effect(const intra_job::KillWorker& effect) {
  const auto& workers = core_->fleet().workers();
  const auto at = workers.find(effect.incarnation);
  if (at == workers.end()) return;
  const auto message = Msg<wire::KillWorker>::build(
      {.job = options_.job},
      [&](wire::KillWorker::Builder b) { b.setIncarnation(effect.incarnation.value); });
  send_to(node_peer(at->second.device.node), message.frame());
}

void IntraJobState::perform_effect(const intra_job::SendWorker& effect) {
  send_to(worker_peer(effect.to), protocol::encode(options_.job, effect.message));
}

void IntraJobState::perform_effect(const intra_job::Demand& effect) {
  demand_is_exact_ = true;
  self_->send(peers_.cluster,
              Msg<wire::Demand>::build({.job = options_.job}, [&](wire::Demand::Builder b) {
                put(b.initExact(effect.devices.counts.size()), effect.devices);
              }));
}

void IntraJobState::perform_effect(const intra_job::DemandLifted&) {
  demand_is_exact_ = false;
  query_plans();
}

void IntraJobState::perform_effect(const intra_job::DeviceReleased& effect) {
  self_->send(peers_.cluster, Msg<wire::DeviceReleased>::build(
                                  {.job = options_.job}, [&](wire::DeviceReleased::Builder b) {
                                    put(b.initDevice(), effect.device);
                                  }));
}

void IntraJobState::perform_effect(const intra_job::LedgerLineAdded& effect) {
  store::LedgerLine line{effect.line.version, {}, effect.line.params};
  for (const std::uint32_t bits : effect.line.loss_bits)
    line.losses.push_back(std::bit_cast<float>(bits));
  // Members forget a line once it is acknowledged, so it must not be lost.
  const Status status = peers_.store->ledger().append(options_.job, line);
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "ledger: " + status.error().message);
  progress_due_ = true;
}

void IntraJobState::perform_effect(const intra_job::EvaluationAdded& effect) {
  const std::string what = "evaluation of version " + std::to_string(effect.version);
  const auto totals = store::MetricTotals::decode(*effect.totals);
  if (!totals) return log(what + " cannot be read: " + totals.error().message);
  EvaluationView& view = evaluations_[effect.version];
  view = {effect.version, totals->samples, {}};
  std::string text;
  for (const store::NamedMetric& m : store::summarise(task_of(options_.spec.model), *totals)) {
    text += (text.empty() ? ": " : ", ") + m.name + " " + std::to_string(m.value);
    view.metrics.push_back({m.name, m.value});
  }
  log(what + text);
  progress_due_ = true;
}

void IntraJobState::perform_effect(const intra_job::StateChanged& effect) {
  log(std::string("job is ") + intra_job::state_name(effect.state));
  progress_due_ = true;
}

void IntraJobState::perform_effect(const intra_job::LogLine& effect) {
  log(effect.text);
}

void IntraJobState::perform_effect(const intra_job::JobEnded& effect) {
  log(std::string("job ended: ") + intra_job::state_name(effect.state) +
      (effect.error.empty() ? "" : ": " + effect.error));
  for (const Follower& follower : followers_) {
    answer_info(follower);
    end_follower(follower);
  }
  followers_.clear();
  self_->send(peers_.cluster, Msg<wire::JobEnded>::build({.job = options_.job}, [](auto) {}));
}

void IntraJobState::log(const std::string& line) {
  log_lines_.push_back(line);
  if (log_lines_.size() > kLogLinesMax) log_lines_.pop_front();
  if (log_file_.is_open()) log_file_ << line << std::endl;
  for (const Follower& follower : followers_) answer_log(follower, line);
}

caf::behavior intra_job_actor(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                              IntraJobPeers peers) {
  self->state.init(self, std::move(options), std::move(peers));
  return {
      [=](const Inbound& inbound) { self->state.on_inbound(inbound); },
      [=](const Msg<wire::Allocation>& m) { self->state.on_allocation(*m.view()); },
      [=](const Msg<wire::DemandRefused>& m) { self->state.on_refused(*m.view()); },
      [=](const Msg<wire::Inventory>& m) { self->state.on_inventory(*m.view()); },
      [=](const Msg<wire::PlanAnswer>& m) { self->state.on_plans(*m.view()); },
      [=](const PeerDown& down) { self->state.on_peer_down(down); },
      [=](const Msg<wire::DescribeJob>&) { return self->state.details(); },
      [=](const Msg<wire::CancelJob>&) { self->state.cancel_unasked(); },
      [=](TickAtom) { self->state.tick(); },
  };
}

}  // namespace es::actors
