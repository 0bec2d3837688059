#pragma once
// Whether to move ESTs between the devices that a job has, now that their speeds are known. A pure
// function of values; thread-safe.
//
//   now     max over devices of A_d / C_d, of the ranks as they are      seconds per global step
//   then    the same of assign_ranks for the same speeds
//   saved   (now - then) * steps in what is left, at most in the horizon
//
// The ranks move when then <= (1 - kRebalanceGainMin) * now and saved > kRebalanceCostFactor times
// the pause that a change costs. So noise of the measurement moves nothing, and neither does what
// would not pay before the job ends.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "proto/base/ids.h"

namespace es::scheduler {

inline constexpr double kRebalanceGainMin = 0.1;
inline constexpr double kRebalanceCostFactor = 2.0;
// Nobody knows for how long a device stays as it is.
inline constexpr double kRebalanceHorizonSeconds = 60.0;

struct RebalanceQuery {
  // Local steps per second of each device as measured, > 0, and its ranks now. The order is that of
  // assign_ranks.
  std::span<const double> capabilities;
  std::span<const RankRange> current;
  std::uint32_t max_p = 1;
  double pause_seconds = 0;      // what one change costs, >= 0
  std::uint64_t steps_left = 0;  // global steps of the job
};

struct Rebalance {
  std::vector<RankRange> ranks;  // of each device
  double seconds_now = 0;        // of a global step
  double seconds_then = 0;
};

// None: it does not pay. REQUIRES: one range for each capability, together [0, max_p).
std::optional<Rebalance> rebalance(const RebalanceQuery& query);

}  // namespace es::scheduler
