#pragma once
// StageClock measures how long each placement of a job trained and paused, for the summary, and how
// fast the job steps now.
//
// The current speed is taken over the last kRateWindow: the number of steps that ended within it,
// divided by the time since the step before them. If a step takes longer than the window, the speed
// is that of the newest step. The time by which the next step is late is included. After a pause
// the speed is known from the first step on.
//
// It also has each span of training between two pauses, the newest kSpansMax of them, and the
// pauses by their cause.
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/protocol/core/step_times.h"
#include "actors/head/intra_job/core/job_events.h"

namespace es::actors::intra_job {

class StageClock {
 public:
  static constexpr Instant kRateWindow = std::chrono::seconds(10);

  static constexpr std::size_t kSpansMax = 200;
  static constexpr std::size_t kProgressMax = 200;

  // Training begins or continues. A new stage or placement opens a new report. `version` is the one
  // that the members hold, and `devices` are theirs.
  void go(Instant now, std::size_t stage, const std::string& placement, Version version = 0,
          std::vector<std::string> devices = {});
  // Training has stopped. If it is stopped already, only a more important cause is noted.
  void pause(Instant now, PauseCause cause = PauseCause::kChange);
  // A version was added to the ledger.
  void step(Instant now);

  // Returns the reports up to `now`.
  std::vector<StageReport> reports(Instant now) const;
  // Returns global steps per second; 0 if training has stopped, or has made no step since it last
  // began.
  double steps_per_second(Instant now) const;
  // The times of the steps that this head has seen, from the step before or the begin of training.
  const StepTimes& step_times() const { return step_times_; }
  // The spans of training up to `now`, ascending.
  std::vector<SpanReport> spans(Instant now) const;
  // How far the job was when, ascending, in at most kProgressMax + 1 points.
  const std::vector<ProgressPoint>& progress() const { return progress_; }
  // The pauses that have ended, by PauseCause.
  const std::array<PauseReport, kPauseCauses>& pauses() const { return pauses_; }

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
  void note_progress(Instant now);

  std::optional<Instant> first_go_;
  std::vector<ProgressPoint> progress_;
  Instant progress_apart_ = std::chrono::seconds(1);  // all but the last are so far apart
  std::deque<SpanReport> spans_;
  std::array<PauseReport, kPauseCauses> pauses_{};
  PauseCause cause_ = PauseCause::kChange;  // of the pause since paused_since_
};

}  // namespace es::actors::intra_job
