#pragma once
// The requests about one job that several commands use, as functions. Errors: those of Client, and
// the refusals of the head.
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/esctl/client/client.h"
#include "actors/esctl/client/job_request.h"
#include "actors/views/claims_view.h"
#include "actors/views/plans_view.h"
#include "actors/views/progress.h"
#include "actors/views/queues_view.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {

struct JobDetailsView {
  JobView job;
  std::string spec_toml;
};

// `request_id` is unique for each submission. If an answer was lost, a second call with the same id
// returns the job that the head has already created. With an empty id, every call creates a job.
Result<JobId> submit_job(Client& client, const JobSpec& spec, const StartPoint& start,
                         const std::string& request_id = {});
// `warning` is a fault of the head that is still running; empty if there is none.
struct JobListView {
  std::vector<JobView> jobs;  // in the order of submission
  std::string warning;
};
struct NodeListView {
  std::vector<NodeView> nodes;
  std::vector<ClaimView> claims;
  std::vector<QueueView> queues;
  std::string warning;
  std::uint64_t unix_ms = 0;  // the clock of the head when it answered
};
// `ended_within`: of the jobs that are over only those that ended at most this long ago; zero: all.
Result<JobListView> list_jobs(Client& client, std::chrono::milliseconds ended_within = {});
// What counts as recent where not all jobs are shown.
inline constexpr std::chrono::hours kRecent{24};
Result<NodeListView> list_nodes(Client& client);
Result<PlansView> list_plans(Client& client, const JobId& job);
Result<JobDetailsView> describe_job(Client& client, const JobId& job);

// A part of the log of a worker. `begin`, `end` and `complete` are those of wire::ReadWorkerLog and
// wire::WorkerLog. Error (not found): the node has no such log.
struct WorkerLogView {
  std::string text;
  std::uint64_t end = 0;
  bool complete = false;
};
Result<WorkerLogView> read_worker_log(Client& client, const JobId& job, Incarnation worker,
                                      const std::string& node, std::uint64_t begin);
Result<CheckpointView> checkpoint_job(Client& client, const JobId& job,
                                      const std::string& directory);
Status pause_job(Client& client, const JobId& job);
// Returns the head's remark on the request. `accept_loss` is described at wire::ResumeJob.
Result<std::string> resume_job(Client& client, const JobId& job, bool accept_loss);
Status cancel_job(Client& client, const JobId& job);
// Returns the head's remark: the saved states that stay; empty: there are none.
Result<std::string> remove_job(Client& client, const JobId& job);

// Shows the job's progress until it has ended, and returns its final state. `on_view`, if there is
// one, gets every state on the way.
Result<JobView> follow_job(Client& client, const JobId& job, Progress& progress,
                           const std::function<void(const JobView&)>& on_view = {});

// Prints the end of a job: the summary to out, and the reason to err if the job did not finish.
// Returns the exit code.
int print_end(const JobView& job, bool json, Console& console);

// The same for a run with its own daemon, together with the place of its weights (no value if they
// are not kept). `error` describes a fault of the requested checkpoint; if it is not empty, the
// exit code is a failure whatever the result of the job.
int print_run_end(JobView job, const std::optional<KeptWeights>& weights, const std::string& error,
                  bool json, Console& console);

}  // namespace es::actors::esctl
