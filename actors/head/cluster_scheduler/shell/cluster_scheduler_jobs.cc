// ClusterScheduler: jobs, from their submission or from the journal until they are over.
#include <caf/all.hpp>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/job_file/client_spec.h"
#include "actors/base/log/log.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "actors/head/companion/shell/companion_actor.h"
#include "actors/head/intra_job/shell/intra_job_actor.h"
#include "actors/head/intra_job/shell/past_job_actor.h"
#include "proto/base/kill_point.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

// How long a restarted head waits for the nodes on which its jobs run.
constexpr auto kReturnTimeout = std::chrono::seconds(5);

CompanionOptions companion_options(const AdmittedJob& job) {
  const JobSpec& spec = job.config.spec;
  return {.model_key = job.model_key,
          .batch_size = spec.batch_size,
          .max_p = spec.max_p,
          .max_devices = spec.resources.max_devices,
          .mix_types = spec.level == DeterminismLevel::kD2};
}

// While the state directory cannot be written, the record may be older than the end of the job.
void log_end(const JobRecord& record) {
  const char* const how = is_over(record.state) ? state_name(record.state) : "not written yet";
  log::info(
      std::string("the job has ended: ") + how + (record.error.empty() ? "" : ": " + record.error),
      {.job = record.id});
}

}  // namespace

void ClusterSchedulerState::submit(const Inbound& inbound) {
  const auto message = Msg<wire::SubmitJob>::from_frame(inbound.frame);
  struct Request {
    std::string spec_toml, checkpoint, id;
  };
  auto request = message->decode([](wire::SubmitJob::Reader r) {
    return Request{text_of(r.getSpecToml(), "job spec"),
                   name_of(r.getFromCheckpoint(), "from_checkpoint"),
                   name_of(r.getRequestId(), "request id")};
  });
  if (!request) return refuse(inbound, request.error());
  if (const access::Identity* who = client_of(inbound); who != nullptr && !who->tenant.empty()) {
    auto spec = client_spec(*who, request->spec_toml, "job");
    if (!spec) return refuse(inbound, spec.error());
    request->spec_toml = *std::move(spec);
    // Two tenants may choose the same id. The second one must not get the job of the first.
    if (!request->id.empty()) request->id = "tenant/" + who->tenant + "/" + request->id;
  }
  const auto accept = [&](const JobId& job) {
    answer<wire::JobAccepted>(inbound, [&](wire::JobAccepted::Builder b) { b.setJob(job); });
  };
  // A client repeats a request if it has lost the answer. It gets the same answer again, even if
  // the head accepts no new job now.
  if (const auto made = requests_.find(request->id); made != requests_.end())
    return accept(made->second);
  if (stopping_ || closed_) return refuse(inbound, refused("the head is shutting down"));
  if (const Status ok = check_accepting(); !ok.ok()) return refuse(inbound, ok.error());
  auto admitted = [&] {
    const store::ConfinedThread confined(roots_of(inbound.from));
    return options_.admit(request->spec_toml, request->checkpoint);
  }();
  if (!admitted) return refuse(inbound, admitted.error());
  if (const Status fits = check_fits(admitted->config.spec); !fits.ok())
    return refuse(inbound, fits.error());
  const auto sequence = store_->next_sequence();
  if (!sequence) return refuse(inbound, not_written(sequence.error()).error());
  JobRecord record;
  record.id = admitted->config.spec.name + "-" + std::to_string(*sequence) +
              (store_->job_tag().empty() ? "" : "-" + store_->job_tag());
  record.spec_toml = admitted->spec_toml;
  record.start_checkpoint = request->checkpoint;
  record.sequence = *sequence;
  // The request id is journaled too, so the next head recognises a repeated request.
  record.request_id = request->id;
  record.submitted_unix_ms = options_.unix_ms();
  record.budget = admitted->config.spec.resources.budget;
  kill_point("submit.before");
  // The record is durable before JobAccepted, so an accepted job survives the head. A repeated
  // request with the same id finds the job in requests_.
  if (const Status saved = not_written(store_->save(record)); !saved.ok())
    return refuse(inbound, saved.error());
  kill_point("submit.journaled");
  const JobId id = record.id;
  log::info("the job is admitted", {.job = id});
  start_job(*std::move(admitted), std::move(record), false);
  accept(id);
}

// Before the first node has said hello the devices are not known, and the job is accepted.
Status ClusterSchedulerState::check_fits(const JobSpec& spec) const {
  ES_RETURN_IF_ERROR(scheduler::check_queue_of_job(options_.limits.queues, spec.resources.queue,
                                                   spec.resources.tenant));
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
  live_jobs_.insert(id);
  jobs_[id].tenant = admitted.config.spec.resources.tenant;
  jobs_[id].request = record.request_id;
  if (options_.on_job) options_.on_job(id, admitted.config.spec);
  // The core knows the job before its actor can send a demand.
  take(admitted_event(id, admitted.config.spec, record, restored));
  IntraJobOptions options;
  options.job = id;
  options.config = std::move(admitted.config);
  options.record = std::move(record);
  options.restored = restored;
  options.pause_assumed = options_.rescale_pause;
  options.suspend_assumed = options_.suspend_pause;
  options.unix_ms = options_.unix_ms;
  options.config.suspend_prefix = (options_.checkpoint_dir / (id + "-suspended-")).string();
  options.log_file = log_file_of(id);
  jobs_[id].companion = companion;
  jobs_[id].actor =
      self_->spawn<caf::monitored>(intra_job_actor, std::move(options),
                                   IntraJobPeers{caf::actor_cast<caf::actor>(self_), companion,
                                                 gateway_, store_, present_nodes_});
  for (const caf::actor& child : {companion, jobs_.at(id).actor})
    children_->emplace(child.id(), child);
  enter_in_order(id);
  self_->send(jobs_.at(id).actor, inventory());
}

// Empty: jobs have no files for their logs.
std::filesystem::path ClusterSchedulerState::log_file_of(const JobId& job) const {
  return options_.log_dir.empty() ? std::filesystem::path() : options_.log_dir / (job + ".log");
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
      // The processes of these workers may still run. Their nodes are awaited before the first
      // decision, and NodeHello shows which of the processes live (join_node).
      for (const KnownWorker& w : record.known) {
        journaled_workers_[w.incarnation] = {record.id, w.device};
        awaited_nodes_.insert(node_peer(w.device.node));
      }
      log::info("the job continues after a restart of the head", {.job = record.id});
      start_job(*std::move(admitted), std::move(record), true);
      continue;
    }
    // The job was valid when it was submitted, but for example its data may have been removed
    // since. It ends as failed, and the other jobs are restored.
    record.state = JobState::kFailed;
    record.error = "after a restart of the head: " + admitted.error().message;
    log_end(record);
    // The end is stored before the record, as by a job that ends itself.
    const auto shown = details_of(record, options_.unix_ms());
    write_when_possible([this, record, shown]() -> Status {
      const auto bytes = shown.frame()->body.asChars();
      ES_RETURN_IF_ERROR(store_->history().save_end(record.id, {bytes.begin(), bytes.size()}));
      return store_->save(record);
    });
    restore_past(std::move(record));
  }
  if (!awaited_nodes_.empty()) self_->delayed_send(self_, kReturnTimeout, ReturnTimeoutAtom::value);
  return {};
}

void ClusterSchedulerState::on_ended(const JobId& job) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end() || at->second.over) return;
  at->second.over = true;
  live_jobs_.erase(job);
  kept_devices_.erase(job);
  if (log::enabled(log::Level::kInfo))
    if (const auto record = store_->load(job); record && record->has_value()) log_end(**record);
  take(cluster::FromJob{job, protocol::JobEnded{}});
  if (options_.keep_past_jobs) {
    ask_for_end(job);
  } else {
    write_when_possible([this, job] { return store_->forget(job); });
    forget_actors(job);
  }
  stop_if_idle();
}

}  // namespace es::actors
