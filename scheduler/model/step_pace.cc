#include "scheduler/model/step_pace.h"

#include <algorithm>

namespace es::scheduler {

void StepPace::restart() {
  *this = {};
}

void StepPace::step(Seconds now, std::uint64_t steps) {
  // The first report after a change of devices only starts the clock. Its steps are not counted,
  // because they may include a pause and the warm-up of a process.
  if (!block_since_) {
    block_since_ = now;
    return;
  }
  block_steps_ += steps;
  const Seconds duration = now - *block_since_;
  if (duration < kBlock) return;
  // At least one step is in the block, because the duration is tested only when steps arrive.
  means_.push_back(duration.count() / static_cast<double>(block_steps_));
  ++blocks_;
  if (means_.size() > kBlocks) means_.erase(means_.begin());
  block_since_ = now;
  block_steps_ = 0;
}

std::optional<double> StepPace::newest() const {
  return means_.empty() ? std::nullopt : std::optional(means_.back());
}

std::optional<double> StepPace::seconds() const {
  if (means_.size() < kBlocksMin) return std::nullopt;
  std::vector<double> sorted = means_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2];
}

}  // namespace es::scheduler
