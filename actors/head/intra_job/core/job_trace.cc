#include "actors/head/intra_job/core/job_trace.h"

#include <algorithm>

namespace es::actors::intra_job {

using tracing::Span;
using tracing::SpanKind;
namespace lane = tracing::lane;

tracing::TraceRequest JobTrace::request() const {
  return {.trace = options_.number,
          .first = first_,
          .end = end_,
          .all_operators = options_.all_operators,
          .peak = options_.peak};
}

TraceSends JobTrace::members(const std::vector<TraceMember>& members, Instant now) {
  TraceSends sends;
  for (const TraceMember& member : members) {
    const auto [at, is_new] = workers_.try_emplace(
        member.worker, Worker{.device = member.device,
                              .clock = tracing::ClockAlignment(member.same_machine),
                              .asked = now});
    if (is_new) sends.push_back({member.worker, request()});
  }
  return sends;
}

TraceSends JobTrace::answered(Incarnation worker,
                              const std::optional<tracing::ClockExchange>& exchange,
                              std::optional<TraceBegan> began) {
  const auto at = workers_.find(worker);
  if (at == workers_.end() || at->second.state == State::kSettled) return {};
  Worker& w = at->second;
  if (w.state == State::kAsked) w.state = State::kAnswers;
  if (began) {
    w.state = State::kRecords;
    w.step = began->step;
    return choose_steps();
  }
  if (!exchange) return {};
  w.clock.add(*exchange);
  if (++w.exchanges >= kClockExchanges) return {};
  return {{worker, request()}};
}

// Chooses the steps when every worker records. Until then, and after it, this does nothing.
TraceSends JobTrace::choose_steps() {
  if (end_ != 0 || finished_) return {};
  bool any = false;
  Version first = 0;
  for (const auto& [incarnation, worker] : workers_) {
    if (worker.state == State::kAsked || worker.state == State::kAnswers) return {};
    if (worker.state != State::kRecords && !worker.sent_all) continue;
    any = true;
    first = std::max(first, worker.step);
  }
  if (!any || first >= options_.last_version) return {};
  first_ = first;
  end_ = std::min<Version>(first + options_.steps, options_.last_version);
  if (end_ - first_ < options_.steps) note_ = "the job has no more steps";
  TraceSends sends;
  for (const auto& [incarnation, worker] : workers_)
    if (worker.state == State::kRecords) sends.push_back({incarnation, request()});
  return sends;
}

void JobTrace::last_part(Incarnation worker) {
  const auto at = workers_.find(worker);
  if (at == workers_.end() || at->second.state == State::kSettled) return;
  at->second.sent_all = true;
  settle(at->second, "");
  (void)choose_steps();  // the job was over before all workers recorded
  finish_if_settled();
}

TraceSends JobTrace::gone(Incarnation worker, const std::string& why) {
  const auto at = workers_.find(worker);
  if (at == workers_.end() || at->second.state == State::kSettled) return {};
  settle(at->second, why.empty() ? over_ : why);
  TraceSends sends = choose_steps();
  finish_if_settled();
  return sends;
}

void JobTrace::settle(Worker& worker, const std::string& missing) {
  worker.state = State::kSettled;
  worker.missing = missing;
}

// If no worker has reached the end, others will take their place, unless the job is over.
void JobTrace::finish_if_settled() {
  bool reached = false;
  for (const auto& [incarnation, worker] : workers_) {
    if (worker.state != State::kSettled) return;
    reached = reached || worker.sent_all;
  }
  if (finished_ || (!reached && over_.empty())) return;
  if (!reached) note_ = over_;
  finished_ = true;
}

void JobTrace::job_ends(const std::string& why) {
  over_ = why;
  finish_if_settled();
}

void JobTrace::no_workers(const std::string& why) {
  for (auto& [incarnation, worker] : workers_)
    if (worker.state != State::kSettled) settle(worker, why);
  job_ends(why);
}

TraceSends JobTrace::stop() {
  TraceSends sends;
  for (auto& [incarnation, worker] : workers_) {
    if (worker.state == State::kSettled) continue;
    settle(worker, "the trace was stopped");
    sends.push_back({incarnation, {.trace = options_.number, .stop = true}});
  }
  finished_ = true;
  return sends;
}

std::optional<Instant> JobTrace::next_tick() const {
  std::optional<Instant> due;
  for (const auto& [incarnation, worker] : workers_)
    if (worker.state == State::kAsked)
      due = std::min(due.value_or(Instant::max()), worker.asked + kTraceAnswerTimeout);
  return due;
}

TraceSends JobTrace::tick(Instant now) {
  TraceSends sends;
  for (auto& [incarnation, worker] : workers_)
    if (worker.state == State::kAsked && now >= worker.asked + kTraceAnswerTimeout) {
      for (const TraceSend& send : gone(incarnation, "it did not answer")) sends.push_back(send);
    }
  const bool all_settled = std::ranges::all_of(
      workers_, [](const auto& entry) { return entry.second.state == State::kSettled; });
  if (!workers_.empty() && all_settled && end_ == 0) no_workers("no worker answered");
  return sends;
}

void JobTrace::add(const Span& span) {
  if (spans_.size() < tracing::kSpansMax)
    spans_.push_back(span);
  else
    ++dropped_;
}

void JobTrace::round_begins(Generation generation, Instant now) {
  if (round_ && round_->first == generation) return;
  if (round_) round_ends(round_->first, now);  // it was replaced by this one
  round_ = {generation, now};
}

void JobTrace::round_ends(Generation generation, Instant now) {
  if (!round_ || round_->first != generation) return;
  add({.kind = SpanKind::kRound,
       .lane = lane::kRounds,
       .number = static_cast<std::uint32_t>(generation.value),
       .begin = round_->second,
       .duration = now - round_->second});
  round_.reset();
}

// One message of a worker can add several lines.
void JobTrace::ledger_line(Version version, Instant begin, Instant end) {
  begin = std::max(begin, ledger_end_);
  ledger_end_ = end;
  if (version == 0) return;
  add({.kind = SpanKind::kLedger,
       .lane = lane::kLedger,
       .step = version - 1,
       .begin = begin,
       .duration = end - begin});
}

tracing::ProcessTrace JobTrace::head() const {
  tracing::ProcessTrace head{.clock = {.same_clock = true}, .dropped = dropped_};
  for (const Span& span : spans_) {
    const bool in_steps = span.step >= first_ && span.step < end_;
    if (!tracing::belongs_to_step(span.kind) || in_steps) head.spans.push_back(span);
  }
  return head;
}

tracing::Trace JobTrace::summary() const {
  tracing::Trace trace{.job = {},
                       .first = first_,
                       .end = end_,
                       .zero = options_.now,
                       .zero_unix_ms = options_.unix_ms,
                       .note = note_,
                       .processes = {}};
  for (const auto& [incarnation, worker] : workers_)
    trace.processes.push_back(
        {.worker = incarnation,
         .device = worker.device,
         .clock = worker.clock.known() ? worker.clock.offset() : tracing::ClockOffset{},
         .missing = worker.missing});
  return trace;
}

}  // namespace es::actors::intra_job
