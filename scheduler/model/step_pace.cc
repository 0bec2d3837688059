#include "scheduler/model/step_pace.h"

#include <algorithm>

namespace es::scheduler {

void StepPace::restart() {
  *this = {};
}

void StepPace::step(double now_seconds, std::uint64_t steps) {
  if (!block_since_) {
    block_since_ = now_seconds;
    return;
  }
  block_steps_ += steps;
  const double duration = now_seconds - *block_since_;
  if (duration < kBlockSeconds) return;
  means_.push_back(duration / static_cast<double>(block_steps_));
  if (means_.size() > kBlocks) means_.erase(means_.begin());
  block_since_ = now_seconds;
  block_steps_ = 0;
}

std::optional<double> StepPace::seconds() const {
  if (means_.size() < kBlocksMin) return std::nullopt;
  std::vector<double> sorted = means_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2];
}

}  // namespace es::scheduler
