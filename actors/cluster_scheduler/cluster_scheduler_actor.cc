#include "actors/cluster_scheduler/cluster_scheduler_actor.h"

#include <caf/all.hpp>

#include <cmath>
#include <iostream>

#include "actors/common/wire_devices.h"
#include "actors/common/wire_error.h"
#include "actors/companion/companion_actor.h"
#include "actors/intra_job/durations.h"
#include "actors/intra_job/intra_job_actor.h"
#include "actors/intra_job/past_job_actor.h"
#include "actors/node_agent/node_agent_actor.h"
#include "proto/base/kill_point.h"
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
  const auto first = store_->next_incarnation();
  ES_CHECK_MSG(first.ok(), first.ok() ? "" : "journal: " + first.error().message);
  first_own_ = *first;
  std::error_code ignored;  // who writes there says what is wrong
  if (!options_.checkpoint_dir.empty())
    std::filesystem::create_directories(options_.checkpoint_dir, ignored);
  restore_suspects();
  restore_claims();
  restore_jobs();
}

// As links would: when one dies, or this actor does, so do all. But the end of one link costs as
// much as there are links, in CAF.
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
  const auto at = jobs_.find(head.job);
  if (at == jobs_.end()) {
    if (head.request != 0)
      refuse(inbound, not_found("job \"" + head.job + "\": there is no such job (see esctl ps)"));
    return;
  }
  Inbound forwarded = inbound;
  if (head.type == MessageType::kCheckpointJob) fill_in_checkpoint_directory(forwarded);
  self_->send(at->second.actor, std::move(forwarded));
}

void ClusterSchedulerState::fill_in_checkpoint_directory(Inbound& inbound) {
  const auto request = Msg<wire::CheckpointJob>::from_frame(inbound.frame);
  const auto directory = request->decode(
      [](wire::CheckpointJob::Reader r) { return std::string(r.getDirectory().cStr()); });
  if (!directory || !directory->empty()) return;
  const Head& head = inbound.frame->head;
  std::error_code ignored;
  std::filesystem::create_directories(options_.checkpoint_dir, ignored);
  const std::filesystem::path chosen =
      options_.checkpoint_dir / (head.job + "-" + std::to_string(options_.unix_ms()));
  inbound.frame = Msg<wire::CheckpointJob>::build(head, [&](wire::CheckpointJob::Builder b) {
                    b.setDirectory(chosen.string());
                  }).frame();
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
    return Request{r.getSpecToml().cStr(), r.getFromCheckpoint().cStr(), r.getRequestId().cStr()};
  });
  if (!request) return refuse(inbound, request.error());
  const auto accept = [&](const JobId& job) {
    answer<wire::JobAccepted>(inbound, [&](wire::JobAccepted::Builder b) { b.setJob(job); });
  };
  if (const auto made = requests_.find(request->id); made != requests_.end())
    return accept(made->second);
  if (stopping_ || closed_) return refuse(inbound, refused("the head is shutting down"));
  auto admitted = options_.admit(request->spec_toml, request->checkpoint);
  if (!admitted) return refuse(inbound, admitted.error());
  if (const Status fits = check_fits(admitted->spec); !fits.ok())
    return refuse(inbound, fits.error());
  const auto sequence = store_->next_sequence();
  if (!sequence) return refuse(inbound, sequence.error());
  store::JobRecord record;
  record.id = admitted->spec.name + "-" + std::to_string(*sequence);
  record.spec_toml = admitted->spec_toml;
  record.start_checkpoint = request->checkpoint;
  record.sequence = *sequence;
  record.request_id = request->id;
  record.submitted_unix_ms = options_.unix_ms();
  kill_point("submit.before");
  if (const Status saved = store_->save(record); !saved.ok()) return refuse(inbound, saved.error());
  kill_point("submit.journaled");
  const JobId id = record.id;
  start_job(*std::move(admitted), std::move(record), false);
  accept(id);
}

// Before any node has said hello nothing is known, and the job waits.
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

void ClusterSchedulerState::start_job(AdmittedJob admitted, store::JobRecord record,
                                      bool restored) {
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

void ClusterSchedulerState::restore_jobs() {
  auto records = store_->load_all();
  ES_CHECK_MSG(records.ok(), records.ok() ? "" : "journal: " + records.error().message);
  for (store::JobRecord& record : *records) {
    if (store::is_final(record.phase)) {
      restore_past(std::move(record));
      continue;
    }
    auto admitted = options_.admit(record.spec_toml, record.start_checkpoint);
    if (admitted) {
      for (const store::KnownWorker& w : record.known) {
        survivors_[w.incarnation] = {record.id, {w.node, w.device_type, w.device_index}};
        awaited_.insert(node_peer(w.node));
      }
      start_job(*std::move(admitted), std::move(record), true);
      continue;
    }
    record.phase = store::JobPhase::kFailed;
    record.error = "after a restart of the head: " + admitted.error().message;
    if (const Status saved = store_->save(record); !saved.ok())
      std::cerr << "journal: " << saved.error().message << std::endl;
    restore_past(std::move(record));
  }
  if (!awaited_.empty()) self_->delayed_send(self_, kReturnTimeout, ReturnTimeoutAtom::value);
}

// Over, but people may ask for it.
void ClusterSchedulerState::restore_past(store::JobRecord record) {
  const JobId id = record.id;
  if (!record.request_id.empty()) requests_[record.request_id] = id;
  std::filesystem::path log_file;
  if (!options_.log_dir.empty()) log_file = options_.log_dir / (id + ".log");
  jobs_[id] = {self_->spawn(past_job_actor, std::move(record), log_file, gateway_, store_), true};
  enter_in_order(id);
}

void ClusterSchedulerState::list_jobs(const Inbound& inbound) {
  auto infos = std::make_shared<std::vector<Msg<wire::JobDetails>>>();
  auto missing = std::make_shared<std::size_t>(submit_order_.size());
  const auto finish = [this, inbound, infos] {
    answer<wire::JobList>(inbound, [&](wire::JobList::Builder b) {
      auto list = b.initJobs(infos->size());
      for (std::size_t i = 0; i < infos->size(); ++i)
        list.setWithCaveats(i, (*infos)[i].view()->getInfo());
    });
  };
  if (submit_order_.empty()) return finish();
  const auto describe = Msg<wire::DescribeJob>::build({}, [](wire::DescribeJob::Builder) {});
  infos->resize(submit_order_.size());
  std::size_t next = 0;
  for (const auto& [number, id] : submit_order_)
    self_->request(jobs_.at(id).actor, kAnswerTimeout, describe)
        .then(
            [=, i = next++](const Msg<wire::JobDetails>& details) {
              (*infos)[i] = details;
              if (--*missing == 0) finish();
            },
            [=, this](const caf::error&) {
              if (*missing == 0) return;
              *missing = 0;
              refuse(inbound, failure("a job does not answer"));
            });
}

void ClusterSchedulerState::on_ended(const JobId& job) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end() || at->second.over) return;
  at->second.over = true;
  live_.erase(job);
  take(cluster::JobEnded{job});
  if (!options_.keep_past_jobs) forget_job(job);
  stop_if_idle();
}

// Nobody is going to ask. That its actors end then is no news.
void ClusterSchedulerState::forget_job(const JobId& job) {
  const auto at = jobs_.find(job);
  for (const caf::actor& actor : {at->second.actor, at->second.companion}) {
    self_->demonitor(actor);
    children_->erase(actor.id());
    self_->send_exit(actor, caf::exit_reason::normal);
  }
  const Status forgotten = store_->forget(job);
  ES_CHECK_MSG(forgotten.ok(), forgotten.ok() ? "" : "journal: " + forgotten.error().message);
  submit_order_.erase(at->second.number);
  jobs_.erase(at);
}

// --- the end

void ClusterSchedulerState::shut_down(const Inbound& inbound) {
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
      [](const PeerUp&) {},  // peers introduce themselves by their first message
      [=](const PeerDown& down) { self->state.on_peer_down(down); },
      [=](const Msg<wire::Demand>& m) { self->state.on_demand(m.head().job, *m.view()); },
      [=](const Msg<wire::DeviceReleased>& m) { self->state.on_released(m.head().job, *m.view()); },
      [=](const Msg<wire::DeviceSuspected>& m) { self->state.on_suspected(*m.view()); },
      [=](const Msg<wire::JobEnded>& m) { self->state.on_ended(m.head().job); },
      [=](const StopHead&) { self->state.stop(); },
      [=](const CloseHead&) { self->state.close(); },
      [=](ReturnTimeoutAtom) { self->state.on_return_timeout(); },
      [=](DecideAtom, double due_s) { self->state.on_decide(due_s); },
  };
}

}  // namespace es::actors
