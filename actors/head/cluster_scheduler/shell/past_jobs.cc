#include "actors/head/cluster_scheduler/shell/past_jobs.h"

#include <chrono>

#include "actors/base/access/core/requests.h"
#include "actors/base/job_file/job_file.h"
#include "actors/base/log/log.h"
#include "actors/head/intra_job/shell/job_log_end.h"
#include "actors/head/intra_job/shell/past_job_actor.h"

namespace es::actors {
namespace {

// How long a job may take to say whether it is over.
constexpr auto kJobAnswers = std::chrono::seconds(10);

std::string saved_text(const JobRecord& record) {
  std::string text;
  for (const CheckpointRef& saved : record.checkpoints)
    text += (text.empty() ? "its saved states stay: " : ", ") + saved.path;
  return text;
}

// While the state directory cannot be written, the record may be older than the end of the job.
void log_end(const JobRecord& record) {
  const char* const how = is_over(record.state) ? state_name(record.state) : "not written yet";
  log::info(
      std::string("the job has ended: ") + how + (record.error.empty() ? "" : ": " + record.error),
      {.job = record.id});
}

Error not_removable(const JobId& job, const ListedJob& now) {
  return refused(now.over ? "the end of job " + job + " is not written yet"
                          : "job " + job + " is " + now.state +
                                ": allowed is a job that is over; `esctl cancel` ends one");
}

}  // namespace

void PastJobs::restore(JobRecord record) {
  const JobId job = record.id;
  const std::filesystem::path log_file = with_.options.log_file_of(job);
  if (!log_file.empty()) {
    const std::chrono::milliseconds now(with_.options.unix_ms());
    complete_job_log(log_file, job_log_end(record.state, record.error),
                     std::chrono::system_clock::time_point(now));
  }
  // A text of an older release may not be readable; then the job has no tenant.
  const auto spec = parse_job(record.spec_toml, "job");
  with_.jobs.add_over(job, spec ? spec->resources.tenant : std::string(), record.request_id);
  with_.actors.start_past(std::move(record), log_file);
  ask_for_end(job);
}

void PastJobs::restore_failed(JobRecord record, const std::string& reason) {
  record.state = JobState::kFailed;
  record.error = reason;
  log_end(record);
  // The end is stored before the record, as by a job that ends itself.
  const auto shown = details_of(record, with_.options.unix_ms());
  with_.writes.when_possible([this, record, shown]() -> Status {
    const auto bytes = shown.frame()->body.asChars();
    ES_RETURN_IF_ERROR(with_.store.history().save_end(record.id, {bytes.begin(), bytes.size()}));
    return with_.store.save(record);
  });
  restore(std::move(record));
}

void PastJobs::log_end_of(const JobId& job) const {
  if (!log::enabled(log::Level::kInfo)) return;
  if (const auto record = with_.store.load(job); record && record->has_value()) log_end(**record);
}

void PastJobs::keep_or_forget(const JobId& job) {
  if (with_.options.keep_past_jobs) return ask_for_end(job);
  with_.writes.when_possible([this, job] { return with_.store.forget(job); });
  forget(job);
}

// Asks a job that is over once, so that lists need not ask it. If it does not answer, or its end is
// not on the disk yet, the next list asks.
void PastJobs::ask_for_end(const JobId& job) {
  with_.actors.describe(
      job, std::nullopt,
      [this, job](const Msg<wire::JobDetails>& details) { keep_end(job, listed(details)); }, [] {});
}

void PastJobs::keep_end(const JobId& job, const std::shared_ptr<const ListedJob>& end) {
  if (!with_.jobs.is_over(job)) return;
  if (!end->may_change) {
    ends_[job] = end;
    tidy_soon();
  }
  for (const Inbound& request : take_waiting(job)) remove_if_over(request, job, *end);
}

std::vector<Inbound> PastJobs::take_waiting(const JobId& job) {
  const auto waiting = removals_.extract(job);
  return waiting.empty() ? std::vector<Inbound>() : std::move(waiting.mapped());
}

std::shared_ptr<const ListedJob> PastJobs::end_of(const JobId& job) const {
  const auto at = ends_.find(job);
  return at == ends_.end() ? nullptr : at->second;
}

// --- removal

// A client that has seen the end of a job may be faster than the message of the job about it, which
// comes when its processes have ended. So a job that does not seem to be over is asked, and if it
// is, the request waits for the message.
void PastJobs::remove(const Inbound& request) {
  const JobId job = with_.jobs.find(request.frame->envelope.job);
  if (!with_.jobs.contains(job)) return with_.replies.refuse(request, access::no_such_job(job));
  if (end_of(job)) return remove_past(request, job);
  with_.actors.describe(
      job, kJobAnswers,
      [this, request, job](const Msg<wire::JobDetails>& details) {
        const auto now = listed(details);
        if (now->over && !with_.jobs.is_over(job)) return removals_[job].push_back(request);
        keep_end(job, now);
        remove_if_over(request, job, *now);
      },
      [this, request] { with_.replies.refuse(request, failure("the job does not answer")); });
}

void PastJobs::remove_if_over(const Inbound& request, const JobId& job, const ListedJob& now) {
  if (!with_.jobs.contains(job)) return with_.replies.refuse(request, access::no_such_job(job));
  if (end_of(job)) return remove_past(request, job);
  with_.replies.refuse(request, not_removable(job, now));
}

void PastJobs::remove_past(const Inbound& request, const JobId& job) {
  if (const Status ok = with_.writes.check_accepting(); !ok.ok())
    return with_.replies.refuse(request, ok.error());
  const auto record = with_.store.load(job);
  const std::string note = record && *record ? saved_text(**record) : std::string();
  if (const Status removed = remove_now(job); !removed.ok())
    return with_.replies.refuse(request, removed.error());
  with_.replies.answer<wire::Done>(request, [&](wire::Done::Builder b) { b.setNote(note); });
}

Status PastJobs::remove_now(const JobId& job) {
  std::error_code error;
  const std::filesystem::path log_file = with_.options.log_file_of(job);
  if (!log_file.empty()) std::filesystem::remove(log_file, error);
  if (error) return failure(log_file.string() + ": cannot be removed: " + error.message());
  ES_RETURN_IF_ERROR(with_.writes.checked(with_.store.forget(job)));
  log::info("the job is removed", {.job = job});
  forget(job);
  return {};
}

// Clients are told that there is no such job.
void PastJobs::forget(const JobId& job) {
  with_.actors.forget(job);
  with_.jobs.forget(job);
  ends_.erase(job);
  for (const Inbound& request : take_waiting(job))
    with_.replies.refuse(request, access::no_such_job(job));
}

// --- retention

// Many jobs may end, or be restored, at one moment.
void PastJobs::tidy_soon() {
  if (!with_.options.retention.is_limited() || std::exchange(tidies_, true)) return;
  ports_.tidy_soon();
}

void PastJobs::tidy() {
  tidies_ = false;
  // The next end of a job, or the next minute, is soon enough.
  if (!with_.writes.check_accepting().ok()) return;
  std::vector<cluster::PastJob> past;
  for (const auto& [number, job] : with_.jobs.in_order())
    if (const auto end = end_of(job)) past.push_back({job, end->ended_unix_ms});
  for (const JobId& job :
       cluster::not_kept(with_.options.retention, std::move(past), with_.options.unix_ms()))
    if (const Status removed = remove_now(job); !removed.ok()) {
      log::warning("not removed: " + removed.error().message, {.job = job});
      break;
    }
}

void PastJobs::watch_ages() {
  if (!with_.options.retention.age) return;
  tidy_soon();
  ports_.watch_later();
}

}  // namespace es::actors
