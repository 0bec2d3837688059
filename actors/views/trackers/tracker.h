#pragma once
// Tracker: a program that keeps the curves of experiments, such as TensorBoard or MLflow. The
// losses and evaluations of a job are written to it, also while the job trains.
//
// Not thread-safe. The errors of a tracker concern the curves only; they never stop a job.
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "store/tensorboard/event_file.h"

namespace es::actors {

// What a tracker receives about a job.
struct TrackedJob {
  JobId id;
  double submitted_unix_s = 0;  // since 1970; together with the id it names the job; 0 if unknown
  std::vector<std::pair<std::string, std::string>> fields;  // of the job file: name, value
};

// For each curve, by its tag, the last step that a tracker has.
using LastSteps = std::map<std::string, std::uint64_t>;

class Tracker {
 public:
  virtual ~Tracker() = default;
  // How error messages call it, for example "MLflow at http://127.0.0.1:5000".
  virtual std::string name() const = 0;
  // Opens or creates the record of this job. It returns what the record has from an earlier call,
  // so that nothing is written twice.
  virtual Result<LastSteps> begin(const TrackedJob& job) = 0;
  // Writes further points. `unix_s` is the time at which they were seen. REQUIRES: begin() was
  // successful; at most kPointsMax points.
  virtual Status add(std::span<const store::Scalar> points, double unix_s) = 0;
  // The job is over; `state` is "finished", "failed", "cancelled" or "timed-out".
  virtual Status end(const std::string& state) = 0;

  static constexpr std::size_t kPointsMax = 1000;  // MLflow accepts no more in one request
};

// --- The trackers.

// MLflow: a run of an experiment for each job, by the REST API of a tracking server. The run has
// the job's id as its name, the fields of the job file as parameters, and the state of the job as
// its status. A run that an earlier call has begun is continued. The variables that MLflow's own
// clients read say who writes: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and
// MLFLOW_TRACKING_PASSWORD. REQUIRES: check_service_url(url). Errors: the server does not answer,
// or refuses.
std::unique_ptr<Tracker> mlflow_tracker(std::string url, std::string experiment);

// TensorBoard: event files, one directory for each job. The file is
// DIR/JOB/events.out.tfevents.SECONDS.esctl, where SECONDS is the time at which the job was
// submitted. An older file of that name is replaced, because all of its points are written again.
// Each add() is visible to readers when it returns. Errors: the directory or the file cannot be
// written.
std::unique_ptr<Tracker> tensorboard_tracker(std::filesystem::path directory);

}  // namespace es::actors
