#include "actors/head/cluster_scheduler/shell/listed_job.h"

#include "proto/base/job_record.h"

namespace es::actors {
namespace {

bool is_over_name(const std::string& state) {
  return state == state_name(JobState::kFinished) || state == state_name(JobState::kFailed) ||
         state == state_name(JobState::kCancelled) || state == state_name(JobState::kTimedOut);
}

}  // namespace

std::shared_ptr<const ListedJob> listed(const Msg<wire::JobDetails>& details) {
  auto view = details.view();
  const wire::JobInfo::Reader info = view->getInfo();
  auto job = std::make_shared<ListedJob>();
  job->id = info.getId().cStr();
  job->name = info.getName().cStr();
  job->state = info.getState().cStr();
  job->tenant = info.getTenant().cStr();
  job->over = is_over_name(job->state);
  // A warning of a job that is over says that its end is not written yet.
  job->ended_unix_ms = info.getEndedUnixMs();
  job->may_change = !job->over || info.getWarning().size() != 0;
  job->details =
      Msg<wire::JobDetails>::build({}, [&](wire::JobDetails::Builder b) { b.setInfo(info); });
  return job;
}

}  // namespace es::actors
