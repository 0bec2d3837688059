#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"

#include <caf/all.hpp>

#include <chrono>

#include "actors/base/access/core/requests.h"
#include "actors/base/gateway/shell/visit.h"
#include "actors/base/log/log.h"
#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/wire/job_cluster_codec.h"
#include "actors/head/cluster_scheduler/shell/checkpoint_request.h"
#include "actors/head/cluster_scheduler/shell/ledger_part.h"
#include "actors/head/store_atoms.h"
#include "scheduler/policy/registry.h"

namespace es::actors {
namespace {

// From the actor to itself: it is time to ask the policy.
using DecideAtom = caf::atom_constant<caf::atom("decide")>;
// From the actor to itself: the nodes of the journal had time to return.
using ReturnTimeoutAtom = caf::atom_constant<caf::atom("returned")>;
// From the actor to itself: jobs that are over may have to be removed.
using TidyAtom = caf::atom_constant<caf::atom("tidy")>;
using WatchAgesAtom = caf::atom_constant<caf::atom("ages")>;

constexpr auto kTryStoreAgain = std::chrono::seconds(1);
// How long a restarted head waits for the nodes on which its jobs run.
constexpr auto kReturnTimeout = std::chrono::seconds(5);
// How often the ages of jobs are looked at.
constexpr auto kTidyInterval = std::chrono::minutes(1);

std::unique_ptr<scheduler::Policy> policy_of(const ClusterSchedulerOptions& options) {
  return options.make_policy ? options.make_policy()
                             : scheduler::make_policy(scheduler::kDefaultPolicy).value();
}

}  // namespace

ClusterScheduler::ClusterScheduler(caf::event_based_actor* self, ClusterSchedulerOptions options,
                                   caf::actor gateway, std::shared_ptr<HeadStore> store)
    : self_(self),
      options_(std::move(options)),
      store_(std::move(store)),
      clock_{.now_s = [self] { return in_seconds(self->clock().now().time_since_epoch()); },
             .unix_ms = options_.unix_ms},
      replies_([self, gateway](Outbound frame) { self->send(gateway, std::move(frame)); }),
      writes_(*store_, [self] { self->delayed_send(self, kTryStoreAgain, TryStoreAtom::value); }),
      jobs_(store_->job_tag()),
      actors_(self, gateway, store_),
      decisions_({.policy = policy_of(options_),
                  .limits = options_.limits,
                  .delay = options_.decision_delay,
                  .now_s = clock_.now_s,
                  .stopwatch_s = options_.stopwatch_s},
                 {.perform = [this](const cluster::Effect& effect) { actors_.perform(effect); },
                  .wake =
                      [self](std::chrono::nanoseconds wait, double due_s) {
                        self->delayed_send(self, wait, DecideAtom::value, due_s);
                      },
                  .decided =
                      [this](const Decisions::Outcome& outcome) {
                        if (outcome.usage) usage_.save(*outcome.usage);
                        claims_.ended(outcome.ended_claims);
                        if (options_.watch_decisions) options_.watch_decisions(decisions_.core());
                      }}),
      usage_(*store_, writes_, decisions_, clock_),
      claims_(*store_, writes_, decisions_, options_.limits.queues, clock_),
      suspects_(*store_, writes_, decisions_),
      inventory_(decisions_.core(), book_),
      to_leave_(*store_, writes_, decisions_, book_, clock_),
      nodes_(book_, to_leave_, decisions_, replies_, clock_,
             {.checkpoint_dir = options_.checkpoint_dir, .probe = options_.probe},
             {.tell_live_jobs =
                  [this](const Inbound& inbound) { actors_.send_all(jobs_.live(), inbound); },
              .inventory_changed = [this] { send_inventory(); }}),
      node_list_({.decisions = decisions_,
                  .jobs = jobs_,
                  .claims = claims_,
                  .book = book_,
                  .nodes = nodes_,
                  .queues = options_.limits.queues,
                  .clock = clock_}),
      past_({.store = *store_,
             .writes = writes_,
             .jobs = jobs_,
             .actors = actors_,
             .replies = replies_,
             .options = options_},
            {.tidy_soon = [self] { self->send(self, TidyAtom::value); },
             .watch_later =
                 [self] { self->delayed_send(self, kTidyInterval, WatchAgesAtom::value); }}),
      intake_({.store = *store_,
               .writes = writes_,
               .decisions = decisions_,
               .jobs = jobs_,
               .actors = actors_,
               .past = past_,
               .nodes = book_,
               .inventory = inventory_,
               .options = options_,
               .clock = clock_}),
      lists_(jobs_, decisions_.core(), replies_,
             {.describe = [this](const auto&... what) { actors_.describe(what...); },
              .end_of = [this](const JobId& job) { return past_.end_of(job); },
              .asked = [this](const JobId& job, const auto& end) { past_.keep_end(job, end); },
              .warning = [this] { return writes_.warning(); },
              .unix_ms = options_.unix_ms}) {}

void ClusterScheduler::start() {
  if (const Status restored = restore(); !restored.ok()) options_.on_unreadable(restored.error());
  past_.watch_ages();
}

Status ClusterScheduler::restore() {
  // This is the first incarnation of this head. It has to be drawn before restored jobs draw
  // theirs.
  const auto first = store_->next_incarnation();
  if (!first) return first.error();
  book_.begin_with(*first);
  nodes_.write_probe_file();
  // Suspect devices and claims are known before the first node joins, so none of their devices
  // looks free to a job.
  ES_RETURN_IF_ERROR(suspects_.restore());
  ES_RETURN_IF_ERROR(to_leave_.restore());
  ES_RETURN_IF_ERROR(claims_.restore());
  ES_RETURN_IF_ERROR(usage_.restore());
  ES_RETURN_IF_ERROR(intake_.restore());
  if (book_.awaits_nodes()) self_->delayed_send(self_, kReturnTimeout, ReturnTimeoutAtom::value);
  return {};
}

// --- through the gateway

void ClusterScheduler::on_inbound(const Inbound& inbound) {
  if (const Status known = check_tenant(inbound); !known.ok()) {
    // Without a number no client waits for an answer.
    if (inbound.frame->envelope.request != 0) replies_.refuse(inbound, known.error());
    return;
  }
  switch (inbound.frame->envelope.type) {
    case MessageType::kNodePlace:
      return nodes_.on_place(inbound);
    case MessageType::kNodeHello:
      return nodes_.on_hello(inbound);
    case MessageType::kDrainNode:
      return nodes_.on_drain(inbound);
    case MessageType::kWorkerExited:
      return on_worker_exited(inbound);
    case MessageType::kDirectoryTried:
      return nodes_.on_directory_tried(inbound);
    case MessageType::kReadWorkerLog:
      return read_worker_log(inbound);
    case MessageType::kWorkerLog:
      return nodes_.on_worker_log(inbound);
    case MessageType::kSubmitJob:
      return submit(inbound);
    case MessageType::kListJobs:
      return lists_.list(inbound);
    case MessageType::kListNodes:
      return list_nodes(inbound);
    case MessageType::kReadLedger:
      return read_ledger(inbound);
    case MessageType::kClearDevice:
      return clear_device(inbound);
    case MessageType::kClaimDevices:
      return replies_.reply(inbound, claims_.claim(inbound));
    case MessageType::kVacateNode:
      return vacate_node(inbound);
    case MessageType::kReserveDevices:
      return replies_.reply(inbound, claims_.reserve(inbound));
    case MessageType::kReleaseClaim:
      return replies_.reply(inbound, claims_.release(inbound));
    case MessageType::kRemoveJob:
      return past_.remove(inbound);
    case MessageType::kShutdown:
      return shut_down(inbound);
    default:
      return forward_to_job(inbound);
  }
}

// A job of another tenant is answered like one that does not exist.
Status ClusterScheduler::check_tenant(const Inbound& inbound) const {
  const Envelope& envelope = inbound.frame->envelope;
  const access::RequestKind* kind = access::request_kind(envelope.type);
  if (kind == nullptr || !kind->about_job ||
      jobs_.shows(client_of(inbound), jobs_.find(envelope.job)))
    return {};
  return access::no_such_job(envelope.job);
}

void ClusterScheduler::on_worker_exited(const Inbound& inbound) {
  // The job is informed first. If the process was a stray and the last one, the node joins below.
  forward_to_job(inbound);
  nodes_.on_worker_exited(inbound);
}

void ClusterScheduler::submit(const Inbound& inbound) {
  const Result<JobId> job = intake_.submit(inbound);
  if (!job) return replies_.refuse(inbound, job.error());
  replies_.answer<wire::JobAccepted>(inbound,
                                     [&](wire::JobAccepted::Builder b) { b.setJob(*job); });
}

void ClusterScheduler::list_nodes(const Inbound& inbound) {
  replies_.answer<wire::NodeList>(inbound, [&](wire::NodeList::Builder b) {
    b.setWarning(writes_.warning());
    node_list_.put(b, client_of(inbound));
  });
}

void ClusterScheduler::read_ledger(const Inbound& inbound) {
  const JobId& named = inbound.frame->envelope.job;
  struct Range {
    Version begin, end;
  };
  const auto range = visit<wire::ReadLedger>(inbound, [](wire::ReadLedger::Reader r) {
    return Range{r.getBegin(), r.getEnd()};
  });
  if (!range) return replies_.refuse(inbound, range.error());
  const auto part = ledger_part(*store_, jobs_.find(named), range->begin, range->end);
  if (!part) return replies_.refuse(inbound, part.error());
  if (!part->has_value()) return replies_.refuse(inbound, access::no_such_job(named));
  replies_.answer<wire::LedgerPart>(inbound, [&](wire::LedgerPart::Builder b) { put(b, **part); });
}

void ClusterScheduler::read_worker_log(const Inbound& inbound) {
  const Status asked = nodes_.read_worker_log(inbound, jobs_.find(inbound.frame->envelope.job));
  if (!asked.ok()) replies_.refuse(inbound, asked.error());
}

void ClusterScheduler::clear_device(const Inbound& inbound) {
  const Status cleared = suspects_.clear(inbound);
  if (cleared.ok()) send_inventory();
  replies_.reply(inbound, cleared);
}

void ClusterScheduler::vacate_node(const Inbound& inbound) {
  const Status vacated = to_leave_.vacate(inbound);
  replies_.reply(inbound, vacated);
  if (vacated.ok()) send_inventory();
}

void ClusterScheduler::forward_to_job(const Inbound& inbound) {
  const Envelope& envelope = inbound.frame->envelope;
  const JobId job = jobs_.find(envelope.job);
  if (!jobs_.contains(job)) {
    // A message with a request number comes from a client that waits for an answer. All others are
    // late messages about a job that is no longer known, and are dropped.
    if (envelope.request != 0) replies_.refuse(inbound, access::no_such_job(envelope.job));
    return;
  }
  if (envelope.type != MessageType::kCheckpointJob) return actors_.send(job, inbound);
  auto whole = with_checkpoint_directory(inbound, job, options_.roots.of(inbound.from),
                                         options_.checkpoint_dir, options_.unix_ms());
  if (!whole) return replies_.refuse(inbound, whole.error());
  actors_.send(job, *std::move(whole));
}

void ClusterScheduler::on_peer_down(const PeerDown& down) {
  const auto node = node_named(down.peer);
  if (node && !nodes_.part(*node)) return;
  // The end of a client concerns every job, also those that are over, because the client may follow
  // any of them. The end of a node concerns live jobs only.
  for (const auto& [number, job] : jobs_.in_order())
    if (!node || !jobs_.is_over(job)) actors_.send(job, down);
  if (node) send_inventory();
}

// --- from jobs

void ClusterScheduler::on_job_message(const JobId& job, cluster::JobMessage message) {
  // A job that was forgotten may still have messages in this mailbox.
  if (jobs_.contains(job)) decisions_.take(cluster::FromJob{job, std::move(message)});
}

// Nothing is journaled: after a restart of the head the device is tried again.
void ClusterScheduler::on_device_failed(const JobId& job, protocol::DeviceFailed failed) {
  log::warning("a try to use device " + failed.device.text() + " has failed" +
                   (failed.other.empty() ? "" : " with node " + failed.other) + ": " +
                   failed.reason,
               {.job = job, .node = failed.device.node});
  on_job_message(job, std::move(failed));
}

void ClusterScheduler::on_suspected(const protocol::DeviceSuspected& suspected) {
  suspects_.add(suspected);
  send_inventory();
}

// Similar jobs are told again what exists, so they ask for plans, which are made with the new
// speeds. Without this a job that waits would be judged by what was known when it was submitted,
// and the shorter one of two jobs of a new model might be served last.
void ClusterScheduler::on_speeds_changed(const JobId& measured_by) {
  for (const JobId& job : actors_.similar_to(measured_by))
    if (!jobs_.is_over(job)) actors_.send(job, inventory_.current());
}

void ClusterScheduler::on_ended(const JobId& job) {
  if (!jobs_.end(job)) return;
  past_.log_end_of(job);
  decisions_.take(cluster::FromJob{job, protocol::JobEnded{}});
  past_.keep_or_forget(job);
  stop_if_idle();
}

void ClusterScheduler::send_inventory() {
  inventory_.changed();
  // The next job gets it when it starts.
  if (!jobs_.live().empty()) actors_.send_all(jobs_.live(), inventory_.current());
}

void ClusterScheduler::on_try_store() {
  // The jobs have waiting effects of their own, which they perform now.
  if (writes_.try_again()) actors_.send_all(jobs_.live(), StoreRecoveredAtom::value);
}

// --- the end

void ClusterScheduler::shut_down(const Inbound& inbound) {
  // Live jobs are cancelled, and their end must be written to the journal. Without live jobs
  // nothing has to be written.
  if (const Status ok = writes_.check_accepting(); !ok.ok() && !jobs_.live().empty())
    return replies_.refuse(inbound, ok.error());
  shutdown_requests_.push_back(inbound);
  stop();
}

void ClusterScheduler::stop() {
  stopping_ = true;
  intake_.close();
  actors_.send_all(jobs_.live(), Msg<wire::CancelJob>::build({}, [](wire::CancelJob::Builder) {}));
  // If jobs are live, on_ended() calls this function again after each of them.
  stop_if_idle();
}

void ClusterScheduler::stop_if_idle() {
  if (!stopping_ || !jobs_.live().empty()) return;
  for (const Inbound& request : shutdown_requests_) replies_.reply(request, {});
  shutdown_requests_.clear();
  options_.on_stopped();
}

caf::behavior ClusterScheduler::behavior() {
  return {
      [this](const Inbound& inbound) { on_inbound(inbound); },
      [](const PeerUp&) {},  // a peer introduces itself by its first message
      [this](const PeerDown& down) { on_peer_down(down); },
      [this](const Msg<wire::Demand>& m) {
        std::visit([&](auto message) { on_job_message(m.envelope().job, std::move(message)); },
                   protocol::value_of(*m.view()));
      },
      [this](const Msg<wire::DeviceReleased>& m) {
        on_job_message(m.envelope().job, protocol::value_of(*m.view()));
      },
      [this](const Msg<wire::DeviceFailed>& m) {
        on_device_failed(m.envelope().job, protocol::value_of(*m.view()));
      },
      [this](const Msg<wire::DevicesWork>& m) {
        // Each change of devices ends with this message, and a decision costs time.
        if (decisions_.core().awaits_proof())
          on_job_message(m.envelope().job, protocol::value_of(*m.view()));
      },
      [this](const Msg<wire::DeviceSuspected>& m) { on_suspected(protocol::value_of(*m.view())); },
      [this](const Msg<wire::DevicesKept>& m) {
        jobs_.keeps_devices(m.envelope().job, protocol::value_of(*m.view()).reason);
      },
      [this](const Msg<wire::JobEnded>& m) { on_ended(m.envelope().job); },
      [this](const Msg<wire::CapabilityReport>& m) { on_speeds_changed(m.envelope().job); },
      [this](const StopHead&) { stop(); },
      [this](const CloseHead&) { intake_.close(); },
      [this](StoreFailedAtom, const std::string& reason) { writes_.failed(reason); },
      // A job of an earlier head has met damage that was not found when the head started.
      [this](HistoryUnreadableAtom, const std::string& reason) {
        options_.on_unreadable(failure(reason));
      },
      [this](TryStoreAtom) { on_try_store(); },
      [this](ReturnTimeoutAtom) { nodes_.stop_waiting(); },
      [this](TidyAtom) { past_.tidy(); },
      [this](WatchAgesAtom) { past_.watch_ages(); },
      [this](DecideAtom, double due_s) { decisions_.on_time(due_s); },
  };
}

caf::behavior cluster_scheduler_actor(caf::stateful_actor<ClusterSchedulerState>* self,
                                      ClusterSchedulerOptions options, caf::actor gateway,
                                      std::shared_ptr<HeadStore> store) {
  ClusterScheduler& scheduler =
      self->state.scheduler.emplace(self, std::move(options), std::move(gateway), std::move(store));
  scheduler.start();
  return scheduler.behavior();
}

}  // namespace es::actors
