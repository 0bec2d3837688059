#pragma once
// JobTracking: gives the points of a job to trackers, once or while it trains.
//
// Not thread-safe. What a tracker could not take is kept by the ledger of the job, and is offered
// to it again by the next update.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "actors/views/trackers/tracker.h"
#include "actors/views/views.h"
#include "proto/base/job_spec.h"
#include "store/ledger/ledger_file.h"

namespace es::actors {

struct TrackingOptions {
  std::string tensorboard;  // a directory; empty: none
  std::string mlflow;       // a URL; empty: none
  std::string experiment = "easyscale";
  bool any() const { return !tensorboard.empty() || !mlflow.empty(); }
};

// What the job file asks for.
TrackingOptions tracking_of(const LogSpec& log);

// Errors: usage (a bad URL).
Status check_tracking(const TrackingOptions& options);

class JobTracking {
 public:
  // Begins the records of a job. REQUIRES: check_tracking(options).
  // Errors: those of the trackers, with their names.
  static Result<JobTracking> begin(const TrackingOptions& options, const TrackedJob& job);

  // Writes the points of these lines and evaluations that a tracker does not have yet. Errors:
  // those of the first tracker that failed; the others have got theirs.
  Status add(const std::vector<store::LedgerLine>& lines,
             const std::vector<EvaluationView>& evaluations);
  // The job is over.
  Status end(const std::string& state);

  // The first version of which a tracker may lack the loss.
  Version next() const;

 private:
  struct Record {
    std::unique_ptr<Tracker> tracker;
    LastSteps last;
  };
  std::vector<Record> records_;
};

// What trackers receive about a job. Errors: usage (the head's text is no job file).
Result<TrackedJob> tracked_job(const JobView& view, const std::string& spec_toml);

// True for states in which a job stays.
bool is_over(const std::string& state);

}  // namespace es::actors
