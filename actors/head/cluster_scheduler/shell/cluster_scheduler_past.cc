// ClusterScheduler: jobs that are over, until they are removed.
#include <caf/all.hpp>

#include "actors/base/access/core/requests.h"
#include "actors/base/job_file/job_file.h"
#include "actors/base/log/log.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "actors/head/intra_job/shell/job_log_end.h"
#include "actors/head/intra_job/shell/past_job_actor.h"

namespace es::actors {
namespace {

// How long a job may take to say whether it is over.
constexpr auto kJobAnswers = std::chrono::seconds(10);
// How often the ages of jobs are looked at.
constexpr auto kTidyInterval = std::chrono::minutes(1);

std::string saved_text(const JobRecord& record) {
  std::string text;
  for (const CheckpointRef& saved : record.checkpoints)
    text += (text.empty() ? "its saved states stay: " : ", ") + saved.path;
  return text;
}

}  // namespace

// The job is over, but clients may ask about it.
void ClusterSchedulerState::restore_past(JobRecord record) {
  const JobId id = record.id;
  const std::string request = record.request_id;
  if (!request.empty()) requests_[request] = id;
  const std::filesystem::path log_file = log_file_of(id);
  if (!log_file.empty()) {
    const std::chrono::milliseconds now(options_.unix_ms());
    complete_job_log(log_file, job_log_end(record.state, record.error),
                     std::chrono::system_clock::time_point(now));
  }
  // A text of an older release may not be readable; then the job has no tenant.
  const auto spec = parse_job(record.spec_toml, "job");
  jobs_[id] = {.actor = self_->spawn(past_job_actor, std::move(record), log_file, gateway_, store_),
               .over = true,
               .tenant = spec ? spec->resources.tenant : std::string(),
               .request = request};
  enter_in_order(id);
  ask_for_end(id);
}

// Asks a job that is over once, so that lists need not ask it. If it does not answer, or its end is
// not on the disk yet, the next list asks.
void ClusterSchedulerState::ask_for_end(const JobId& job) {
  self_
      ->request(jobs_.at(job).actor, caf::infinite,
                Msg<wire::DescribeJob>::build({}, [](wire::DescribeJob::Builder) {}))
      .then([this, job](const Msg<wire::JobDetails>& details) { keep_end(job, listed(details)); },
            [](const caf::error&) {});
}

void ClusterSchedulerState::keep_end(const JobId& job, const std::shared_ptr<const Listed>& end) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end() || !at->second.over || end->may_change) return;
  at->second.end = end;
  tidy_soon();
}

// --- removal

// A client that has seen the end of a job may be faster than the message of the job about it, so a
// job that does not seem to be over is asked.
void ClusterSchedulerState::remove_job(const Inbound& inbound) {
  const JobId job = find_job(inbound.frame->envelope.job);
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return refuse(inbound, access::no_such_job(job));
  if (at->second.end) return remove_past(inbound, job);
  self_
      ->request(at->second.actor, kJobAnswers,
                Msg<wire::DescribeJob>::build({}, [](wire::DescribeJob::Builder) {}))
      .then(
          [this, inbound, job](const Msg<wire::JobDetails>& details) {
            const auto now = listed(details);
            keep_end(job, now);
            if (const auto known = jobs_.find(job); known != jobs_.end() && known->second.end)
              return remove_past(inbound, job);
            refuse(inbound, now->over ? refused("the end of job " + job + " is not written yet")
                                      : refused("job " + job + " is " + now->state +
                                                ": allowed is a job that is over; `esctl cancel` "
                                                "ends one"));
          },
          [this, inbound](const caf::error&) {
            refuse(inbound, failure("the job does not answer"));
          });
}

void ClusterSchedulerState::remove_past(const Inbound& inbound, const JobId& job) {
  if (const Status ok = check_accepting(); !ok.ok()) return refuse(inbound, ok.error());
  const auto record = store_->load(job);
  const std::string note = record && *record ? saved_text(**record) : std::string();
  if (const Status removed = remove_now(job); !removed.ok())
    return refuse(inbound, removed.error());
  answer<wire::Done>(inbound, [&](wire::Done::Builder b) { b.setNote(note); });
}

// First the log, then everything in the journal at once. After a crash in between the job is there
// as before, without its log, and can be removed again. Checkpoints are never touched.
Status ClusterSchedulerState::remove_now(const JobId& job) {
  std::error_code error;
  const std::filesystem::path log_file = log_file_of(job);
  if (!log_file.empty()) std::filesystem::remove(log_file, error);
  if (error) return failure(log_file.string() + ": cannot be removed: " + error.message());
  ES_RETURN_IF_ERROR(not_written(store_->forget(job)));
  log::info("the job is removed", {.job = job});
  forget_actors(job);
  return {};
}

// Clients are told that there is no such job. Its actors are no longer monitored, because their end
// is expected; it comes when they have answered what they were asked before.
void ClusterSchedulerState::forget_actors(const JobId& job) {
  const auto at = jobs_.find(job);
  for (const caf::actor& actor : {at->second.actor, at->second.companion}) {
    if (!actor) continue;
    self_->demonitor(actor);
    children_->erase(actor.id());
    self_->send_exit(actor, caf::exit_reason::normal);
  }
  if (!at->second.request.empty()) requests_.erase(at->second.request);
  submit_order_.erase(at->second.number);
  jobs_.erase(at);
}

// --- retention

// Many jobs may end, or be restored, at one moment.
void ClusterSchedulerState::tidy_soon() {
  if (!options_.retention.is_limited() || std::exchange(tidies_, true)) return;
  self_->send(self_, TidyAtom::value);
}

void ClusterSchedulerState::tidy() {
  tidies_ = false;
  if (!check_accepting().ok()) return;  // the next end of a job, or the next minute, is soon enough
  std::vector<cluster::PastJob> past;
  for (const auto& [number, id] : submit_order_)
    if (const Job& job = jobs_.at(id); job.end) past.push_back({id, job.end->ended_unix_ms});
  for (const JobId& job :
       cluster::not_kept(options_.retention, std::move(past), options_.unix_ms()))
    if (const Status removed = remove_now(job); !removed.ok()) {
      log::warning("not removed: " + removed.error().message, {.job = job});
      break;
    }
}

// Time passes although no job ends.
void ClusterSchedulerState::watch_ages() {
  if (!options_.retention.age) return;
  tidy_soon();
  self_->delayed_send(self_, kTidyInterval, WatchAgesAtom::value);
}

}  // namespace es::actors
