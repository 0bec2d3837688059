#include "actors/intra_job/core/time_limit.h"

#include <cmath>
#include <utility>

#include "proto/base/number_text.h"

namespace es::actors::intra_job {

Instant TimeLimit::limit() const {
  const double seconds = context_.config.spec.resources.max_seconds;
  return Instant(std::llround(seconds * 1e9));
}

void TimeLimit::update() {
  if (!counted_to_ || context_.is_ending()) return;
  part_ += context_.now - *std::exchange(counted_to_, context_.now);
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(part_);
  context_.record.held_ms += static_cast<std::uint64_t>(whole.count());
  part_ -= whole;
  if (context_.now < journaled_at_ + kJournalEvery) return;
  journaled_at_ = context_.now;
  context_.save();
}

void TimeLimit::look() {
  if (!has_limit()) return;
  const bool holds = !context_.is_ending() && !context_.fleet.holds_nothing();
  if (holds && !counted_to_) counted_to_ = journaled_at_ = context_.now;
  if (!holds) counted_to_.reset();
}

bool TimeLimit::is_used_up() const {
  return has_limit() && std::chrono::milliseconds(context_.record.held_ms) + part_ >= limit();
}

std::optional<Instant> TimeLimit::next() const {
  if (!counted_to_ || is_used_up()) return {};
  const Instant left = limit() - std::chrono::milliseconds(context_.record.held_ms) - part_;
  return std::min(*counted_to_ + left, journaled_at_ + kJournalEvery);
}

std::string TimeLimit::text() const {
  return "its time limit of " + number_text(context_.config.spec.resources.max_seconds) +
         " s (resources.max_seconds) is used up";
}

}  // namespace es::actors::intra_job
