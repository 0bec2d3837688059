#include "actors/cluster_scheduler/cluster_scheduler_actor.h"

#include <caf/all.hpp>

#include <iostream>

#include "actors/common/wire_devices.h"
#include "actors/common/wire_error.h"
#include "actors/companion/companion_actor.h"
#include "actors/intra_job/intra_job_actor.h"
#include "actors/intra_job/past_job_actor.h"
#include "actors/node_agent/node_agent_actor.h"
#include "proto/base/kill_point.h"
#include "scheduler/policy/greedy.h"

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

cluster::JobAdmitted admitted_event(const JobId& id, const JobSpec& spec, bool restored) {
  return {.job = id,
          .min_devices = spec.resources.min_devices,
          .max_devices = spec.resources.max_devices,
          .device_types = spec.resources.device_types,
          .level = spec.level,
          .max_p = spec.max_p,
          .restored = restored};
}

}  // namespace

ClusterSchedulerState::ClusterSchedulerState()
    : core_(std::make_unique<const scheduler::GreedyPolicy>()) {}

void ClusterSchedulerState::init(caf::stateful_actor<ClusterSchedulerState>* self,
                                 ClusterSchedulerOptions options, caf::actor gateway,
                                 std::shared_ptr<HeadStore> store) {
  self_ = self;
  options_ = std::move(options);
  gateway_ = std::move(gateway);
  store_ = std::move(store);
  const auto first = store_->next_incarnation();
  ES_CHECK_MSG(first.ok(), first.ok() ? "" : "journal: " + first.error().message);
  first_own_ = *first;
  std::error_code ignored;  // who writes there says what is wrong
  if (!options_.checkpoint_dir.empty())
    std::filesystem::create_directories(options_.checkpoint_dir, ignored);
  restore_suspects();
  restore_jobs();
}

// --- routing

void ClusterSchedulerState::on_inbound(const Inbound& inbound) {
  switch (inbound.frame->head.type) {
    case MessageType::kNodeHello: return on_node_hello(inbound);
    case MessageType::kDrainNode: return on_drain_node(inbound);
    case MessageType::kWorkerExited: return on_worker_exited(inbound);
    case MessageType::kSubmitJob: return submit(inbound);
    case MessageType::kListJobs: return list_jobs(inbound);
    case MessageType::kListNodes: return list_nodes(inbound);
    case MessageType::kReadLedger: return read_ledger(inbound);
    case MessageType::kClearDevice: return clear_device(inbound);
    case MessageType::kShutdown: return shut_down(inbound);
    default: return forward_to_job(inbound);
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

// --- nodes

void ClusterSchedulerState::on_node_hello(const Inbound& inbound) {
  const auto hello = Msg<wire::NodeHello>::from_frame(inbound.frame);
  auto node = hello->decode([](wire::NodeHello::Reader r) {
    Arrival n{r.getName().cStr(), {}, {}, {}};
    for (const auto device : r.getDevices()) n.devices.add({device.getType().cStr()}, 1);
    for (const std::uint64_t worker : r.getWorkers()) n.workers.push_back({worker});
    return n;
  });
  std::string reason = node ? "" : node.error().message;
  if (node && inbound.from != node_peer(node->name)) reason = "a node must speak in its own name";
  answer<wire::NodeWelcome>(inbound, [&](wire::NodeWelcome::Builder b) {
    b.setAccepted(reason.empty());
    b.setReason(reason);
  });
  if (!reason.empty()) return;
  // The jobs first: they must know which processes are gone before they are given devices.
  for (const JobId& id : submit_order_) self_->send(jobs_.at(id).actor, inbound);
  node->strays = strays_of(inbound.from, node->workers);
  if (node->strays.empty()) return admit(*node);
  for (const Incarnation stray : node->strays) {
    const auto kill = Msg<wire::KillWorker>::build(
        {}, [&](wire::KillWorker::Builder b) { b.setIncarnation(stray.value); });
    self_->send(gateway_, Outbound{inbound.from, kill.frame()});
  }
  arriving_[inbound.from] = *std::move(node);
}

std::set<Incarnation> ClusterSchedulerState::strays_of(const PeerId& node,
                                                       const std::vector<Incarnation>& workers) {
  const bool was_lost = std::exchange(was_lost_[node], false);
  std::set<Incarnation> strays;
  for (const Incarnation worker : workers)
    if (was_lost || (worker < first_own_ && !survivors_.contains(worker))) strays.insert(worker);
  return strays;
}

// What runs there is handed over, or saved; then the daemon ends.
void ClusterSchedulerState::on_drain_node(const Inbound& inbound) {
  const std::string prefix = node_peer("");
  if (!inbound.from.starts_with(prefix)) return;
  draining_.insert(inbound.from);
  arriving_.erase(inbound.from);
  perform(core_.on(cluster::NodeDraining{inbound.from.substr(prefix.size())}));
  send_inventory();
}

void ClusterSchedulerState::on_worker_exited(const Inbound& inbound) {
  forward_to_job(inbound);
  const auto at = arriving_.find(inbound.from);
  if (at == arriving_.end()) return;
  const auto exited = Msg<wire::WorkerExited>::from_frame(inbound.frame)
                          ->decode([](wire::WorkerExited::Reader r) { return r.getIncarnation(); });
  if (!exited || at->second.strays.erase({*exited}) == 0 || !at->second.strays.empty()) return;
  const Arrival node = std::move(at->second);
  arriving_.erase(at);
  admit(node);
}

void ClusterSchedulerState::admit(const Arrival& node) {
  awaited_.erase(node_peer(node.name));
  held_back_.push_back(node);
  if (awaited_.empty()) stop_waiting();
}

void ClusterSchedulerState::on_return_timeout() {
  awaited_.clear();
  stop_waiting();
}

void ClusterSchedulerState::stop_waiting() {
  for (const Arrival& node : std::exchange(held_back_, {})) take_in(node);
}

void ClusterSchedulerState::take_in(const Arrival& node) {
  draining_.erase(node_peer(node.name));
  cluster::NodeJoined joined{node.name, node.devices};
  for (const Incarnation worker : node.workers)
    if (const auto at = survivors_.find(worker); at != survivors_.end())
      joined.kept.push_back(at->second);
  perform(core_.on(joined));
  send_inventory();
}

void ClusterSchedulerState::on_peer_down(const PeerDown& down) {
  const std::string prefix = node_peer("");
  const bool is_node = down.peer.starts_with(prefix);
  if (is_node) {
    const auto known = was_lost_.find(down.peer);
    if (known == was_lost_.end()) return;  // it has not found this head yet
    known->second = true;
    arriving_.erase(down.peer);
    draining_.erase(down.peer);
    std::erase_if(held_back_, [&](const Arrival& n) { return node_peer(n.name) == down.peer; });
    // The devices first: a job must not start anything there again.
    perform(core_.on(cluster::NodeLost{down.peer.substr(prefix.size())}));
  }
  for (const JobId& id : submit_order_) self_->send(jobs_.at(id).actor, down);
  if (is_node) send_inventory();
}

void ClusterSchedulerState::send_inventory() {
  const DeviceSet& devices = core_.existing_devices();
  const auto message = Msg<wire::Inventory>::build({}, [&](wire::Inventory::Builder b) {
    put(b.initDevices(devices.counts.size()), devices);
  });
  for (const JobId& id : submit_order_)
    if (!jobs_.at(id).over) self_->send(jobs_.at(id).actor, message);
}

void ClusterSchedulerState::list_nodes(const Inbound& inbound) {
  const auto nodes = core_.nodes();
  answer<wire::NodeList>(inbound, [&](wire::NodeList::Builder b) {
    auto list = b.initNodes(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      list[i].setName(nodes[i].name);
      const bool draining = draining_.contains(node_peer(nodes[i].name));
      list[i].setAlive(nodes[i].alive || draining);
      list[i].setDraining(draining);
      auto devices = list[i].initDevices(nodes[i].devices.size());
      for (std::size_t d = 0; d < nodes[i].devices.size(); ++d) {
        devices[d].setType(nodes[i].devices[d].id.type.name);
        devices[d].setIndex(nodes[i].devices[d].id.index);
        devices[d].setJob(nodes[i].devices[d].owner);
        devices[d].setSuspect(nodes[i].devices[d].suspect);
      }
    }
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
  if (stopping_) return refuse(inbound, refused("the head is shutting down"));
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
  if (const Status saved = store_->save(record); !saved.ok())
    return refuse(inbound, saved.error());
  kill_point("submit.journaled");
  const JobId id = record.id;
  start_job(*std::move(admitted), std::move(record), false);
  accept(id);
}

// Before any node has said hello nothing is known, and the job waits.
Status ClusterSchedulerState::check_fits(const JobSpec& spec) const {
  const DeviceSet& existing = core_.existing_devices();
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
      self_->spawn<caf::linked>(companion_actor, companion_options(admitted), store_);
  perform(core_.on(admitted_event(id, admitted.spec, restored)));
  IntraJobOptions options;
  options.job = id;
  options.spec = std::move(admitted.spec);
  options.spec_toml = std::move(admitted.spec_toml);
  options.config = std::move(admitted.config);
  options.record = std::move(record);
  options.restored = restored;
  options.config.suspend_prefix = (options_.checkpoint_dir / (id + "-suspended-")).string();
  if (!options_.log_dir.empty()) options.log_file = options_.log_dir / (id + ".log");
  jobs_[id].actor = self_->spawn<caf::linked>(
      intra_job_actor, std::move(options),
      IntraJobPeers{caf::actor_cast<caf::actor>(self_), companion, gateway_, store_});
  submit_order_.push_back(id);
  send_inventory();
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
  submit_order_.push_back(id);
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
  for (std::size_t i = 0; i < submit_order_.size(); ++i)
    self_->request(jobs_.at(submit_order_[i]).actor, kAnswerTimeout, describe)
        .then(
            [=](const Msg<wire::JobDetails>& details) {
              (*infos)[i] = details;
              if (--*missing == 0) finish();
            },
            [=, this](const caf::error&) {
              if (*missing == 0) return;
              *missing = 0;
              refuse(inbound, failure("a job does not answer"));
            });
}

void ClusterSchedulerState::on_demand(const JobId& job, wire::Demand::Reader r) {
  cluster::JobDemand demand{
      .job = job, .exact = {}, .proposals = {}, .sequence = r.getSequence()};
  if (r.isExact()) {
    demand.exact = device_set_from(r.getExact());
  } else {
    for (const auto p : r.getProposals())
      demand.proposals.push_back({{p.getDeviceType().cStr()}, p.getCount(), p.getSpeedup()});
  }
  perform(core_.on(demand));
}

void ClusterSchedulerState::on_released(const JobId& job, wire::DeviceReleased::Reader r) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return;
  perform(core_.on(cluster::DeviceReleased{job, device_from(r.getDevice())}));
}

void ClusterSchedulerState::on_ended(const JobId& job) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end() || at->second.over) return;
  at->second.over = true;
  perform(core_.on(cluster::JobEnded{job}));
  stop_if_idle();
}

void ClusterSchedulerState::perform(const std::vector<cluster::Effect>& effects) {
  for (const cluster::Effect& effect : effects)
    std::visit([this](const auto& e) { perform_effect(e); }, effect);
}

void ClusterSchedulerState::perform_effect(const cluster::Allocation& effect) {
  const Job& job = jobs_.at(effect.job);
  self_->send(job.actor, Msg<wire::Allocation>::build({}, [&](wire::Allocation::Builder b) {
                b.setSequence(effect.sequence);
                b.setReleasesSeen(effect.releases_seen);
                auto devices = b.initDevices(effect.devices.size());
                for (std::size_t i = 0; i < effect.devices.size(); ++i)
                  put(devices[i], effect.devices[i]);
                b.setUrgent(effect.urgent);
              }));
}

void ClusterSchedulerState::perform_effect(const cluster::DemandRefused& effect) {
  self_->send(jobs_.at(effect.job).actor,
              Msg<wire::DemandRefused>::build(
                  {}, [&](wire::DemandRefused::Builder b) { b.setReason(effect.reason); }));
}

// --- the end

void ClusterSchedulerState::shut_down(const Inbound& inbound) {
  shutdown_requests_.push_back(inbound);
  stop();
}

void ClusterSchedulerState::stop() {
  stopping_ = true;
  const auto cancel = Msg<wire::CancelJob>::build({}, [](wire::CancelJob::Builder) {});
  for (const JobId& id : submit_order_)
    if (!jobs_.at(id).over) self_->send(jobs_.at(id).actor, cancel);
  stop_if_idle();
}

void ClusterSchedulerState::stop_if_idle() {
  if (!stopping_) return;
  for (const auto& [id, job] : jobs_)
    if (!job.over) return;
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
      [=](const Msg<wire::DeviceReleased>& m) {
        self->state.on_released(m.head().job, *m.view());
      },
      [=](const Msg<wire::DeviceSuspected>& m) { self->state.on_suspected(*m.view()); },
      [=](const Msg<wire::JobEnded>& m) { self->state.on_ended(m.head().job); },
      [=](const StopHead&) { self->state.stop(); },
      [=](ReturnTimeoutAtom) { self->state.on_return_timeout(); },
  };
}

}  // namespace es::actors
