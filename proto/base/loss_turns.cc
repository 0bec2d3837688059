#include "proto/base/loss_turns.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace es {
namespace {

constexpr std::uint64_t kPeriodMax = 1 << 14;  // iterations, of which all steps are kept

}  // namespace

Result<LossTurns> LossTurns::create(std::span<const std::uint32_t> every) {
  LossTurns turns;
  if (every.empty()) return turns;
  std::uint64_t period = 1;
  for (std::size_t j = 0; j < every.size(); ++j) {
    if (every[j] == 0 || every[j] > kPeriodMax)
      return usage_error("every[" + std::to_string(j) + "] = " + std::to_string(every[j]) +
                         ": allowed is 1 to " + std::to_string(kPeriodMax));
    period = std::lcm(period, std::uint64_t{every[j]});
    if (period > kPeriodMax)
      return usage_error("every: the losses repeat their pattern after more than " +
                         std::to_string(kPeriodMax) + " iterations: allowed are at most as many");
  }
  // An iteration without a step would use samples for nothing.
  if (std::ranges::find(every, 1U) == every.end())
    return usage_error(
        "every: no loss makes a step in every iteration: allowed is 1 for at least "
        "one of them");
  Pattern pattern;
  for (std::uint64_t i = 0; i < period; ++i) {
    pattern.before.push_back(pattern.turns.size());
    for (std::uint32_t j = 0; j < every.size(); ++j)
      if (i % every[j] == 0) pattern.turns.push_back({i, j});
  }
  pattern.before.push_back(pattern.turns.size());
  turns.pattern_ = std::make_shared<const Pattern>(std::move(pattern));
  return turns;
}

LossTurn LossTurns::at(std::uint64_t step) const {
  if (pattern_ == nullptr) return {step, 0};
  const std::uint64_t steps = pattern_->turns.size(), period = pattern_->before.size() - 1;
  const LossTurn& turn = pattern_->turns[step % steps];
  return {step / steps * period + turn.iteration, turn.loss};
}

std::uint64_t LossTurns::steps_of(std::uint64_t iterations) const {
  if (pattern_ == nullptr) return iterations;
  const std::uint64_t steps = pattern_->turns.size(), period = pattern_->before.size() - 1;
  return iterations / period * steps + pattern_->before[iterations % period];
}

}  // namespace es
