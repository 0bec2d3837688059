#include "actors/intra_job/intra_job_actor.h"

#include <caf/all.hpp>

#include <bit>
#include <set>

#include "actors/common/wire_devices.h"
#include "actors/intra_job/journal_record.h"
#include "actors/node_agent/node_agent_actor.h"
#include "actors/protocol/codec.h"
#include "actors/worker/worker_actor.h"
#include "proto/base/kill_point.h"
#include "store/metrics/metric.h"

namespace es::actors {
namespace {

using TickAtom = caf::atom_constant<caf::atom("tick")>;

constexpr auto kTickInterval = std::chrono::seconds(1);
// How long a restarted head waits for a worker of its journal.
constexpr auto kReturnTimeout = std::chrono::seconds(30);

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
  const std::string& directory = options_.spec.checkpoint.directory;
  if (!directory.empty())
    options_.config.checkpoint_directory = (std::filesystem::path(directory) / options_.job).string();
  core_.emplace(make_core());
  lost_steps_.emplace(options_.restored && !core_->fleet().workers().empty());
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
  history.evaluations = read_evaluations();
  for (const store::LedgerLine& line : *lines) {
    protocol::LedgerLine known{line.version, {}, line.params_digest.value_or(Digest{}), {}};
    for (const float loss : line.losses)
      known.loss_bits.push_back(std::bit_cast<std::uint32_t>(loss));
    history.lines.push_back(std::move(known));
  }
  if (!history.lines.empty() && history.lines.back().version == options_.config.last_version) {
    const auto state = peers_.store->history().final_state(options_.job);
    if (state) history.lines.back().state = *state;
  }
  return {options_.config, std::move(services), core_record(options_.record), std::move(history)};
}

// Those that an earlier head was told; also for people.
std::vector<std::pair<Version, Digest>> IntraJobState::read_evaluations() {
  const auto stored = peers_.store->history().evaluations(options_.job);
  ES_CHECK_MSG(stored.ok(), stored.ok() ? "" : stored.error().message);
  std::vector<std::pair<Version, Digest>> evaluations;
  for (const auto& [version, totals] : *stored) {
    const auto bytes = std::as_bytes(std::span(totals));
    evaluations.emplace_back(version, digest_of(bytes));
    show_evaluation(version, {bytes.begin(), bytes.end()});
  }
  return evaluations;
}

Instant IntraJobState::now() const {
  return self_->clock().now().time_since_epoch();
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
  if (std::holds_alternative<protocol::Drained>(*message)) lost_steps_->drained();
  perform(core_->on(*message, now()));
}

// Once in each round.
void IntraJobState::tell_loss(const protocol::Install& install) {
  if (std::exchange(told_generation_, install.stamp.generation) == install.stamp.generation) return;
  const std::uint64_t lost =
      lost_steps_->install(install.target, core_->ledger().through(), install.last_version);
  if (lost > 0)
    log("goes on from version " + std::to_string(install.target) +
        ", steps to compute again: " + std::to_string(lost));
}

void IntraJobState::on_worker_exited(wire::WorkerExited::Reader r) {
  const Incarnation incarnation{r.getIncarnation()};
  pids_.erase(incarnation);
  est_seconds_.erase(incarnation);
  const ProcessExit exit{r.getExitCode(), r.getSignal(), r.getLastWords().cStr()};
  perform(core_->on(
      intra_job::Event(intra_job::WorkerExited{incarnation, es::actors::describe(exit)}), now()));
}

void IntraJobState::on_allocation(wire::Allocation::Reader r) {
  intra_job::Allocation allocation{r.getSequence(), r.getReleasesSeen(), {}, r.getUrgent()};
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
  if (intra_job::is_over(effect.record.state)) save_end();
  kill_point("journal.before");
  const Status status = peers_.store->save(options_.record);
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "journal: " + status.error().message);
  kill_point("journal.after");
}

// For those who ask after a restart of the head.
void IntraJobState::save_end() {
  const Msg<wire::JobDetails> shown = details();
  const auto bytes = shown.frame()->body.asChars();
  const Status status =
      peers_.store->history().save_end(options_.job, {bytes.begin(), bytes.size()});
  if (!status.ok()) log("the end of the job is not kept: " + status.error().message);
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
  if (const auto* install = std::get_if<protocol::Install>(&effect.message)) tell_loss(*install);
  if (std::holds_alternative<protocol::Go>(effect.message)) lost_steps_->go();
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

void IntraJobState::perform_effect(const intra_job::DeviceSuspected& effect) {
  self_->send(peers_.cluster, Msg<wire::DeviceSuspected>::build(
                                  {.job = options_.job}, [&](wire::DeviceSuspected::Builder b) {
                                    put(b.initDevice(), effect.device);
                                    b.setReason(effect.reason);
                                  }));
}

void IntraJobState::perform_effect(const intra_job::LedgerRewound& effect) {
  const Status status = peers_.store->ledger().rewind(options_.job, effect.through);
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "ledger: " + status.error().message);
  evaluations_.erase(evaluations_.upper_bound(effect.through), evaluations_.end());
  const Status rewound = peers_.store->history().rewind(options_.job, effect.through);
  ES_CHECK_MSG(rewound.ok(), rewound.ok() ? "" : "evaluations: " + rewound.error().message);
}

void IntraJobState::perform_effect(const intra_job::LedgerLineAdded& effect) {
  store::LedgerLine line{effect.line.version, {}, effect.line.params};
  if (effect.line.state) {
    const Status saved =
        peers_.store->history().save_final_state(options_.job, *effect.line.state);
    ES_CHECK_MSG(saved.ok(), saved.ok() ? "" : "final state: " + saved.error().message);
  }
  for (const std::uint32_t bits : effect.line.loss_bits)
    line.losses.push_back(std::bit_cast<float>(bits));
  kill_point("ledger.before");
  // Members forget a line once it is acknowledged, so it must not be lost.
  const Status status = peers_.store->ledger().append(options_.job, line);
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "ledger: " + status.error().message);
  kill_point("ledger.after");
  progress_due_ = true;
}

void IntraJobState::perform_effect(const intra_job::EvaluationAdded& effect) {
  const auto* bytes = reinterpret_cast<const char*>(effect.totals->data());
  // Its worker forgets it once the head has said that it knows it.
  const Status status = peers_.store->history().save_evaluation(
      options_.job, effect.version, {bytes, effect.totals->size()});
  ES_CHECK_MSG(status.ok(), status.ok() ? "" : "evaluation: " + status.error().message);
  log(show_evaluation(effect.version, *effect.totals));
  progress_due_ = true;
}

// Keeps it for people; returns a line for the log.
std::string IntraJobState::show_evaluation(Version version, const std::vector<std::byte>& bytes) {
  const std::string what = "evaluation of version " + std::to_string(version);
  const auto totals = store::MetricTotals::decode(bytes);
  if (!totals) return what + " cannot be read: " + totals.error().message;
  EvaluationView& view = evaluations_[version];
  view = {version, totals->samples, {}};
  std::string text;
  for (const store::NamedMetric& m : store::summarise(task_of(options_.spec.model), *totals)) {
    text += (text.empty() ? ": " : ", ") + m.name + " " + std::to_string(m.value);
    view.metrics.push_back({m.name, m.value});
  }
  return what + text;
}

void IntraJobState::perform_effect(const intra_job::StateChanged& effect) {
  measure_pause(effect.state);
  log(std::string("job is ") + intra_job::state_name(effect.state));
  progress_due_ = true;
}

void IntraJobState::perform_effect(const intra_job::LogLine& effect) {
  log(effect.text);
}

void IntraJobState::perform_effect(const intra_job::JobEnded& effect) {
  log(std::string("job ended: ") + intra_job::state_name(effect.state) +
      (effect.error.empty() ? "" : ": " + effect.error));
  log_file_.close();  // this actor stays, to answer questions
  save_end();
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
