#include "actors/views/trackers/job_tracking.h"

#include <algorithm>
#include <limits>

#include "actors/base/job_file/job_file.h"
#include "actors/views/trackers/job_curves.h"
#include "actors/views/trackers/tracker.h"
#include "proto/base/job_fields.h"
#include "proto/base/service_url.h"
#include "proto/http/http_client.h"

namespace es::actors {
namespace {

std::vector<std::unique_ptr<Tracker>> make_trackers(const TrackingOptions& options) {
  std::vector<std::unique_ptr<Tracker>> trackers;
  if (!options.tensorboard.empty()) trackers.push_back(tensorboard_tracker(options.tensorboard));
  if (!options.mlflow.empty())
    trackers.push_back(mlflow_tracker(options.mlflow, options.experiment));
  return trackers;
}

Error named(const Tracker& tracker, const Error& error) {
  return {error.kind, tracker.name() + ": " + error.message};
}

double unix_seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Adds points in pieces that a tracker accepts, and notes in `last` what it has.
Status add_points(Tracker& tracker, std::span<const store::Scalar> points, LastSteps& last) {
  const double now = unix_seconds_now();
  while (!points.empty()) {
    const auto piece = points.first(std::min(points.size(), Tracker::kPointsMax));
    ES_RETURN_IF_ERROR(tracker.add(piece, now));
    for (const store::Scalar& point : piece) last[point.tag] = point.step;
    points = points.subspan(piece.size());
  }
  return {};
}

}  // namespace

TrackingOptions tracking_of(const LogSpec& log) {
  return {log.tensorboard, log.mlflow, log.experiment};
}

Status check_tracking(const TrackingOptions& options) {
  if (options.mlflow.empty()) return {};
  return check_service_url("--mlflow", options.mlflow);
}

Result<JobTracking> JobTracking::begin(const TrackingOptions& options, const TrackedJob& job) {
  JobTracking tracking;
  for (std::unique_ptr<Tracker>& tracker : make_trackers(options)) {
    Result<LastSteps> last = tracker->begin(job);
    if (!last) return named(*tracker, last.error());
    tracking.records_.push_back({std::move(tracker), *std::move(last)});
  }
  return tracking;
}

Status JobTracking::add(const std::vector<store::LedgerLine>& lines,
                        const std::vector<EvaluationView>& evaluations) {
  Status first;
  for (Record& record : records_) {
    const auto points = points_after(record.last, lines, evaluations);
    const Status added = add_points(*record.tracker, points, record.last);
    if (!added.ok() && first.ok()) first = named(*record.tracker, added.error());
  }
  return first;
}

Status JobTracking::end(const std::string& state) {
  Status first;
  for (const Record& record : records_) {
    const Status ended = record.tracker->end(state);
    if (!ended.ok() && first.ok()) first = named(*record.tracker, ended.error());
  }
  return first;
}

Version JobTracking::next() const {
  Version next = std::numeric_limits<Version>::max();
  for (const Record& record : records_) {
    const auto at = record.last.find(kTrainLoss);
    next = std::min<Version>(next, at == record.last.end() ? 0 : at->second + 1);
  }
  return next;
}

Result<TrackedJob> tracked_job(const JobView& view, const std::string& spec_toml) {
  const Result<JobSpec> spec = parse_job(spec_toml, "job " + view.id);
  if (!spec) return spec.error();
  TrackedJob job{view.id, static_cast<double>(view.submitted_unix_ms) / 1e3, {}};
  for (const FieldValue& value : field_values(*spec))
    if (!value.excluded) job.fields.emplace_back(value.field.key, value.toml);
  return job;
}

bool is_over(const std::string& state) {
  return state == "finished" || state == "failed" || state == "cancelled" || state == "timed-out";
}

}  // namespace es::actors
