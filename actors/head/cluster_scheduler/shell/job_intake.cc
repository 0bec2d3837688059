#include "actors/head/cluster_scheduler/shell/job_intake.h"

#include <algorithm>

#include "actors/base/gateway/shell/visit.h"
#include "actors/base/job_file/client_spec.h"
#include "actors/base/log/log.h"
#include "actors/base/protocol/core/instant.h"
#include "actors/head/cluster_scheduler/core/job_fit.h"
#include "actors/head/cluster_scheduler/core/memory_fit.h"
#include "proto/base/kill_point.h"
#include "proto/messages.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

CompanionOptions companion_options(const AdmittedJob& job) {
  const JobSpec& spec = job.config.spec;
  return {.model_key = job.model_key,
          .batch_size = spec.batch_size,
          .max_p = spec.max_p,
          .max_devices = spec.resources.max_devices,
          .mix_types = spec.level == DeterminismLevel::kD2};
}

}  // namespace

Result<JobId> JobIntake::submit(const Inbound& inbound) {
  const auto request = request_of(inbound);
  if (!request) return request.error();
  // A client repeats a request if it has lost the answer. It gets the same answer again, even if
  // the head accepts no new job now.
  if (const JobId* made = with_.jobs.made_by(request->id)) return *made;
  if (closed_) return refused("the head is shutting down");
  ES_RETURN_IF_ERROR(with_.writes.check_accepting());
  auto admitted = admit(*request, inbound.from);
  if (!admitted) return admitted.error();
  const auto sequence = with_.store.next_sequence();
  if (!sequence) return with_.writes.checked(sequence.error()).error();
  JobRecord record = record_of(*request, *admitted, *sequence);
  kill_point("submit.before");
  // The record is durable before JobAccepted, so an accepted job survives the head. A repeated
  // request with the same id finds the job in the table.
  ES_RETURN_IF_ERROR(with_.writes.checked(with_.store.save(record)));
  kill_point("submit.journaled");
  const JobId job = record.id;
  log::info("the job is admitted", {.job = job});
  start(*std::move(admitted), std::move(record), false);
  return job;
}

// With the tenant of the client, and its name where the head knows it.
Result<JobIntake::Request> JobIntake::request_of(const Inbound& inbound) {
  auto request = visit<wire::SubmitJob>(inbound, [](wire::SubmitJob::Reader r) {
    return Request{text_of(r.getSpecToml(), "job spec"),
                   name_of(r.getFromCheckpoint(), "from_checkpoint"),
                   name_of(r.getRequestId(), "request id"), name_of(r.getSubmitter(), "submitter")};
  });
  const access::Identity* who = client_of(inbound);
  if (!request || who == nullptr) return request;
  request->submitter = who->name;
  if (who->tenant.empty()) return request;
  auto spec = client_spec(*who, request->spec_toml, "job");
  if (!spec) return spec.error();
  request->spec_toml = *std::move(spec);
  // Two tenants may choose the same id. The second one must not get the job of the first.
  if (!request->id.empty()) request->id = "tenant/" + who->tenant + "/" + request->id;
  return request;
}

Result<AdmittedJob> JobIntake::admit(const Request& request, const PeerId& client) const {
  auto admitted = [&] {
    const store::ConfinedThread confined(with_.options.roots.of(client));
    return with_.options.admit(request.spec_toml, request.checkpoint);
  }();
  if (!admitted) return admitted;
  ES_RETURN_IF_ERROR(cluster::check_fits(admitted->config.spec, with_.options.limits,
                                         with_.decisions.core().existing_devices()));
  auto fitted =
      cluster::fit_into_memory(admitted->config.spec, admitted->memory, admitted->may_divide,
                               with_.decisions.core().kinds(), with_.options.limits.may_grow);
  if (!fitted) return fitted.error();
  admitted->set_spec(*std::move(fitted));
  return admitted;
}

JobRecord JobIntake::record_of(const Request& request, const AdmittedJob& admitted,
                               std::uint64_t sequence) const {
  JobRecord record;
  record.id = with_.jobs.new_id(admitted.config.spec.name, sequence);
  record.spec_toml = admitted.spec_toml;
  record.start_checkpoint = request.checkpoint;
  record.sequence = sequence;
  // The request id is journaled too, so the next head recognises a repeated request.
  record.request_id = request.id;
  record.submitter = request.submitter;
  record.submitted_unix_ms = with_.clock.unix_ms();
  record.budget = admitted.config.spec.resources.budget;
  return record;
}

void JobIntake::start(AdmittedJob admitted, JobRecord record, bool restored) {
  const JobId job = record.id;
  const JobSpec& spec = admitted.config.spec;
  with_.actors.start_companion(job, companion_options(admitted));
  with_.jobs.add_live(job, spec.resources.tenant, record.request_id);
  if (with_.options.on_job) with_.options.on_job(job, spec);
  // The core knows the job before its actor can send a demand.
  with_.decisions.take(event_of(admitted, record, restored));
  with_.actors.start(options_of(std::move(admitted), std::move(record), restored));
  with_.actors.send(job, with_.inventory.current());
}

cluster::JobAdmitted JobIntake::event_of(const AdmittedJob& admitted, const JobRecord& record,
                                         bool restored) const {
  const JobSpec& spec = admitted.config.spec;
  // The age is not negative even if the date of the machine was set back.
  const double age_seconds = with_.clock.seconds_since(record.submitted_unix_ms);
  return {.job = record.id,
          .resources = spec.resources,
          .level = spec.level,
          .max_p = spec.max_p,
          .memory = admitted.memory,
          .restored = restored,
          .submit_s = with_.clock.now_s() - std::max(0.0, age_seconds),
          .start_seconds = in_seconds(with_.options.start_pause),
          .rescale_seconds = in_seconds(with_.options.rescale_pause),
          .suspend_seconds = in_seconds(with_.options.suspend_pause)};
}

IntraJobOptions JobIntake::options_of(AdmittedJob admitted, JobRecord record, bool restored) const {
  IntraJobOptions options;
  options.job = record.id;
  options.config = std::move(admitted.config);
  options.config.suspend_prefix =
      (with_.options.checkpoint_dir / (record.id + "-suspended-")).string();
  options.log_file = with_.options.log_file_of(record.id);
  options.record = std::move(record);
  options.restored = restored;
  options.pause_assumed = with_.options.rescale_pause;
  options.suspend_assumed = with_.options.suspend_pause;
  options.unix_ms = with_.options.unix_ms;
  return options;
}

Status JobIntake::restore() {
  auto records = with_.store.load_all();
  if (!records) return records.error();
  for (JobRecord& record : *records) {
    if (is_over(record.state)) {
      with_.past.restore(std::move(record));
      continue;
    }
    auto admitted = with_.options.admit(record.spec_toml, record.start_checkpoint);
    if (admitted) {
      restore_live(*std::move(admitted), std::move(record));
      continue;
    }
    // The job was valid when it was submitted, but for example its data may have been removed
    // since. It ends as failed, and the other jobs are restored.
    with_.past.restore_failed(std::move(record),
                              "after a restart of the head: " + admitted.error().message);
  }
  return {};
}

void JobIntake::restore_live(AdmittedJob admitted, JobRecord record) {
  // The processes of these workers may still run. Their nodes are awaited before the first
  // decision, and NodeHello shows which of the processes live.
  for (const KnownWorker& worker : record.known)
    with_.nodes.await_worker(worker.incarnation, record.id, worker.device);
  log::info("the job continues after a restart of the head", {.job = record.id});
  start(std::move(admitted), std::move(record), true);
}

}  // namespace es::actors
