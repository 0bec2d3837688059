#pragma once
// How long a global step takes, from the times at which steps were committed. Pure: times are
// passed in, in seconds from any origin; not thread-safe.
//
// Steps are put together in blocks of kBlockSeconds, or of one step where that is longer, so that
// the delay of a message is small beside a block. The pace is the median of the newest kBlocks
// block means, once there are kBlocksMin: an evaluation between two steps does not count.
#include <cstdint>
#include <optional>
#include <vector>

namespace es::scheduler {

class StepPace {
 public:
  static constexpr double kBlockSeconds = 0.25;
  static constexpr std::size_t kBlocks = 5;
  static constexpr std::size_t kBlocksMin = 3;

  // Other devices: what was measured is void, and the next step is not counted, which may include a
  // pause and the warm-up of a process.
  void restart();
  // So many steps were committed since the last call. Times do not fall.
  void step(double now_seconds, std::uint64_t steps = 1);
  // Seconds of a global step; none: too little is measured.
  std::optional<double> seconds() const;

 private:
  std::optional<double> block_since_;
  std::uint64_t block_steps_ = 0;
  std::vector<double> means_;  // of the newest blocks, oldest first
};

}  // namespace es::scheduler
