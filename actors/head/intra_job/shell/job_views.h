#pragma once
// What the users of one job see of it.
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "actors/base/protocol/wire/job_view.h"
#include "actors/head/intra_job/core/job_core.h"
#include "actors/head/intra_job/core/job_planner.h"
#include "actors/head/intra_job/core/lost_steps.h"
#include "actors/head/intra_job/shell/job_archive.h"
#include "actors/head/intra_job/shell/job_clock.h"
#include "actors/head/intra_job/shell/ordered_effects.h"
#include "actors/head/intra_job/shell/worker_reports.h"
#include "proto/base/ids.h"
#include "proto/base/job_spec.h"

namespace es::actors {

// EvaluationViews are the evaluations of one job as its users see them. One owner.
class EvaluationViews {
 public:
  // `spec` outlives this object.
  explicit EvaluationViews(const JobSpec& spec) : spec_(spec) {}

  // Keeps the evaluation and returns a line for the log; `totals` are those of protocol::Evaluated.
  // Data without evaluation samples have no metrics: nothing is kept, and the line is empty.
  std::string add(Version version, std::span<const std::byte> totals);
  // Forgets the evaluations after this version.
  void rewind(Version through) { views_.erase(views_.upper_bound(through), views_.end()); }
  // Ascending by version.
  std::vector<EvaluationView> all() const;

 private:
  const JobSpec& spec_;
  std::map<Version, EvaluationView> views_;
};

// JobViews describes one job for its users. It owns nothing, and what it refers to outlives it. One
// owner.
class JobViews {
 public:
  struct Sources {
    const intra_job::Config& config;
    const intra_job::JobCore& core;
    const intra_job::JobPlanner& planner;
    const intra_job::LostSteps& lost_steps;
    const JobClock& clock;
    const JobArchive& archive;
    const OrderedEffects& effects;
    const WorkerReports& reports;
    const EvaluationViews& evaluations;
  };
  explicit JobViews(const Sources& sources) : from_(sources) {}

  // The end of a job is shown after it is on disk. Until then the ledger of the job lacks lines,
  // and a head that dies would compute the last steps again.
  JobState shown_state() const;
  // Whether nothing follows that users are told: the job is over, or it ends and only the exits of
  // processes are missing.
  bool is_settled() const;
  // What is wrong with the state directory; empty: nothing.
  std::string store_warning() const;

  JobView view(JobState state) const;
  JobView view() const { return view(shown_state()); }
  void put_details(wire::JobDetails::Builder b, JobState state) const;
  Msg<wire::JobDetails> details(JobState state) const;

 private:
  void put_course(JobView& v) const;
  DecisionsView decisions() const;
  void put_counts(JobView& v) const;
  void put_workers(JobView& v) const;
  WorkerView worker_view(const protocol::Member& member, const DeviceId& device) const;

  Sources from_;
};

}  // namespace es::actors
