#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"

#include <caf/all.hpp>

#include "actors/base/access/core/requests.h"
#include "actors/base/protocol/core/durations.h"
#include "actors/base/protocol/wire/job_cluster_codec.h"
#include "actors/base/protocol/wire/wire_error.h"
#include "proto/text_of.h"
#include "scheduler/policy/registry.h"

namespace es::actors {

void ClusterSchedulerState::init(caf::stateful_actor<ClusterSchedulerState>* self,
                                 ClusterSchedulerOptions options, caf::actor gateway,
                                 std::shared_ptr<HeadStore> store) {
  self_ = self;
  options_ = std::move(options);
  gateway_ = std::move(gateway);
  store_ = std::move(store);
  watch_children();
  core_.emplace(options_.make_policy ? options_.make_policy()
                                     : scheduler::make_policy(scheduler::kDefaultPolicy).value(),
                options_.limits);
  if (const Status restored = restore(); !restored.ok()) options_.on_unreadable(restored.error());
  watch_ages();
}

Status ClusterSchedulerState::restore() {
  // This is the first incarnation of this head. Every process with a smaller one was started by an
  // earlier head (strays_of). It has to be drawn before restored jobs draw theirs.
  const auto first = store_->next_incarnation();
  if (!first) return first.error();
  first_own_incarnation_ = *first;
  write_probe_file();
  // Suspect devices and claims are known before the first node joins, so none of their devices
  // looks free to a job.
  ES_RETURN_IF_ERROR(restore_suspects());
  ES_RETURN_IF_ERROR(restore_vacated());
  ES_RETURN_IF_ERROR(restore_claims());
  ES_RETURN_IF_ERROR(restore_usage());
  return restore_jobs();
}

// Works like CAF links: if a child or this actor dies, all of them end. A plain link is not used,
// because the end of one link costs time proportional to the number of links.
void ClusterSchedulerState::watch_children() {
  self_->set_down_handler([this](caf::down_msg& down) {
    children_->erase(down.source.id());
    if (down.reason) self_->quit(std::move(down.reason));
  });
  self_->attach_functor([children = children_](const caf::error&) {
    for (const auto& [id, child] : *children)
      caf::anon_send_exit(child, caf::exit_reason::user_shutdown);
    children->clear();
  });
}

double ClusterSchedulerState::now_s() const {
  return in_seconds(self_->clock().now().time_since_epoch());
}

// --- routing

const access::Identity* ClusterSchedulerState::client_of(const Inbound& inbound) {
  if (!inbound.sender || !inbound.sender->owner || !inbound.sender->owner->client) return nullptr;
  return &*inbound.sender->owner->client;
}

void ClusterSchedulerState::on_inbound(const Inbound& inbound) {
  if (const Status known = check_tenant(inbound); !known.ok()) {
    // Without a number no client waits for an answer.
    if (inbound.frame->envelope.request != 0) refuse(inbound, known.error());
    return;
  }
  switch (inbound.frame->envelope.type) {
    case MessageType::kNodePlace:
      return on_node_place(inbound);
    case MessageType::kNodeHello:
      return on_node_hello(inbound);
    case MessageType::kDrainNode:
      return on_drain_node(inbound);
    case MessageType::kWorkerExited:
      return on_worker_exited(inbound);
    case MessageType::kDirectoryTried:
      return on_directory_tried(inbound);
    case MessageType::kSubmitJob:
      return submit(inbound);
    case MessageType::kListJobs:
      return list_jobs(inbound);
    case MessageType::kListNodes:
      return list_nodes(inbound);
    case MessageType::kReadLedger:
      return read_ledger(inbound);
    case MessageType::kClearDevice:
      return clear_device(inbound);
    case MessageType::kClaimDevices:
      return claim_devices(inbound);
    case MessageType::kVacateNode:
      return vacate_node(inbound);
    case MessageType::kReserveDevices:
      return reserve_devices(inbound);
    case MessageType::kReleaseClaim:
      return release_claim(inbound);
    case MessageType::kRemoveJob:
      return remove_job(inbound);
    case MessageType::kShutdown:
      return shut_down(inbound);
    default:
      return forward_to_job(inbound);
  }
}

void ClusterSchedulerState::forward_to_job(const Inbound& inbound) {
  const Envelope& envelope = inbound.frame->envelope;
  const auto at = jobs_.find(find_job(envelope.job));
  if (at == jobs_.end()) {
    // A message with a request number comes from a client that waits for an answer. All others are
    // late messages about a job that is no longer known, and are dropped.
    if (envelope.request != 0) refuse(inbound, access::no_such_job(envelope.job));
    return;
  }
  Inbound forwarded = inbound;
  if (envelope.type == MessageType::kCheckpointJob)
    if (const Status filled = fill_in_checkpoint_directory(forwarded, at->first); !filled.ok())
      return refuse(inbound, filled.error());
  self_->send(at->second.actor, std::move(forwarded));
}

// Users may omit the tag of this head from a job id.
JobId ClusterSchedulerState::find_job(const JobId& named) const {
  if (jobs_.contains(named) || store_->job_tag().empty()) return named;
  return named + "-" + store_->job_tag();
}

// A job of another tenant is answered like one that does not exist.
Status ClusterSchedulerState::check_tenant(const Inbound& inbound) const {
  const Envelope& envelope = inbound.frame->envelope;
  const access::RequestKind* kind = access::request_kind(envelope.type);
  if (kind == nullptr || !kind->about_job || shows(inbound, find_job(envelope.job))) return {};
  return access::no_such_job(envelope.job);
}

// Whether this client may know the job. A job that does not exist hides nothing.
bool ClusterSchedulerState::shows(const Inbound& inbound, const JobId& job) const {
  const access::Identity* client = client_of(inbound);
  const auto at = jobs_.find(job);
  return client == nullptr || at == jobs_.end() || client->may_see(at->second.tenant);
}

const store::PathRoots& ClusterSchedulerState::roots_of(const PeerId& client) const {
  return client == kHttpPeer ? options_.roots.http : options_.roots.direct;
}

// Checks the directories that the client named, or chooses one if it named none.
Status ClusterSchedulerState::fill_in_checkpoint_directory(Inbound& inbound, const JobId& job) {
  const auto request = Msg<wire::CheckpointJob>::from_frame(inbound.frame);
  struct Asked {
    std::string directory, otherwise;
    bool at_end = false;
  };
  const auto asked = request->decode([](wire::CheckpointJob::Reader r) {
    return Asked{name_of(r.getDirectory(), "directory"), name_of(r.getOtherwise(), "otherwise"),
                 r.getAtEnd()};
  });
  if (!asked) return asked.error();
  // The client has chosen these paths, so only the directories that clients may use are allowed.
  const store::ConfinedThread confined(roots_of(inbound.from));
  for (const std::string& named : {asked->directory, asked->otherwise})
    if (!named.empty())
      ES_RETURN_IF_ERROR(store::check_named(store::RootKind::kCheckpoints, "--to", named));
  if (!asked->directory.empty()) return {};
  const Envelope& envelope = inbound.frame->envelope;
  std::error_code ignored;
  // An error is not handled here, because it appears when the checkpoint is written.
  std::filesystem::create_directories(options_.checkpoint_dir, ignored);
  const std::string name = job + "-" + std::to_string(options_.unix_ms());
  const std::filesystem::path chosen = options_.checkpoint_dir / name;
  inbound.frame = Msg<wire::CheckpointJob>::build(envelope, [&](wire::CheckpointJob::Builder b) {
                    b.setDirectory(chosen.string());
                    b.setAtEnd(asked->at_end);
                    // A node that cannot write there keeps the checkpoint itself, as it does with
                    // the state of a suspended job.
                    b.setOtherwise(asked->otherwise.empty() ? name : asked->otherwise);
                  }).frame();
  return {};
}

void ClusterSchedulerState::refuse(const Inbound& inbound, const Error& error) {
  answer<wire::Refusal>(inbound, [&](wire::Refusal::Builder b) {
    b.setKind(to_wire(error.kind));
    b.setMessage(error.message);
  });
}

// --- the end

void ClusterSchedulerState::shut_down(const Inbound& inbound) {
  // Live jobs are cancelled, and their end must be written to the journal. Without live jobs
  // nothing has to be written.
  if (const Status ok = check_accepting(); !ok.ok() && !live_jobs_.empty())
    return refuse(inbound, ok.error());
  shutdown_requests_.push_back(inbound);
  stop();
}

void ClusterSchedulerState::stop() {
  stopping_ = true;
  const auto cancel = Msg<wire::CancelJob>::build({}, [](wire::CancelJob::Builder) {});
  for (const JobId& id : live_jobs_) self_->send(jobs_.at(id).actor, cancel);
  // If jobs are live, on_ended() calls this function again after each of them.
  stop_if_idle();
}

void ClusterSchedulerState::close() {
  closed_ = true;
}

void ClusterSchedulerState::stop_if_idle() {
  if (!stopping_ || !live_jobs_.empty()) return;
  for (const Inbound& request : shutdown_requests_) answer<wire::Done>(request, [](auto) {});
  shutdown_requests_.clear();
  options_.on_stopped();
}

caf::behavior cluster_scheduler_actor(caf::stateful_actor<ClusterSchedulerState>* self,
                                      ClusterSchedulerOptions options, caf::actor gateway,
                                      std::shared_ptr<HeadStore> store) {
  self->state.init(self, std::move(options), std::move(gateway), std::move(store));
  return {
      [=](const Inbound& inbound) { self->state.on_inbound(inbound); },
      [](const PeerUp&) {},  // a peer introduces itself by its first message
      [=](const PeerDown& down) { self->state.on_peer_down(down); },
      [=](const Msg<wire::Demand>& m) { self->state.on_demand(m.envelope().job, *m.view()); },
      [=](const Msg<wire::DeviceReleased>& m) {
        self->state.on_job_message(m.envelope().job, protocol::value_of(*m.view()));
      },
      [=](const Msg<wire::DeviceFailed>& m) {
        self->state.on_device_failed(m.envelope().job, protocol::value_of(*m.view()));
      },
      [=](const Msg<wire::DevicesWork>& m) {
        self->state.on_devices_work(m.envelope().job, protocol::value_of(*m.view()));
      },
      [=](const Msg<wire::DeviceSuspected>& m) {
        self->state.on_suspected(protocol::value_of(*m.view()));
      },
      [=](const Msg<wire::DevicesKept>& m) {
        self->state.on_devices_kept(m.envelope().job, protocol::value_of(*m.view()));
      },
      [=](const Msg<wire::JobEnded>& m) { self->state.on_ended(m.envelope().job); },
      [=](const StopHead&) { self->state.stop(); },
      [=](const CloseHead&) { self->state.close(); },
      [=](StoreFailedAtom, const std::string& reason) { self->state.on_store_failed(reason); },
      [=](HistoryUnreadableAtom, const std::string& reason) {
        self->state.on_history_unreadable(reason);
      },
      [=](TryStoreAtom) { self->state.on_try_store(); },
      [=](ReturnTimeoutAtom) { self->state.on_return_timeout(); },
      [=](TidyAtom) { self->state.tidy(); },
      [=](WatchAgesAtom) { self->state.watch_ages(); },
      [=](DecideAtom, double due_s) { self->state.on_decide(due_s); },
  };
}

}  // namespace es::actors
