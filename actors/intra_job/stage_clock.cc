#include "actors/intra_job/stage_clock.h"

namespace es::actors::intra_job {

void StageClock::go(Instant now, std::size_t stage, const std::string& placement) {
  if (running_since_) pause(now);
  if (reports_.empty() || stage_ != stage || reports_.back().placement != placement) {
    reports_.push_back({.placement = placement, .steps = 0, .training = {}, .rescale = {}});
    stage_ = stage;
  }
  if (paused_since_) reports_.back().rescale += now - *paused_since_;
  paused_since_.reset();
  running_since_ = now;
}

void StageClock::pause(Instant now) {
  if (!running_since_) return;
  reports_.back().training += now - *running_since_;
  running_since_.reset();
  paused_since_ = now;
}

void StageClock::step() {
  if (!reports_.empty()) ++reports_.back().steps;
}

std::vector<StageReport> StageClock::reports(Instant now) const {
  std::vector<StageReport> reports = reports_;
  if (running_since_) reports.back().training += now - *running_since_;
  return reports;
}

}  // namespace es::actors::intra_job
