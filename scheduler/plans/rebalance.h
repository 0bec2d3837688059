#pragma once
// Decides whether to move ESTs between the devices of a job when their speeds are known. A pure
// function of values; thread-safe.
//
//   now     max over devices of A_d / C_d for the present ranks, and sync   seconds per global step
//   then    the same for assign_ranks with the same speeds, and sync for its crossings (WireCost)
//   saved   (now - then) * number of remaining steps, at most those within the horizon
//
// The ranks move if then <= (1 - kRebalanceGainMin) * now and saved > kRebalanceCostFactor * pause
// of the change. So noise of the measurement moves nothing, and neither does a change that would
// not pay before the job ends.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "proto/base/ids.h"
#include "scheduler/model/seconds.h"
#include "scheduler/plans/placement.h"

namespace es::scheduler {

inline constexpr double kRebalanceGainMin = 0.1;
inline constexpr double kRebalanceCostFactor = 2.0;
// A longer saving is not counted, because the speeds of the devices may change again.
inline constexpr Seconds kRebalanceHorizon{60.0};

struct RebalanceQuery {
  // Measured local steps per second of each device, > 0, and its present ranks. The order is that
  // of assign_ranks.
  std::span<const double> capabilities;
  std::span<const RankRange> current;
  std::uint32_t max_p = 1;
  Seconds pause{0};              // cost of one change, >= 0
  std::uint64_t steps_left = 0;  // global steps of the job
  double sync_seconds = 0;       // of a global step with the present ranks (model/sync.h)
  WireCost wire{};
};

struct Rebalance {
  std::vector<RankRange> ranks;  // of each device
  double seconds_now = 0;        // seconds of a global step
  double seconds_then = 0;
};

// Returns nullopt if a change does not pay. REQUIRES: one range for each capability, together [0,
// max_p).
std::optional<Rebalance> rebalance(const RebalanceQuery& query);

}  // namespace es::scheduler
