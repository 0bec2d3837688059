#include "actors/sim/core/job_spans.h"

#include <algorithm>
#include <utility>

namespace es::actors::simulator {

const char* state_name(SpanState state) {
  switch (state) {
    case SpanState::kWaits:
      return "waits";
    case SpanState::kStarts:
      return "starts";
    case SpanState::kRuns:
      return "runs";
    case SpanState::kPauses:
      return "pauses";
  }
  return "?";
}

void JobSpans::enter(std::size_t job, SpanState state, const std::vector<std::uint32_t>& held,
                     double now_s) {
  Open& open = open_[job];
  if (open.is_open && open.span.state == state && open.span.held == held) return;
  close(job, now_s);
  open.is_open = true;
  open.span = {.job = job, .state = state, .from_s = now_s, .held = held, .reasons = {}};
  open.reason_since_s = now_s;
}

void JobSpans::leave(std::size_t job, double now_s) {
  close(job, now_s);
  open_[job] = {};
}

void JobSpans::finish(double now_s) {
  for (std::size_t job = 0; job < open_.size(); ++job) leave(job, now_s);
}

void JobSpans::close(std::size_t job, double now_s) {
  Open& open = open_[job];
  if (!open.is_open || now_s <= open.span.from_s) return;
  charge(open, now_s);
  open.span.until_s = now_s;
  spans_.push_back(std::move(open.span));
}

// Adds the time since the last change of the reason to it.
void JobSpans::charge(Open& open, double now_s) {
  const double passed = now_s - std::exchange(open.reason_since_s, now_s);
  if (open.span.state != SpanState::kWaits || passed <= 0) return;
  auto& reasons = open.span.reasons;
  const auto at = std::ranges::find(reasons, open.reason, &std::pair<std::size_t, double>::first);
  if (at != reasons.end())
    at->second += passed;
  else
    reasons.emplace_back(open.reason, passed);
}

void JobSpans::set_reason(std::size_t job, std::size_t reason, double now_s) {
  if (open_[job].reason == reason) return;
  charge(open_[job], now_s);
  open_[job].reason = reason;
}

void JobSpans::explain(const std::map<std::size_t, std::string>& reasons, double now_s) {
  for (const auto& [job, reason] : explained_)
    if (!reasons.contains(job)) set_reason(job, kTooFew, now_s);
  for (const auto& [job, reason] : reasons) set_reason(job, index_of(reason), now_s);
  explained_ = reasons;
}

std::size_t JobSpans::index_of(const std::string& reason) {
  const auto [at, is_new] = index_of_reason_.try_emplace(reason, reasons_.size());
  if (is_new) reasons_.push_back(reason);
  return at->second;
}

}  // namespace es::actors::simulator
