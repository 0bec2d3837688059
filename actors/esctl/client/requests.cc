#include "actors/esctl/client/requests.h"

#include "actors/base/job_file/job_file.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"
#include "proto/text_of.h"

namespace es::actors::esctl {
namespace {

// Prints on one line why the job did not finish.
int report_end(const JobView& job, Console& console) {
  const std::string reason = job.error.empty() ? "" : ": " + job.error;
  return report(failure("job " + job.id + " " + job.state + reason), false, console);
}

}  // namespace

Result<JobId> submit_job(Client& client, const JobSpec& spec, const StartPoint& start,
                         const std::string& request_id) {
  const auto accepted =
      client.ask<wire::JobAccepted, wire::SubmitJob>({}, [&](wire::SubmitJob::Builder b) {
        b.setSpecToml(to_toml(spec));
        b.setFromCheckpoint(start.checkpoint);
        b.setRequestId(request_id);
      });
  if (!accepted) return accepted.error();
  return accepted->decode(
      [](wire::JobAccepted::Reader r) { return JobId(name_of(r.getJob(), "job")); });
}

Result<JobListView> list_jobs(Client& client, std::chrono::milliseconds ended_within) {
  const auto list = client.ask<wire::JobList, wire::ListJobs>({}, [&](wire::ListJobs::Builder b) {
    b.setEndedWithinMs(static_cast<std::uint64_t>(ended_within.count()));
  });
  if (!list) return list.error();
  return list->decode([](wire::JobList::Reader r) {
    return JobListView{read_jobs(r), line_of(r.getWarning())};
  });
}

Result<NodeListView> list_nodes(Client& client) {
  const auto list =
      client.ask<wire::NodeList, wire::ListNodes>({}, [](wire::ListNodes::Builder) {});
  if (!list) return list.error();
  return list->decode([](wire::NodeList::Reader r) {
    return NodeListView{read_nodes(r), read_claims(r), read_queues(r), line_of(r.getWarning()),
                        r.getUnixMs()};
  });
}

Result<PlansView> list_plans(Client& client, const JobId& job) {
  const auto list =
      client.ask<wire::PlanList, wire::ListPlans>(job, [](wire::ListPlans::Builder) {});
  if (!list) return list.error();
  return list->decode(read_plans);
}

Result<JobDetailsView> describe_job(Client& client, const JobId& job) {
  const auto details =
      client.ask<wire::JobDetails, wire::DescribeJob>(job, [](wire::DescribeJob::Builder) {});
  if (!details) return details.error();
  return details->decode([](wire::JobDetails::Reader r) {
    return JobDetailsView{read_job(r.getInfo()), text_of(r.getSpecToml(), "job spec")};
  });
}

Result<WorkerLogView> read_worker_log(Client& client, const JobId& job, Incarnation worker,
                                      const std::string& node, std::uint64_t begin) {
  const auto part =
      client.ask<wire::WorkerLog, wire::ReadWorkerLog>(job, [&](wire::ReadWorkerLog::Builder b) {
        b.setWorker(worker.value);
        b.setNode(node);
        b.setBegin(begin);
      });
  if (!part) return part.error();
  auto view = part->decode([](wire::WorkerLog::Reader r) -> Result<WorkerLogView> {
    if (std::string error = line_of(r.getError()); !error.empty()) return not_found(error);
    return WorkerLogView{text_of(r.getText(), "log"), r.getEnd(), r.getComplete()};
  });
  return view ? *std::move(view) : view.error();
}

Result<CheckpointView> checkpoint_job(Client& client, const JobId& job,
                                      const std::string& directory) {
  const auto taken = client.ask<wire::CheckpointTaken, wire::CheckpointJob>(
      job, [&](wire::CheckpointJob::Builder b) { b.setDirectory(directory); }, kJobTimeout);
  if (!taken) return taken.error();
  return taken->decode(read_checkpoint);
}

Status pause_job(Client& client, const JobId& job) {
  const auto done = client.ask<wire::Done, wire::PauseJob>(
      job, [](wire::PauseJob::Builder) {}, kJobTimeout);
  return done ? Status() : done.error();
}

Result<std::string> resume_job(Client& client, const JobId& job, bool accept_loss) {
  const auto done = client.ask<wire::Done, wire::ResumeJob>(
      job, [&](wire::ResumeJob::Builder b) { b.setAcceptLoss(accept_loss); });
  if (!done) return done.error();
  return done->decode([](wire::Done::Reader r) { return line_of(r.getNote()); });
}

Status cancel_job(Client& client, const JobId& job) {
  const auto done = client.ask<wire::Done, wire::CancelJob>(
      job, [](wire::CancelJob::Builder) {}, kJobTimeout);
  return done ? Status() : done.error();
}

Result<std::string> remove_job(Client& client, const JobId& job) {
  const auto done = client.ask<wire::Done, wire::RemoveJob>(job, [](wire::RemoveJob::Builder) {});
  if (!done) return done.error();
  return done->decode([](wire::Done::Reader r) { return line_of(r.getNote()); });
}

Result<JobView> follow_job(Client& client, const JobId& job, Progress& progress,
                           const std::function<void(const JobView&)>& on_view) {
  ES_RETURN_IF_ERROR(client.follow(job, {.info = true}, [&](const JobEventView& event) {
    const auto* info = std::get_if<JobView>(&event);
    if (info == nullptr) return;
    progress.show(*info);
    if (on_view) on_view(*info);
  }));
  // The stream has ended, so the job is over. Its final state is requested, because the last event
  // may be older.
  Result<JobDetailsView> details = describe_job(client, job);
  if (!details) return details.error();
  progress.show(details->job);
  return std::move(details->job);
}

int print_end(const JobView& job, bool json, Console& console) {
  console.out << (json ? job_json(job) + "\n" : summary_text(job, out_columns(console)))
              << std::flush;
  return job.state == "finished" ? 0 : report_end(job, console);
}

int print_run_end(JobView job, const std::optional<KeptWeights>& weights, const std::string& error,
                  bool json, Console& console) {
  const bool failed = job.state == "failed" || !error.empty();
  if (!error.empty()) job.error += (job.error.empty() ? "" : "; ") + error;
  const std::string kept =
      failed && !weights ? "\nThe weights are not kept.\n" : weights_text(weights);
  console.out << (json ? run_json(job, weights) + "\n"
                       : summary_text(job, out_columns(console)) + kept)
              << std::flush;
  return job.state == "finished" && !failed ? 0 : report_end(job, console);
}

}  // namespace es::actors::esctl
