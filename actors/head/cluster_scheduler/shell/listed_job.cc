#include "actors/head/cluster_scheduler/shell/listed_job.h"

#include "proto/base/job_record.h"

namespace es::actors {
namespace {

bool is_over_name(const std::string& state) {
  return state == state_name(JobState::kFinished) || state == state_name(JobState::kFailed) ||
         state == state_name(JobState::kCancelled) || state == state_name(JobState::kTimedOut);
}

using Details = Msg<wire::JobDetails>;

// A list shows the last evaluation only, and a job may have thousands. What is taken out of a
// message keeps its place there, so the rest is copied once more.
Details without_older_evaluations(wire::JobInfo::Reader info) {
  const Details cut = Details::build({}, [&](wire::JobDetails::Builder b) {
    b.setInfo(info);
    const auto all = info.getEvaluations();
    if (all.size() == 0) return;
    b.getInfo().initEvaluations(1).setWithCaveats(0, all[all.size() - 1]);
  });
  return Details::build({}, [&](wire::JobDetails::Builder b) { b.setInfo(cut.view()->getInfo()); });
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
  job->details = without_older_evaluations(info);
  return job;
}

}  // namespace es::actors
