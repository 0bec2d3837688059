#include "scheduler/plans/rebalance.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::scheduler {
namespace {

double step_seconds(std::span<const double> capabilities, std::span<const RankRange> ranks) {
  double slowest = 0;
  for (std::size_t d = 0; d < ranks.size(); ++d)
    slowest = std::max(slowest, ranks[d].size() / capabilities[d]);
  return slowest;
}

}  // namespace

std::optional<Rebalance> rebalance(const RebalanceQuery& query) {
  ES_CHECK(query.capabilities.size() == query.current.size());
  Rebalance change;
  change.ranks = assign_ranks(query.capabilities, query.max_p, query.wire);
  change.seconds_now = query.sync_seconds + step_seconds(query.capabilities, query.current);
  const auto crossings = [&](std::span<const RankRange> ranks) {
    return query.wire.seconds_per_crossing * mean_crossings(ranks, query.wire, query.max_p);
  };
  // The present crossings are a part of the measured communication.
  const double fewer = crossings(query.current) - crossings(change.ranks);
  change.seconds_then =
      std::max(0.0, query.sync_seconds - fewer) + step_seconds(query.capabilities, change.ranks);
  if (change.seconds_then > (1 - kRebalanceGainMin) * change.seconds_now) return std::nullopt;
  // The speeds may change again, so only the steps of a limited time are credited to the change,
  // and never more than are left.
  const double steps = std::min(static_cast<double>(query.steps_left),
                                kRebalanceHorizon.count() / change.seconds_then);
  const double saved = (change.seconds_now - change.seconds_then) * steps;
  if (saved <= kRebalanceCostFactor * query.pause.count()) return std::nullopt;
  return change;
}

}  // namespace es::scheduler
