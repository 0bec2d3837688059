#pragma once
// StageClock measures how long each placement of a job trained and paused, for the summary, and how
// fast the job steps now.
//
// The current speed is taken over the last kRateWindow: the number of steps that ended within it,
// divided by the time since the step before them. If a step takes longer than the window, the speed
// is that of the newest step. The time by which the next step is late is included. After a pause
// the speed is known from the first step on.
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "actors/intra_job/core/job_events.h"
#include "actors/protocol/core/step_times.h"

namespace es::actors::intra_job {

class StageClock {
 public:
  static constexpr Instant kRateWindow = std::chrono::seconds(10);

  // Training begins or continues. A new stage or placement opens a new report.
  void go(Instant now, std::size_t stage, const std::string& placement);
  // Training has stopped. Ignored if it is stopped already.
  void pause(Instant now);
  // A version was added to the ledger.
  void step(Instant now);

  // Returns the reports up to `now`.
  std::vector<StageReport> reports(Instant now) const;
  // Returns global steps per second; 0 if training has stopped, or has made no step since it last
  // began.
  double steps_per_second(Instant now) const;
  // The times of the steps that this head has seen, from the step before or the begin of training.
  const StepTimes& step_times() const { return step_times_; }

 private:
  // The number of steps since training last began, at the time `at`.
  struct Mark {
    Instant at;
    std::uint64_t steps = 0;
  };

  std::vector<StageReport> reports_;
  std::size_t stage_ = 0;                 // stage of the last report
  std::optional<Instant> running_since_;  // at most one of these two has a value
  std::optional<Instant> paused_since_;
  // Since training last began, ascending; all but the last are kMarksApart apart.
  std::deque<Mark> marks_;
  StepTimes step_times_;
};

}  // namespace es::actors::intra_job
