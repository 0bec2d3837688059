#include "actors/cluster_scheduler/shell/cluster_scheduler_actor.h"

#include <caf/all.hpp>

#include <cmath>

#include "actors/companion/shell/companion_actor.h"
#include "actors/gateway/core/peer_id.h"
#include "actors/intra_job/shell/intra_job_actor.h"
#include "actors/intra_job/shell/past_job_actor.h"
#include "actors/protocol/core/durations.h"
#include "actors/protocol/wire/shared_body.h"
#include "actors/protocol/wire/wire_devices.h"
#include "actors/protocol/wire/wire_error.h"
#include "proto/base/kill_point.h"
#include "proto/text_of.h"
#include "scheduler/policy/registry.h"

namespace es::actors {
namespace {

using ReturnTimeoutAtom = caf::atom_constant<caf::atom("returned")>;

// How long a restarted head waits for the nodes on which its jobs run.
constexpr auto kReturnTimeout = std::chrono::seconds(5);
constexpr auto kAnswerTimeout = std::chrono::seconds(10);

CompanionOptions companion_options(const AdmittedJob& job) {
  return {.model_key = job.model_key,
          .batch_size = job.spec.batch_size,
          .max_p = job.spec.max_p,
          .max_devices = job.spec.resources.max_devices,
          .mix_types = job.spec.level == DeterminismLevel::kD2};
}

}  // namespace

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
}

Status ClusterSchedulerState::restore() {
  const auto first = store_->next_incarnation();
  if (!first) return first.error();
  first_own_ = *first;
  write_probe_file();
  ES_RETURN_IF_ERROR(restore_suspects());
  ES_RETURN_IF_ERROR(restore_claims());
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

void ClusterSchedulerState::on_inbound(const Inbound& inbound) {
  switch (inbound.frame->head.type) {
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
    case MessageType::kReleaseClaim:
      return release_claim(inbound);
    case MessageType::kShutdown:
      return shut_down(inbound);
    default:
      return forward_to_job(inbound);
  }
}

void ClusterSchedulerState::forward_to_job(const Inbound& inbound) {
  const Head& head = inbound.frame->head;
  const auto at = jobs_.find(find_job(head.job));
  if (at == jobs_.end()) {
    if (head.request != 0)
      refuse(inbound, not_found("job \"" + head.job + "\": there is no such job (see esctl ps)"));
    return;
  }
  Inbound forwarded = inbound;
  if (head.type == MessageType::kCheckpointJob)
    if (const Status filled = fill_in_checkpoint_directory(forwarded, at->first); !filled.ok())
      return refuse(inbound, filled.error());
  self_->send(at->second.actor, std::move(forwarded));
}

// Users may omit the tag of this head from a job id.
JobId ClusterSchedulerState::find_job(const JobId& named) const {
  if (jobs_.contains(named) || store_->job_tag().empty()) return named;
  return named + "-" + store_->job_tag();
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
  const store::ConfinedThread confined(options_.clients.roots);
  for (const std::string& named : {asked->directory, asked->otherwise})
    if (!named.empty())
      ES_RETURN_IF_ERROR(store::check_named(store::RootKind::kCheckpoints, "--to", named));
  if (!asked->directory.empty()) return {};
  const Head& head = inbound.frame->head;
  std::error_code ignored;
  std::filesystem::create_directories(options_.checkpoint_dir, ignored);
  const std::filesystem::path chosen =
      options_.checkpoint_dir / (job + "-" + std::to_string(options_.unix_ms()));
  inbound.frame = Msg<wire::CheckpointJob>::build(head, [&](wire::CheckpointJob::Builder b) {
                    b.setDirectory(chosen.string());
                    b.setAtEnd(asked->at_end);
                    b.setOtherwise(asked->otherwise);
                  }).frame();
  return {};
}

void ClusterSchedulerState::refuse(const Inbound& inbound, const Error& error) {
  answer<wire::Refusal>(inbound, [&](wire::Refusal::Builder b) {
    b.setKind(to_wire(error.kind));
    b.setMessage(error.message);
  });
}

// --- jobs

void ClusterSchedulerState::submit(const Inbound& inbound) {
  const auto message = Msg<wire::SubmitJob>::from_frame(inbound.frame);
  struct Request {
    std::string spec_toml, checkpoint, id;
  };
  const auto request = message->decode([](wire::SubmitJob::Reader r) {
    return Request{text_of(r.getSpecToml(), "job spec"),
                   name_of(r.getFromCheckpoint(), "from_checkpoint"),
                   name_of(r.getRequestId(), "request id")};
  });
  if (!request) return refuse(inbound, request.error());
  const auto accept = [&](const JobId& job) {
    answer<wire::JobAccepted>(inbound, [&](wire::JobAccepted::Builder b) { b.setJob(job); });
  };
  if (const auto made = requests_.find(request->id); made != requests_.end())
    return accept(made->second);
  if (stopping_ || closed_) return refuse(inbound, refused("the head is shutting down"));
  if (const Status ok = check_accepting(); !ok.ok()) return refuse(inbound, ok.error());
  auto admitted = [&] {
    const store::ConfinedThread confined(options_.clients.roots);
    return options_.admit(request->spec_toml, request->checkpoint);
  }();
  if (!admitted) return refuse(inbound, admitted.error());
  if (const Status fits = check_fits(admitted->spec); !fits.ok())
    return refuse(inbound, fits.error());
  const auto sequence = store_->next_sequence();
  if (!sequence) return refuse(inbound, not_written(sequence.error()).error());
  JobRecord record;
  record.id = admitted->spec.name + "-" + std::to_string(*sequence) +
              (store_->job_tag().empty() ? "" : "-" + store_->job_tag());
  record.spec_toml = admitted->spec_toml;
  record.start_checkpoint = request->checkpoint;
  record.sequence = *sequence;
  record.request_id = request->id;
  record.submitted_unix_ms = options_.unix_ms();
  kill_point("submit.before");
  // The record is durable before JobAccepted, so an accepted job survives the head. A repeated
  // request with the same id finds the job in requests_.
  if (const Status saved = not_written(store_->save(record)); !saved.ok())
    return refuse(inbound, saved.error());
  kill_point("submit.journaled");
  const JobId id = record.id;
  start_job(*std::move(admitted), std::move(record), false);
  accept(id);
}

// Before the first node has said hello the devices are not known, and the job is accepted.
Status ClusterSchedulerState::check_fits(const JobSpec& spec) const {
  const DeviceSet& existing = core_->existing_devices();
  if (existing.empty()) return {};
  for (const Stage& stage : spec.stages)
    if (!existing.contains(stage.devices))
      return refused("stages: needs " + stage.devices.text() + ", the cluster has " +
                     existing.text());
  if (spec.stages.empty() && spec.resources.min_devices > existing.total())
    return refused("resources.min_devices = " + std::to_string(spec.resources.min_devices) +
                   ": the cluster has " + existing.text());
  return {};
}

void ClusterSchedulerState::start_job(AdmittedJob admitted, JobRecord record, bool restored) {
  const JobId id = record.id;
  if (!record.request_id.empty()) requests_[record.request_id] = id;
  const auto companion =
      self_->spawn<caf::monitored>(companion_actor, companion_options(admitted), store_);
  live_.insert(id);
  take(admitted_event(id, admitted.spec, record, restored));
  IntraJobOptions options;
  options.job = id;
  options.spec = std::move(admitted.spec);
  options.spec_toml = std::move(admitted.spec_toml);
  options.config = std::move(admitted.config);
  options.record = std::move(record);
  options.restored = restored;
  options.pause_assumed = std::chrono::nanoseconds(std::llround(options_.rescale_s * 1e9));
  options.config.suspend_prefix = (options_.checkpoint_dir / (id + "-suspended-")).string();
  if (!options_.log_dir.empty()) options.log_file = options_.log_dir / (id + ".log");
  jobs_[id].companion = companion;
  jobs_[id].actor = self_->spawn<caf::monitored>(
      intra_job_actor, std::move(options),
      IntraJobPeers{caf::actor_cast<caf::actor>(self_), companion, gateway_, store_});
  for (const caf::actor& child : {companion, jobs_.at(id).actor})
    children_->emplace(child.id(), child);
  enter_in_order(id);
  self_->send(jobs_.at(id).actor, inventory());
}

void ClusterSchedulerState::enter_in_order(const JobId& job) {
  const std::uint64_t number = submit_order_.empty() ? 0 : submit_order_.rbegin()->first + 1;
  jobs_.at(job).number = number;
  submit_order_.emplace(number, job);
}

Status ClusterSchedulerState::restore_jobs() {
  auto records = store_->load_all();
  if (!records) return records.error();
  for (JobRecord& record : *records) {
    if (is_over(record.state)) {
      restore_past(std::move(record));
      continue;
    }
    auto admitted = options_.admit(record.spec_toml, record.start_checkpoint);
    if (admitted) {
      for (const KnownWorker& w : record.known) {
        survivors_[w.incarnation] = {record.id, w.device};
        awaited_.insert(node_peer(w.device.node));
      }
      start_job(*std::move(admitted), std::move(record), true);
      continue;
    }
    record.state = JobState::kFailed;
    record.error = "after a restart of the head: " + admitted.error().message;
    keep([this, record] { return store_->save(record); });
    restore_past(std::move(record));
  }
  if (!awaited_.empty()) self_->delayed_send(self_, kReturnTimeout, ReturnTimeoutAtom::value);
  return {};
}

// The job is over, but clients may ask about it.
void ClusterSchedulerState::restore_past(JobRecord record) {
  const JobId id = record.id;
  if (!record.request_id.empty()) requests_[record.request_id] = id;
  std::filesystem::path log_file;
  if (!options_.log_dir.empty()) log_file = options_.log_dir / (id + ".log");
  jobs_[id] = {self_->spawn(past_job_actor, std::move(record), log_file, gateway_, store_), true};
  enter_in_order(id);
}

// Clients that ask while an answer is being made wait for the next one and are answered together.
// The running answer may be older than something that such a client has been told already, for
// example that its job was accepted.
void ClusterSchedulerState::list_jobs(const Inbound& inbound) {
  list_waiting_.push_back(inbound);
  if (!listing_) gather_jobs();
}

void ClusterSchedulerState::gather_jobs() {
  listing_ = true;
  auto listing = std::make_shared<Listing>();
  listing->clients = std::exchange(list_waiting_, {});
  listing->jobs.resize(submit_order_.size());
  listing->missing = submit_order_.size();
  if (submit_order_.empty()) return answer_list(*listing);
  const auto describe = Msg<wire::DescribeJob>::build({}, [](wire::DescribeJob::Builder) {});
  std::size_t next = 0;
  for (const auto& [number, id] : submit_order_)
    self_->request(jobs_.at(id).actor, kAnswerTimeout, describe)
        .then(
            [this, listing, i = next++](const Msg<wire::JobDetails>& details) {
              listing->jobs[i] = details;
              if (--listing->missing == 0 && !listing->failed) answer_list(*listing);
            },
            [this, listing](const caf::error&) {
              if (std::exchange(listing->failed, true)) return;
              for (const Inbound& client : listing->clients)
                refuse(client, failure("a job does not answer"));
              end_listing();
            });
}

// All clients share one encoded body.
void ClusterSchedulerState::answer_list(const Listing& listing) {
  const auto list = Msg<wire::JobList>::build({}, [&](wire::JobList::Builder b) {
    b.setWarning(store_warning());
    auto jobs = b.initJobs(listing.jobs.size());
    for (std::size_t i = 0; i < listing.jobs.size(); ++i)
      jobs.setWithCaveats(i, listing.jobs[i].view()->getInfo());
  });
  for (const Inbound& client : listing.clients)
    self_->send(
        gateway_,
        Outbound{client.from, with_head(list.frame(), {.request = client.frame->head.request})});
  end_listing();
}

void ClusterSchedulerState::end_listing() {
  listing_ = false;
  if (!list_waiting_.empty()) gather_jobs();
}

void ClusterSchedulerState::on_ended(const JobId& job) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end() || at->second.over) return;
  at->second.over = true;
  live_.erase(job);
  kept_devices_.erase(job);
  take(cluster::JobEnded{job});
  if (!options_.keep_past_jobs) forget_job(job);
  stop_if_idle();
}

// No client will ask about this job. Its actors are no longer monitored, because their end is
// expected.
void ClusterSchedulerState::forget_job(const JobId& job) {
  const auto at = jobs_.find(job);
  for (const caf::actor& actor : {at->second.actor, at->second.companion}) {
    self_->demonitor(actor);
    children_->erase(actor.id());
    self_->send_exit(actor, caf::exit_reason::normal);
  }
  keep([this, job] { return store_->forget(job); });
  submit_order_.erase(at->second.number);
  jobs_.erase(at);
}

// --- the end

void ClusterSchedulerState::shut_down(const Inbound& inbound) {
  if (!options_.clients.may_shut_down)
    return refuse(inbound, refused("Shutdown: allowed is only over the local socket (ipc); on its "
                                   "own machine this head is ended with SIGTERM"));
  if (const Status ok = check_accepting(); !ok.ok() && !live_.empty())
    return refuse(inbound, ok.error());
  shutdown_requests_.push_back(inbound);
  stop();
}

void ClusterSchedulerState::stop() {
  stopping_ = true;
  const auto cancel = Msg<wire::CancelJob>::build({}, [](wire::CancelJob::Builder) {});
  for (const JobId& id : live_) self_->send(jobs_.at(id).actor, cancel);
  stop_if_idle();
}

void ClusterSchedulerState::close() {
  closed_ = true;
}

void ClusterSchedulerState::stop_if_idle() {
  if (!stopping_ || !live_.empty()) return;
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
      [=](const Msg<wire::Demand>& m) { self->state.on_demand(m.head().job, *m.view()); },
      [=](const Msg<wire::DeviceReleased>& m) { self->state.on_released(m.head().job, *m.view()); },
      [=](const Msg<wire::DeviceSuspected>& m) { self->state.on_suspected(*m.view()); },
      [=](const Msg<wire::DevicesKept>& m) { self->state.on_kept(m.head().job, *m.view()); },
      [=](const Msg<wire::JobEnded>& m) { self->state.on_ended(m.head().job); },
      [=](const StopHead&) { self->state.stop(); },
      [=](const CloseHead&) { self->state.close(); },
      [=](StoreFailedAtom, const std::string& reason) { self->state.on_store_failed(reason); },
      [=](HistoryUnreadableAtom, const std::string& reason) {
        self->state.on_history_unreadable(reason);
      },
      [=](TryStoreAtom) { self->state.on_try_store(); },
      [=](ReturnTimeoutAtom) { self->state.on_return_timeout(); },
      [=](DecideAtom, double due_s) { self->state.on_decide(due_s); },
  };
}

}  // namespace es::actors
