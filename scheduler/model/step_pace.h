#pragma once
// Measures how long a global step takes, from the times at which steps were committed. Pure: times
// are arguments, from any origin; not thread-safe.
//
// Steps are combined in blocks of kBlock, or of one step if that is longer, so that the
// delay of a message is small compared with a block. The pace is the median of the means of the
// newest kBlocks blocks, once there are kBlocksMin. A pause between two steps, such as an
// evaluation, therefore has no effect.
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/model/seconds.h"

namespace es::scheduler {

class StepPace {
 public:
  static constexpr Seconds kBlock{0.25};
  static constexpr std::size_t kBlocks = 5;
  static constexpr std::size_t kBlocksMin = 3;

  // The devices have changed. Earlier measurements are void, and the next step is not counted,
  // because it may include a pause and the warm-up of a process.
  void restart();
  // This number of steps was committed since the last call. Times never decrease.
  void step(Seconds now, std::uint64_t steps = 1);
  // The mean duration of a step in the newest block; nullopt before the first one. blocks() counts
  // all blocks since the devices changed.
  std::optional<double> newest() const;
  std::uint64_t blocks() const { return blocks_; }
  // Seconds of a global step; nullopt if too few steps are measured.
  std::optional<double> seconds() const;

 private:
  std::optional<Seconds> block_since_;
  std::uint64_t block_steps_ = 0;
  std::uint64_t blocks_ = 0;
  std::vector<double> means_;  // seconds of a step in the newest blocks, oldest first
};

}  // namespace es::scheduler
