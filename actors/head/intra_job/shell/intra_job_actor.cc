#include "actors/head/intra_job/shell/intra_job_actor.h"

#include <caf/all.hpp>

#include <bit>
#include <set>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/log/log.h"
#include "actors/base/protocol/core/process_exit.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/base/protocol/wire/wire_devices.h"

namespace es::actors {
namespace {

using TickAtom = caf::atom_constant<caf::atom("tick")>;

constexpr auto kTickInterval = std::chrono::seconds(1);
// The time that a restarted head gives the workers of its journal to send a message.
constexpr auto kReturnTimeout = std::chrono::seconds(30);

}  // namespace

void IntraJobState::init(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                         IntraJobPeers peers) {
  self_ = self;
  options_ = std::move(options);
  peers_ = std::move(peers);
  open_log_file();
  const JobSpec& spec = options_.config.spec;
  const std::string& directory = spec.checkpoint.directory;
  if (!directory.empty())
    options_.config.checkpoint_directory =
        (std::filesystem::path(directory) / options_.job).string();
  options_.config.zero_unix_ms = date_of_zero();
  planner_.emplace(intra_job::JobPlanner::Options{.max_p = spec.max_p,
                                                  .level = spec.level,
                                                  .resources = spec.resources,
                                                  .start_version = options_.config.start_version,
                                                  .last_version = options_.config.last_version,
                                                  .pause_assumed = options_.pause_assumed,
                                                  .suspend_assumed = options_.suspend_assumed},
                   options_.record.refusals);
  if (options_.restored) {
    auto history = read_history();
    // Without its ledger the head could not notice that the job computes other bits than before. So
    // it ends and names the damage.
    if (!history) {
      self_->send(peers_.cluster, HistoryUnreadableAtom::value, history.error().message);
      return self_->quit();
    }
    core_.emplace(options_.config, make_services(), options_.record, *std::move(history));
  } else {
    core_.emplace(options_.config, make_services(), options_.record);
  }
  lost_steps_.emplace(options_.restored && !core_->fleet().workers().empty());
  // Numbers of an earlier head must not be used again, because workers may still remember them. The
  // generation grows with every round, so it keeps them apart.
  next_command_ = (core_->generation().value << 32) + 1;
  for (const auto& [incarnation, worker] : core_->fleet().workers()) awaited_.insert(incarnation);
  awaited_until_ = now() + kReturnTimeout;
  perform(core_->start(now()));
  if (!planner_->refusals().empty()) tell_refusals();
}

intra_job::Services IntraJobState::make_services() {
  intra_job::Services services;
  services.next_incarnation = [store = peers_.store] {
    // This cannot fail, because the cluster scheduler made the first call.
    return store->next_incarnation().value();
  };
  services.assign_ranks = [this](std::uint32_t max_p, const std::vector<DeviceId>& devices) {
    return planner_->speeds().assign_ranks(max_p, devices);
  };
  return services;
}

// Reads the ledger and the evaluations that an earlier head stored.
Result<intra_job::LedgerHistory> IntraJobState::read_history() {
  intra_job::LedgerHistory history;
  const auto lines = peers_.store->ledger().read(options_.job, options_.config.start_version + 1,
                                                 options_.config.last_version + 1);
  if (!lines) return lines.error();
  auto evaluations = read_evaluations();
  if (!evaluations) return evaluations.error();
  history.evaluations = *std::move(evaluations);
  for (const store::LedgerLine& line : *lines) {
    protocol::LedgerLine known{line.version, {}, line.params_digest.value_or(Digest{}), {}};
    for (const float loss : line.losses)
      known.loss_bits.push_back(std::bit_cast<std::uint32_t>(loss));
    history.lines.push_back(std::move(known));
  }
  // The digest of the whole state exists for the last version only. The ledger on disk has no place
  // for it, so it is stored apart.
  if (!history.lines.empty() && history.lines.back().version == options_.config.last_version) {
    const auto state = peers_.store->history().final_state(options_.job);
    if (!state) return state.error();
    history.lines.back().state = *state;
  }
  return history;
}

// Reads the evaluations that an earlier head stored; they are also shown to users.
Result<std::vector<std::pair<Version, Digest>>> IntraJobState::read_evaluations() {
  const auto stored = peers_.store->history().evaluations(options_.job);
  if (!stored) return stored.error();
  std::vector<std::pair<Version, Digest>> evaluations;
  for (const auto& [version, totals] : *stored) {
    const auto bytes = std::as_bytes(std::span(totals));
    evaluations.emplace_back(version, digest_of(bytes));
    show_evaluation(version, {bytes.begin(), bytes.end()});
  }
  return evaluations;
}

// Simulations have no date.
std::uint64_t IntraJobState::date_of_zero() const {
  const std::uint64_t date = options_.unix_ms();
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now()).count();
  return date == 0 ? 0 : date - static_cast<std::uint64_t>(passed);
}

Instant IntraJobState::now() const {
  return stands_still_at_ ? *stands_still_at_
                          : self_->clock().now().time_since_epoch() - stood_still_;
}

// --- incoming messages

void IntraJobState::on_inbound(const Inbound& inbound) {
  const MessageType type = inbound.frame->envelope.type;
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
  switch (type) {
    case MessageType::kStatesFound:
      return on_states_found(inbound);
    case MessageType::kStatesRemoved:
      return on_states_removed(inbound);
    case MessageType::kReadState:
      return on_read_state(inbound);
    case MessageType::kStatePart:
      return on_state_part(inbound);
    case MessageType::kTraceAnswer:
      return on_trace_answer(inbound);
    case MessageType::kTracePart:
      return on_trace_part(inbound);
    default:
      return on_client(inbound);
  }
}

// The Hello of a node lists the processes that run there. Any other process of this job on the node
// is gone. A worker that was to be killed while the node was away is killed now.
void IntraJobState::on_node_hello(wire::NodeHello::Reader r) {
  // What was on its way to the node is lost, and must not be sent now.
  held_.forget_node(r.getName().cStr(), core_->fleet());
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
  for (const Incarnation incarnation : gone) {
    perform(core_->on(intra_job::Event(intra_job::WorkerExited{
                          incarnation, "does not run any more, as its node reports", true}),
                      now()));
    trace_gone(incarnation, "its process does not run any more, as its node reports");
  }
  perform(core_->on(intra_job::Event(intra_job::NodeSaidHello{r.getName().cStr()}), now()));
}

void IntraJobState::on_peer_down(const PeerDown& down) {
  trace_client_gone(down.peer);
  std::vector<Incarnation> silent, homeless;
  for (const auto& [incarnation, worker] : core_->fleet().workers()) {
    if (awaited_.contains(incarnation)) continue;  // it has not found this head yet
    if (down.peer == worker_peer(incarnation)) silent.push_back(incarnation);
    if (down.peer == node_peer(worker.device.node)) homeless.push_back(incarnation);
  }
  // What waits for a worker or a node behind the broken link is dropped first, so that the effects
  // of the loss itself stay.
  for (const Incarnation incarnation : silent) held_.forget_worker(incarnation);
  const std::string nodes = node_peer("");
  if (down.peer.starts_with(nodes))
    held_.forget_node(down.peer.substr(nodes.size()), core_->fleet());
  lose(silent, down.peer + " is silent");
  // These workers count as reaped: the node is admitted again only after none of its old processes
  // is left.
  for (const Incarnation incarnation : homeless) {
    perform(core_->on(
        intra_job::Event(intra_job::WorkerExited{incarnation, "its node is lost", true}), now()));
    trace_gone(incarnation, "its node is lost");
  }
}

void IntraJobState::lose(const std::vector<Incarnation>& workers, const std::string& why) {
  for (const Incarnation incarnation : workers)
    perform(core_->on(intra_job::Event(intra_job::WorkerLost{incarnation, why}), now()));
}

void IntraJobState::on_worker_message(const Inbound& inbound) {
  const Incarnation sender = inbound.frame->envelope.sender;
  // The gateway knows which process sent a message; the sender in the envelope is only what that
  // process claims.
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
  if (trace_) message_begin_ = clock_now();
  perform(core_->on(*message, now()));
}

// Called for every Install of a round; logs only once for each generation.
void IntraJobState::tell_loss(const protocol::Install& install) {
  if (std::exchange(told_generation_, install.stamp.generation) == install.stamp.generation) return;
  const std::uint64_t lost =
      lost_steps_->install(install.target, core_->ledger().through(), install.last_version);
  repeated_steps_ += lost;
  if (lost > 0)
    log("the job continues from version " + std::to_string(install.target) +
        ", steps to compute again: " + std::to_string(lost));
}

void IntraJobState::on_worker_exited(wire::WorkerExited::Reader r) {
  const Incarnation incarnation{r.getIncarnation()};
  pids_.erase(incarnation);
  est_seconds_.erase(incarnation);
  const ProcessExit exit{.exit_code = r.getExitCode(),
                         .signal = r.getSignal(),
                         .last_words = r.getLastWords().cStr(),
                         .out_of_memory = r.getOutOfMemory()};
  perform(
      core_->on(intra_job::Event(intra_job::WorkerExited{.incarnation = incarnation,
                                                         .description = es::actors::describe(exit),
                                                         .cause = cause_of(exit),
                                                         .way = way_of(exit)}),
                now()));
  const bool released = exit.exit_code == 0 && exit.signal == 0;
  trace_gone(incarnation, released ? "" : es::actors::describe(exit));
}

void IntraJobState::on_allocation(wire::Allocation::Reader r) {
  const protocol::Allocation allocation = protocol::value_of(r);
  perform(core_->on(intra_job::Event(allocation), now()));
  act(planner_->allocated(allocation.sequence, planner_view()));
}

void IntraJobState::on_refused(wire::DemandRefused::Reader r) {
  perform(core_->on(intra_job::Event(protocol::value_of(r)), now()));
}

void IntraJobState::on_inventory(const Msg<wire::Inventory>& inventory) {
  planner_->devices_exist(device_set_from(inventory.view()->getDevices()));
  perform(core_->on(intra_job::NodesPresent(peers_.present_nodes->of(inventory)), now()));
  act(planner_->ask_for_plans(planner_view()));
}

void IntraJobState::tick() {
  // A timer cannot be withdrawn, so an earlier one than the newest may fire. The core accepts a
  // tick at any time.
  --timers_;
  tick_armed_.reset();
  perform(core_->tick(now()));
  tick_trace();
  if (now() > awaited_until_) {
    const std::vector<Incarnation> missing(awaited_.begin(), awaited_.end());
    awaited_.clear();
    lose(missing, "has not connected to the restarted head");
  }
  arm_tick();
  if (leaves_) leave();
}

// The job is over and no client will ask about it. The actor quits after the last timer, because a
// timer must find the actor alive.
void IntraJobState::leave() {
  leaves_ = true;
  if (timers_ == 0) self_->quit();
}

// The time is rounded up to whole ticks, so that a job that changes often does not set a timer for
// each change.
void IntraJobState::arm_tick() {
  std::optional<Instant> due = core_->next_tick();
  if (!awaited_.empty()) due = std::min(due.value_or(awaited_until_), awaited_until_);
  if (const auto trace = trace_ ? trace_->next_tick() : std::nullopt)
    due = std::min(due.value_or(*trace), *trace);
  if (!due) return;
  const Instant at = std::max((*due / kTickInterval + 1) * Instant(kTickInterval), now());
  if (tick_armed_ && *tick_armed_ <= at) return;
  tick_armed_ = at;
  ++timers_;
  self_->delayed_send(self_, at - now(), TickAtom::value);
}

// --- the log

// The lines of an earlier head are shown together with new ones.
void IntraJobState::open_log_file() {
  if (options_.log_file.empty()) return;
  std::ifstream earlier(options_.log_file);
  for (std::string line; std::getline(earlier, line);) {
    log_lines_.push_back(std::move(line));
    if (log_lines_.size() > kLogLinesMax) log_lines_.pop_front();
  }
  log_file_.open(options_.log_file, std::ios::app);
}

void IntraJobState::log(const std::string& text, log::Level level) {
  log::write(level, text, {.job = options_.job});
  const std::chrono::system_clock::time_point time{std::chrono::milliseconds(options_.unix_ms())};
  const std::string line = log::format_job_line(time, level, text);
  log_lines_.push_back(line);
  if (log_lines_.size() > kLogLinesMax) log_lines_.pop_front();
  if (log_file_.is_open()) write_log_file();
  for (const Follower& follower : followers_) answer_log(follower, line);
}

// Lines that the disk did not accept are written together with the next line.
void IntraJobState::write_log_file() {
  log_file_lacks_ = std::min(log_file_lacks_ + 1, log_lines_.size());
  log_file_.clear();
  while (log_file_lacks_ > 0) {
    log_file_ << log_lines_[log_lines_.size() - log_file_lacks_] << std::endl;
    if (!log_file_) return;
    --log_file_lacks_;
  }
}

caf::behavior intra_job_actor(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                              IntraJobPeers peers) {
  self->state.init(self, std::move(options), std::move(peers));
  // A normal exit message means that the job is to be forgotten. CAF actors ignore it by default.
  self->set_exit_handler([=](caf::exit_msg& exit) {
    exit.reason ? self->quit(std::move(exit.reason)) : self->state.leave();
  });
  return {
      [=](const Inbound& inbound) { self->state.on_inbound(inbound); },
      [=](const Msg<wire::Allocation>& m) { self->state.on_allocation(*m.view()); },
      [=](const Msg<wire::DemandRefused>& m) { self->state.on_refused(*m.view()); },
      [=](const Msg<wire::Inventory>& m) { self->state.on_inventory(m); },
      [=](const Msg<wire::PlanAnswer>& m) { self->state.on_plans(*m.view()); },
      [=](const Msg<wire::PlanList>& m) { self->state.on_plan_list(m); },
      [=](const PeerDown& down) { self->state.on_peer_down(down); },
      [=](const Msg<wire::DescribeJob>&) { return self->state.details(self->state.shown_state()); },
      [=](const Msg<wire::CancelJob>&) { self->state.cancel_unasked(); },
      [=](StoreRecoveredAtom) { self->state.on_store_recovered(); },
      [=](TickAtom) { self->state.tick(); },
  };
}

}  // namespace es::actors
