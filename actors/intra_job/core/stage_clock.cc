#include "actors/intra_job/core/stage_clock.h"

#include <algorithm>

#include "actors/protocol/core/durations.h"

namespace es::actors::intra_job {
namespace {

// Limits the number of marks for jobs that make many steps in a second.
constexpr Instant kMarksApart = StageClock::kRateWindow / 40;

}  // namespace

void StageClock::go(Instant now, std::size_t stage, const std::string& placement) {
  if (running_since_) pause(now);
  // A round that leads to the same placement, such as one after a broken link, continues its
  // report.
  if (reports_.empty() || stage_ != stage || reports_.back().placement != placement) {
    reports_.push_back({.placement = placement, .steps = 0, .training = {}, .rescale = {}});
    stage_ = stage;
  }
  if (paused_since_) reports_.back().rescale += now - *paused_since_;
  paused_since_.reset();
  running_since_ = now;
  marks_ = {{now, 0}};
}

void StageClock::pause(Instant now) {
  if (!running_since_) return;
  reports_.back().training += now - *running_since_;
  running_since_.reset();
  paused_since_ = now;
  marks_.clear();
}

void StageClock::step(Instant now) {
  if (!reports_.empty()) ++reports_.back().steps;
  if (marks_.empty()) return;
  step_times_.add(in_seconds(now - marks_.back().at));
  const Mark mark{now, marks_.back().steps + 1};
  const bool joins = marks_.size() > 1 && now - marks_[marks_.size() - 2].at < kMarksApart;
  // A step soon after the one before takes the place of its mark.
  if (joins) marks_.pop_back();
  marks_.push_back(mark);
  while (marks_.size() > 2 && now - marks_[1].at >= kRateWindow) marks_.pop_front();
}

double StageClock::steps_per_second(Instant now) const {
  if (marks_.size() < 2) return 0;
  // The newest mark from before the window. It is never the last mark, because a step must follow
  // it.
  std::size_t from = 0;
  while (from + 2 < marks_.size() && now - marks_[from + 1].at >= kRateWindow) ++from;
  const auto steps = static_cast<double>(marks_.back().steps - marks_[from].steps);
  const double seconds = in_seconds(marks_.back().at - marks_[from].at);
  // The time since the last step counts only beyond the mean time of a step. So the speed falls
  // when the next step is late, and not between two steps that are on time.
  const double late = in_seconds(now - marks_.back().at) - seconds / steps;
  const double all = seconds + std::max(0.0, late);
  return all > 0 ? steps / all : 0;
}

std::vector<StageReport> StageClock::reports(Instant now) const {
  std::vector<StageReport> reports = reports_;
  if (running_since_) reports.back().training += now - *running_since_;
  return reports;
}

}  // namespace es::actors::intra_job
