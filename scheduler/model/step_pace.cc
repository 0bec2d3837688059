#include "scheduler/model/step_pace.h"

#include <algorithm>

namespace es::scheduler {

void StepPace::restart() {
  *this = {};
}

void StepPace::step(Seconds now, std::uint64_t steps) {
  if (!block_since_) {
    block_since_ = now;
    return;
  }
  block_steps_ += steps;
  const Seconds duration = now - *block_since_;
  if (duration < kBlock) return;
  means_.push_back(duration.count() / static_cast<double>(block_steps_));
  if (means_.size() > kBlocks) means_.erase(means_.begin());
  block_since_ = now;
  block_steps_ = 0;
}

std::optional<double> StepPace::seconds() const {
  if (means_.size() < kBlocksMin) return std::nullopt;
  std::vector<double> sorted = means_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2];
}

}  // namespace es::scheduler
