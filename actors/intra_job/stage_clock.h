#pragma once
// Measures where the job's time goes, placement by placement, for the summary.
#include <optional>
#include <string>
#include <vector>

#include "actors/intra_job/intra_job_events.h"

namespace es::actors::intra_job {

class StageClock {
 public:
  // Training begins or goes on. Another stage or placement than before opens a new report.
  void go(Instant now, std::size_t stage, const std::string& placement);
  // Training has stopped; ignored while it is stopped.
  void pause(Instant now);
  // One version was added to the ledger.
  void step();

  // Up to `now`.
  std::vector<StageReport> reports(Instant now) const;

 private:
  std::vector<StageReport> reports_;
  std::size_t stage_ = 0;                 // of the last report
  std::optional<Instant> running_since_;  // at most one of these two has a value
  std::optional<Instant> paused_since_;
};

}  // namespace es::actors::intra_job
