#include "actors/head/intra_job/shell/intra_job.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/gateway/shell/visit.h"
#include "actors/base/protocol/core/process_exit.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/base/protocol/wire/job_cluster_codec.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/head/intra_job/shell/client_commands.h"
#include "store/metrics/metric.h"

namespace es::actors {
namespace {

IntraJobOptions completed(IntraJobOptions options, const JobClock& clock) {
  const std::filesystem::path directory = options.config.spec.checkpoint.directory;
  if (!directory.empty()) options.config.checkpoint_directory = (directory / options.job).string();
  options.config.zero_unix_ms = clock.date_of_zero();
  return options;
}

intra_job::JobPlanner::Options planner_options(const IntraJobOptions& options) {
  const intra_job::Config& config = options.config;
  return {.max_p = config.spec.max_p,
          .level = config.spec.level,
          .resources = config.spec.resources,
          .start_version = config.start_version,
          .last_version = config.last_version,
          .pause_assumed = options.pause_assumed,
          .suspend_assumed = options.suspend_assumed};
}

intra_job::Services services_of(std::shared_ptr<HeadStore> store,
                                const intra_job::JobPlanner& planner, const JobSpec& spec) {
  intra_job::Services services;
  services.next_incarnation = [store = std::move(store)] {
    // This cannot fail, because the cluster scheduler made the first call.
    return store->next_incarnation().value();
  };
  services.assign_ranks = [&planner](std::uint32_t max_p, const std::vector<DeviceId>& devices) {
    return planner.speeds().assign_ranks(max_p, devices);
  };
  services.metrics = [&spec](const protocol::Bytes& totals) -> protocol::MetricValue {
    const auto decoded = store::MetricTotals::decode(*totals);
    // Without totals no metric has a value, and nothing is better.
    auto metrics = decoded ? store::summarise(spec, *decoded) : std::vector<store::NamedMetric>();
    return [metrics = std::move(metrics)](const std::string& name) {
      return store::metric_value(metrics, name);
    };
  };
  return services;
}

intra_job::JobCore make_core(const IntraJobOptions& options, intra_job::Services services,
                             const std::optional<StoredHistory>& history) {
  if (!history) return {options.config, std::move(services), options.record};
  return {options.config, std::move(services), options.record, history->ledger};
}

}  // namespace

Result<std::unique_ptr<IntraJob>> IntraJob::create(IntraJobOptions options,
                                                   Surroundings surroundings) {
  std::optional<StoredHistory> history;
  if (options.restored) {
    auto stored = read_history(*surroundings.store, options.job, options.config);
    if (!stored) return stored.error();
    history = *std::move(stored);
  }
  return std::unique_ptr<IntraJob>(
      new IntraJob(std::move(options), std::move(surroundings), std::move(history)));
}

IntraJob::IntraJob(IntraJobOptions options, Surroundings surroundings,
                   std::optional<StoredHistory> history)
    : around_(std::move(surroundings)),
      clock_(around_.clock, options.unix_ms),
      options_(completed(std::move(options), clock_)),
      log_(options_.job, options_.log_file, clock_,
           [this](const std::string& line) { followers_.tell_line(line); }),
      archive_(around_.store, options_.record),
      planner_(planner_options(options_), options_.record.refusals),
      core_(
          make_core(options_, services_of(around_.store, planner_, options_.config.spec), history)),
      awaited_(core_.fleet(), clock_.now()),
      lost_steps_(options_.restored && !core_.fleet().workers().empty()),
      effects_(clock_,
               {.perform = [this](const intra_job::Effect& e) { return performer_.perform(e); },
                .before_held = [this] { return plans_.save_waiting_refusals(); },
                .step_reported =
                    [this] {
                      plans_.step_added();
                      followers_.progress();
                    },
                .stalled = [this](const Error& reason) { stalled(reason); }}),
      evaluations_(options_.config.spec),
      views_({options_.config, core_, planner_, lost_steps_, clock_, archive_, effects_, reports_,
              evaluations_}),
      numbers_(core_.generation()),
      answers_(options_.job, around_.mail),
      followers_(answers_, views_, log_),
      requests_(answers_, numbers_),
      traces_(options_.job, {options_.config, core_, clock_, numbers_, log_, around_.mail}),
      nodes_({options_.config, core_, archive_, log_, around_.mail}),
      plans_({planner_, core_, clock_, effects_, archive_, log_, around_.mail,
              [this](const intra_job::Event& event) { happens(event); }}),
      performer_({core_, lost_steps_, clock_, log_, around_.mail, archive_, evaluations_, views_,
                  followers_, requests_, traces_, nodes_, plans_}) {
  if (!history) return;
  for (const auto& [version, totals] : history->evaluations)
    evaluations_.add(version, std::as_bytes(std::span(totals)));
}

void IntraJob::start() {
  perform(core_.start(clock_.now()));
  plans_.tell_journaled_refusals();
}

// --- what arrives from the gateway

void IntraJob::on_inbound(const Inbound& inbound) {
  const MessageType type = inbound.frame->envelope.type;
  if (protocol::is_worker_message(type) || type == MessageType::kWorkerStats)
    return on_worker_message(inbound);
  switch (type) {
    case MessageType::kWorkerExited:
      return (void)visit<wire::WorkerExited>(inbound, [&](auto r) { on_worker_exited(r); });
    case MessageType::kNodeHello:
      return (void)visit<wire::NodeHello>(inbound, [&](auto r) { on_node_hello(r); });
    case MessageType::kStatesFound:
      if (auto found = nodes_.states_found(inbound)) happens(*std::move(found));
      return;
    case MessageType::kStatesRemoved:
      return nodes_.on_states_removed(inbound);
    case MessageType::kReadState:
      return nodes_.on_read_state(inbound);
    case MessageType::kStatePart:
      return nodes_.on_state_part(inbound);
    case MessageType::kTraceAnswer:
      traces_.on_answer(inbound);
      return arm_timer();
    case MessageType::kTracePart:
      traces_.on_part(inbound);
      return arm_timer();
    default:
      return on_client(inbound);
  }
}

void IntraJob::on_client(const Inbound& inbound) {
  const MessageType type = inbound.frame->envelope.type;
  if (is_command(type)) return on_command(inbound);
  switch (type) {
    case MessageType::kDescribeJob:
      return answers_.answer<wire::JobDetails>(
          request_of(inbound), [this](auto b) { views_.put_details(b, views_.shown_state()); });
    case MessageType::kFollowJob:
      return followers_.follow(inbound);
    case MessageType::kListPlans:
      return on_list_plans(inbound);
    case MessageType::kTraceJob:
      traces_.on_request(inbound);
      return arm_timer();
    default:
      answers_.refuse(request_of(inbound), usage_error("not a request about a job: message type " +
                                                       std::to_string(static_cast<int>(type))));
  }
}

void IntraJob::on_command(const Inbound& inbound) {
  if (const Status accepting = check_accepting(); !accepting.ok())
    return answers_.refuse(request_of(inbound), accepting.error());
  if (const auto command = requests_.take_command(inbound)) happens(*command);
}

// Checked before a command is accepted, because the change has to be journaled.
Status IntraJob::check_accepting() {
  if (const auto& trouble = effects_.trouble()) return *trouble;
  const Status writable = archive_.check_writable();
  if (!writable.ok()) around_.mail.store_failed(writable.error().message);
  return writable;
}

void IntraJob::on_list_plans(const Inbound& inbound) {
  if (is_over(core_.state()))
    return answers_.refuse(request_of(inbound), refused("the job has ended"));
  plans_.list(requests_.take_plan_list(inbound));
}

void IntraJob::on_worker_message(const Inbound& inbound) {
  const Incarnation sender = inbound.frame->envelope.sender;
  // The gateway knows which process sent a message; the sender in the envelope is only what that
  // process claims.
  if (inbound.from != worker_peer(sender))
    return log_.write("refused a message of " + inbound.from + " in the name of worker " +
                      std::to_string(sender.value));
  awaited_.heard(sender);
  if (inbound.frame->envelope.type == MessageType::kWorkerStats)
    return (void)visit<wire::WorkerStats>(inbound, [&](auto r) { on_worker_stats(r, sender); });
  const auto message = protocol::decode_worker(inbound.frame);
  if (!message) return log_.write(inbound.from + ": " + message.error().message);
  if (std::holds_alternative<protocol::Drained>(*message)) lost_steps_.drained();
  traces_.message_arrived();
  perform(core_.on(*message, clock_.now()));
}

void IntraJob::on_worker_stats(wire::WorkerStats::Reader r, Incarnation sender) {
  if (const Status added = reports_.add(sender, r); !added.ok())
    return log_.write("worker " + std::to_string(sender.value) + ": " + added.error().message);
  const auto at = core_.fleet().workers().find(sender);
  const unsigned ests = r.getEstSeconds().size();
  // A report without times, or of a worker that is gone, says nothing about a device.
  if (at == core_.fleet().workers().end() || ests == 0 || !(r.getLocalStepSeconds() > 0)) return;
  plans_.measured({.device = at->second.device,
                   .worker = sender,
                   .local_steps = std::uint64_t{ests} * r.getSteps(),
                   .seconds = r.getLocalStepSeconds()});
}

void IntraJob::on_worker_exited(wire::WorkerExited::Reader r) {
  const Incarnation incarnation{r.getIncarnation()};
  reports_.forget(incarnation);
  const ProcessExit exit{.exit_code = r.getExitCode(),
                         .signal = r.getSignal(),
                         .last_words = r.getLastWords().cStr(),
                         .out_of_memory = r.getOutOfMemory()};
  happens(intra_job::WorkerExited{.incarnation = incarnation,
                                  .description = describe(exit),
                                  .cause = cause_of(exit),
                                  .way = way_of(exit)});
  const bool released = exit.exit_code == 0 && exit.signal == 0;
  traces_.worker_gone(incarnation, released ? "" : describe(exit));
  arm_timer();
}

// The Hello of a node lists the processes that run there. Any other process of this job on the node
// is gone. A worker that was to be killed while the node was away is killed now.
void IntraJob::on_node_hello(wire::NodeHello::Reader r) {
  const std::string node = r.getName().cStr();
  // What was on its way to the node is lost, and must not be sent now.
  effects_.forget_node(node, core_.fleet());
  std::set<Incarnation> running;
  for (const std::uint64_t worker : r.getWorkers()) running.insert({worker});
  std::vector<Incarnation> gone;
  for (const auto& [incarnation, worker] : core_.fleet().workers()) {
    if (worker.device.node != node) continue;
    if (!running.contains(incarnation)) {
      gone.push_back(incarnation);
    } else if (worker.killed) {
      nodes_.perform(intra_job::KillWorker{incarnation});
    }
  }
  for (const Incarnation incarnation : gone)
    reaped(incarnation, "does not run any more, as its node reports",
           "its process does not run any more, as its node reports");
  happens(intra_job::NodeSaidHello{node});
}

void IntraJob::on_peer_down(const PeerDown& down) {
  traces_.client_gone(down.peer);
  std::set<Incarnation> silent, homeless;
  for (const auto& [incarnation, worker] : core_.fleet().workers()) {
    if (awaited_.contains(incarnation)) continue;  // it has not found this head yet
    if (down.peer == worker_peer(incarnation)) silent.insert(incarnation);
    if (down.peer == node_peer(worker.device.node)) homeless.insert(incarnation);
  }
  // What waits for a worker or a node behind the broken link is dropped first, so that the effects
  // of the loss itself stay.
  for (const Incarnation incarnation : silent) effects_.forget_worker(incarnation);
  if (const auto node = node_of(down.peer)) effects_.forget_node(*node, core_.fleet());
  lose(silent, down.peer + " is silent");
  // These workers count as reaped: the node is admitted again only after none of its old processes
  // is left.
  for (const Incarnation incarnation : homeless)
    reaped(incarnation, "its node is lost", "its node is lost");
  arm_timer();
}

// Its process has ended together with its node, or while the node was away.
void IntraJob::reaped(Incarnation worker, const std::string& why, const std::string& for_trace) {
  happens(intra_job::WorkerExited{worker, why, true});
  traces_.worker_gone(worker, for_trace);
}

void IntraJob::lose(const std::set<Incarnation>& workers, const std::string& why) {
  for (const Incarnation worker : workers) happens(intra_job::WorkerLost{worker, why});
}

// --- what arrives from the cluster scheduler and the companion

void IntraJob::on_allocation(wire::Allocation::Reader r) {
  const protocol::Allocation allocation = protocol::value_of(r);
  happens(allocation);
  plans_.allocated(allocation.sequence);
}

void IntraJob::on_refused(wire::DemandRefused::Reader r) {
  happens(protocol::value_of(r));
}

void IntraJob::on_inventory(const Msg<wire::Inventory>& inventory) {
  plans_.devices_exist(device_set_from(inventory.view()->getDevices()));
  happens(intra_job::NodesPresent(around_.present_nodes->of(inventory)));
  plans_.ask_for_plans();
}

void IntraJob::on_plans(wire::PlanAnswer::Reader r) {
  plans_.answered(protocol::value_of(r));
}

void IntraJob::on_plan_list(const Msg<wire::PlanList>& list) {
  const auto client = requests_.plan_list_of(list.envelope().request);
  if (!client) return;
  auto view = list.view();
  answers_.answer<wire::PlanList>(*client, [&](wire::PlanList::Builder b) {
    b.setPlans(view->getPlans());
    b.setComplete(view->getComplete());
    b.setSpeeds(view->getSpeeds());
    b.setPlacement(core_.placement());
    b.setPaceSeconds(planner_.pace_seconds());
  });
}

void IntraJob::cancel_unasked() {
  happens(intra_job::CancelCommand{0});
}

void IntraJob::tick() {
  perform(core_.tick(clock_.now()));
  traces_.tick();
  lose(awaited_.take_missing(clock_.now()), "has not connected to the restarted head");
  arm_timer();
}

// --- effects

void IntraJob::perform(intra_job::Effects effects) {
  if (!effects_.is_stalled()) plans_.report_lost_progress();
  effects_.perform(std::move(effects));
  effects_end();
}

void IntraJob::effects_end() {
  performer_.forget_message();
  followers_.tell_progress();
  arm_timer();
}

void IntraJob::stalled(const Error& reason) {
  log_.write(views_.store_warning(), log::Level::kWarning);
  requests_.refuse_commands(reason);
  around_.mail.store_failed(reason.message);
}

void IntraJob::on_store_recovered() {
  if (!effects_.is_stalled()) return;
  if (effects_.recover()) log_.write("the state directory can be written again: the job continues");
  effects_end();
}

void IntraJob::arm_timer() {
  std::optional<Instant> due = core_.next_tick();
  for (const auto& other : {awaited_.next_tick(), traces_.next_tick()})
    if (other) due = std::min(due.value_or(*other), *other);
  around_.timer.arm(due, clock_.now());
}

}  // namespace es::actors
