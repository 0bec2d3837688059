#pragma once
// The requests about one job that several commands make, as functions. Errors: of Client, and the
// head's refusals.
#include <optional>
#include <string>
#include <utility>

#include "actors/esctl/client.h"
#include "actors/esctl/job_request.h"
#include "actors/esctl/progress.h"
#include "actors/esctl/render_text.h"

namespace es::actors::esctl {

struct JobDetailsView {
  JobView job;
  std::string spec_toml;
};

// `request_id`: unique for each job that is wanted; asked again with it, after an answer was lost,
// the head names the job that it has made already. Empty: every call makes a job.
Result<JobId> submit_job(Client& client, const JobSpec& spec, const StartPoint& start,
                         const std::string& request_id = {});
Result<JobDetailsView> describe_job(Client& client, const JobId& job);
Result<CheckpointView> checkpoint_job(Client& client, const JobId& job,
                                      const std::string& directory);
Status pause_job(Client& client, const JobId& job);
// What the head has to say about it; `accept_loss`: wire::ResumeJob.
Result<std::string> resume_job(Client& client, const JobId& job, bool accept_loss);
Status cancel_job(Client& client, const JobId& job);

// Shows the job's progress until it has ended, and returns what it then is.
Result<JobView> follow_job(Client& client, const JobId& job, Progress& progress);

// Prints the end of a job: the summary to out and, when it did not finish, the reason to err.
// Returns the exit code that says whether it did.
int print_end(const JobView& job, bool json, Console& console);

// The same of a run with its own daemon, and where its weights are (none: nowhere). `error`: what
// is wrong with the checkpoint that was wanted; not empty: a failure, whatever the job came to.
int print_run_end(JobView job, const std::optional<KeptWeights>& weights, const std::string& error,
                  bool json, Console& console);

}  // namespace es::actors::esctl
