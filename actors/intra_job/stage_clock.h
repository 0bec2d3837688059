#pragma once
// Measures where the job's time goes, placement by placement, for the summary, and how fast it
// steps now.
//
// The speed of now is that of the last kRateWindow: the steps that ended within it, over the time
// since the one before them; where a step takes longer, that of the newest one. The time by which
// the next step is late counts too. After a pause it is known from the first step on.
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "actors/intra_job/intra_job_events.h"

namespace es::actors::intra_job {

class StageClock {
 public:
  static constexpr Instant kRateWindow = std::chrono::seconds(10);

  // Training begins or goes on. Another stage or placement than before opens a new report.
  void go(Instant now, std::size_t stage, const std::string& placement);
  // Training has stopped; ignored while it is stopped.
  void pause(Instant now);
  // One version was added to the ledger.
  void step(Instant now);

  // Up to `now`.
  std::vector<StageReport> reports(Instant now) const;
  // Global steps per second; 0: training has stopped, or has made no step since it last began.
  double steps_per_second(Instant now) const;

 private:
  // So many steps were made, since training last began, when it was `at`.
  struct Mark {
    Instant at;
    std::uint64_t steps = 0;
  };

  std::vector<StageReport> reports_;
  std::size_t stage_ = 0;                 // of the last report
  std::optional<Instant> running_since_;  // at most one of these two has a value
  std::optional<Instant> paused_since_;
  std::deque<Mark> marks_;  // since then, ascending and not nearer than kMarksApart but the last
};

}  // namespace es::actors::intra_job
