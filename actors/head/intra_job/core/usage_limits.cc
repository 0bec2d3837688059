#include "actors/head/intra_job/core/usage_limits.h"

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

UsageLimits::UsageLimits(JobContext& context) : context_(context) {
  if (context.record.counted_unix_ms == 0 || context.config.zero_unix_ms == 0) return;
  for (const KnownWorker& known : context.record.known) awaited_.insert(known.incarnation);
}

void UsageLimits::add(Instant time, double price_per_s) {
  context_.record.spent += price_per_s * in_seconds(time);
  if (!has_time_limit()) return;
  part_ += time;
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(part_);
  context_.record.held_ms += static_cast<std::uint64_t>(whole.count());
  part_ -= whole;
}

void UsageLimits::write_date() {
  JobRecord& record = context_.record;
  if (context_.config.zero_unix_ms == 0 || !awaited_.empty()) return;
  record.counted_unix_ms = counted_to_ ? context_.unix_ms() : 0;
  record.price_per_hour = counted_to_ ? price_per_s_ * 3600 : 0;
}

void UsageLimits::came_back(Incarnation worker) {
  if (!awaited_.contains(worker) || context_.is_ending()) return;
  awaited_.clear();
  // A date may be set back.
  const std::uint64_t from = context_.record.counted_unix_ms;
  const auto away = std::chrono::milliseconds(std::max(from, context_.unix_ms()) - from);
  const double spent_before = context_.record.spent;
  add(away, context_.record.price_per_hour / 3600);
  const double spent = context_.record.spent - spent_before;
  context_.log("it has held its devices for " +
               number_text(std::chrono::duration<double>(away).count()) +
               " s without a head, which counts" +
               (spent > 0 ? ": it has spent " + amount_text(spent) : ""));
  write_date();
  context_.save();
}

// Whether a worker of the earlier head may still come back.
bool UsageLimits::awaits_workers() const {
  return std::ranges::any_of(awaited_, [this](Incarnation incarnation) {
    const Worker* worker = context_.fleet.find(incarnation);
    return worker != nullptr && worker->phase == Worker::Phase::kKnown;
  });
}

void UsageLimits::update() {
  if (!counted_to_ || context_.is_ending()) return;
  add(context_.now - *std::exchange(counted_to_, context_.now), price_per_s_);
  write_date();
  if (context_.now < journaled_at_ + kJournalEvery) return;
  journaled_at_ = context_.now;
  context_.save();
}

void UsageLimits::look() {
  const bool holds = !context_.is_ending() && !context_.fleet.holds_nothing();
  if (!awaits_workers()) awaited_.clear();
  const double before = std::exchange(price_per_s_, 0);
  if (holds) price_per_s_ = context_.fleet.price_per_hour() / 3600;
  const bool counted = counted_to_.has_value();
  // The time until a worker comes back is counted then. If it were counted now too, and this head
  // ended before, the next one would count it twice.
  const bool counts = holds && awaited_.empty() && (has_time_limit() || price_per_s_ > 0);
  if (counts && !counted) counted_to_ = journaled_at_ = context_.now;
  if (!counts) counted_to_.reset();
  write_date();
  // Nothing may happen for long from now on, so what was counted until now, or the date from which
  // it counts, is journaled.
  if (!context_.is_ending() && (counted != counts || before != price_per_s_)) context_.save();
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
