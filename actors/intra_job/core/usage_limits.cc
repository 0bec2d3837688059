#include "actors/intra_job/core/usage_limits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "proto/base/number_text.h"

namespace es::actors::intra_job {
namespace {

// Longer waits are not counted in nanoseconds, which would overflow.
constexpr double kLongestSeconds = 1e9;

Instant instant_of(double seconds) {
  return Instant(std::llround(std::min(seconds, kLongestSeconds) * 1e9));
}

}  // namespace

std::string amount_text(double amount) {
  return number_text(std::round(amount * 100) / 100);
}

std::string budget_text(const JobRecord& record) {
  return "its budget of " + number_text(record.budget) + " is used up: it has spent " +
         amount_text(record.spent) + "; `esctl budget` gives it more";
}

Instant UsageLimits::time_limit() const {
  return instant_of(context_.config.spec.resources.max_seconds);
}

void UsageLimits::update() {
  if (!counted_to_ || context_.is_ending()) return;
  const Instant passed = context_.now - *std::exchange(counted_to_, context_.now);
  context_.record.spent += price_per_s_ * std::chrono::duration<double>(passed).count();
  if (has_time_limit()) {
    part_ += passed;
    const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(part_);
    context_.record.held_ms += static_cast<std::uint64_t>(whole.count());
    part_ -= whole;
  }
  if (context_.now < journaled_at_ + kJournalEvery) return;
  journaled_at_ = context_.now;
  context_.save();
}

void UsageLimits::look() {
  const bool holds = !context_.is_ending() && !context_.fleet.holds_nothing();
  const double before = price_per_s_;
  price_per_s_ = holds ? context_.fleet.price_per_hour() / 3600 : 0;
  // Nothing may happen for long from now on, so what was spent until now is journaled.
  if (before > 0 && price_per_s_ == 0 && !context_.is_ending()) context_.save();
  const bool counts = holds && (has_time_limit() || price_per_s_ > 0);
  if (counts && !counted_to_) counted_to_ = journaled_at_ = context_.now;
  if (!counts) counted_to_.reset();
}

bool UsageLimits::is_time_used_up() const {
  return has_time_limit() &&
         std::chrono::milliseconds(context_.record.held_ms) + part_ >= time_limit();
}

bool UsageLimits::is_budget_used_up() const {
  const JobRecord& record = context_.record;
  return record.budget > 0 && record.spent + price_per_s_ * kSavingSeconds >= record.budget;
}

// REQUIRES: the budget is not used up, and the devices cost something.
Instant UsageLimits::until_budget_is_used_up() const {
  const JobRecord& record = context_.record;
  const Instant least = std::chrono::milliseconds(1);  // rounding could give 0 again and again
  return least + instant_of((record.budget - record.spent) / price_per_s_ - kSavingSeconds);
}

std::optional<Instant> UsageLimits::next() const {
  if (!counted_to_) return {};
  std::optional<Instant> first;
  const auto at = [&](Instant limit) { first = std::min(first.value_or(limit), limit); };
  if (has_time_limit() && !is_time_used_up())
    at(*counted_to_ + time_limit() - std::chrono::milliseconds(context_.record.held_ms) - part_);
  if (context_.record.budget > 0 && price_per_s_ > 0 && !is_budget_used_up())
    at(*counted_to_ + until_budget_is_used_up());
  at(journaled_at_ + kJournalEvery);
  return first;
}

std::string UsageLimits::time_text() const {
  return "its time limit of " + number_text(context_.config.spec.resources.max_seconds) +
         " s (resources.max_seconds) is used up";
}

}  // namespace es::actors::intra_job
