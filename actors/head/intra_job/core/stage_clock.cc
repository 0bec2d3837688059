#include "actors/head/intra_job/core/stage_clock.h"

#include <algorithm>
#include <utility>

#include "actors/base/protocol/core/instant.h"

namespace es::actors::intra_job {
namespace {

// Limits the number of marks for jobs that make many steps in a second.
constexpr Instant kMarksApart = StageClock::kRateWindow / 40;

}  // namespace

void StageClock::go(Instant now, std::size_t stage, const std::string& placement, Version version,
                    std::vector<std::string> devices) {
  if (running_since_) pause(now);
  // A round that leads to the same placement, such as one after a broken link, continues its
  // report.
  if (reports_.empty() || stage_ != stage || reports_.back().placement != placement) {
    reports_.push_back({.placement = placement, .steps = 0, .training = {}, .rescale = {}});
    stage_ = stage;
  }
  if (!first_go_) first_go_ = now;
  SpanReport span{.begin = now - *first_go_, .first = version, .devices = std::move(devices)};
  if (paused_since_) {
    span.pause = now - *paused_since_;
    span.cause = cause_;
    reports_.back().rescale += span.pause;
    PauseReport& pauses = pauses_.at(static_cast<std::size_t>(cause_));
    ++pauses.count;
    pauses.duration += span.pause;
  }
  spans_.push_back(std::move(span));
  if (spans_.size() > kSpansMax) spans_.pop_front();
  paused_since_.reset();
  running_since_ = now;
  marks_ = {{now, 0}};
}

void StageClock::pause(Instant now, PauseCause cause) {
  cause_ = running_since_ ? cause : std::max(cause_, cause);
  if (!running_since_) return;
  reports_.back().training += now - *running_since_;
  spans_.back().training += now - *running_since_;
  running_since_.reset();
  paused_since_ = now;
  marks_.clear();
}

void StageClock::step(Instant now) {
  if (!reports_.empty()) ++reports_.back().steps;
  if (!spans_.empty()) ++spans_.back().steps;
  note_progress(now);
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

// The last point is the newest step. It stays if it is far enough from the one before it.
void StageClock::note_progress(Instant now) {
  if (!first_go_) return;
  const std::uint64_t steps = progress_.empty() ? 1 : progress_.back().steps + 1;
  const bool joins = progress_.size() > 1 &&
                     now - *first_go_ - progress_[progress_.size() - 2].at < progress_apart_;
  if (joins) progress_.pop_back();
  progress_.push_back({now - *first_go_, steps});
  if (progress_.size() <= kProgressMax) return;
  progress_apart_ *= 2;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < progress_.size(); ++i)
    if (i % 2 == 0 || i + 1 == progress_.size()) progress_[kept++] = progress_[i];
  progress_.resize(kept);
}

std::vector<SpanReport> StageClock::spans(Instant now) const {
  std::vector<SpanReport> spans(spans_.begin(), spans_.end());
  if (running_since_) spans.back().training += now - *running_since_;
  return spans;
}

}  // namespace es::actors::intra_job
