#include "actors/base/tracing/core/worker_trace.h"

#include <algorithm>
#include <utility>

namespace es::actors::tracing {

std::vector<TracePiece> pieces_of(std::uint64_t trace, std::optional<TracedProcess> about,
                                  const std::vector<Span>& spans, std::uint64_t dropped) {
  std::vector<TracePiece> pieces;
  for (std::size_t begin = 0; pieces.empty() || begin < spans.size(); begin += kSpansOfPart) {
    const std::size_t end = std::min(begin + kSpansOfPart, spans.size());
    pieces.push_back({.trace = trace,
                      .about = std::exchange(about, {}),
                      .spans = {spans.begin() + static_cast<std::ptrdiff_t>(begin),
                                spans.begin() + static_cast<std::ptrdiff_t>(end)},
                      .dropped = dropped});
  }
  return pieces;
}

WorkerTrace::Answer WorkerTrace::on(const TraceRequest& request, Instant now) {
  if (request.trace < newest_ || (request.trace == newest_ && trace_ == 0)) return Answer::kNothing;
  if (request.stop) {
    newest_ = request.trace;
    recorder_.stop();
    return std::exchange(trace_, 0) == 0 ? Answer::kNothing : Answer::kEnd;
  }
  first_ = request.first;
  end_ = request.end;
  if (request.trace == trace_) return Answer::kNothing;
  newest_ = trace_ = request.trace;
  all_operators_ = request.all_operators;
  reached_ = 0;
  begin_.reset();
  over_.reset();
  about_.reset();
  phases_.abandon();
  sent_ = now;
  recorder_.start();
  return Answer::kBegin;
}

void WorkerTrace::began(std::uint64_t trace, TracedProcess about) {
  if (trace == trace_) about_ = std::move(about);
}

void WorkerTrace::step_begins(Version step, Instant now) {
  if (trace_ != 0) phases_.begin(step, now);
}

void WorkerTrace::committed(Version step, Instant now) {
  if (trace_ == 0) return;
  for (const Span& span : phases_.committed(step, now)) recorder_.add(span);
  reached_ = step + 1;
}

bool WorkerTrace::belongs(const Span& span) const {
  if (end_ == 0) return true;  // the reader knows the steps later
  if (belongs_to_step(span.kind)) return span.step >= first_ && span.step < end_;
  return begin_ && span.end() > *begin_ && (!over_ || span.begin < *over_);
}

void WorkerTrace::note_times(const std::vector<Span>& spans) {
  for (const Span& span : spans) {
    if (span.kind != SpanKind::kStep || span.step < first_ || span.step >= end_) continue;
    if (!begin_) begin_ = span.begin;
    if (span.step + 1 == end_) over_ = span.end();
  }
}

std::vector<TracePiece> WorkerTrace::take(Instant now, Send when) {
  if (trace_ == 0) return {};
  const bool last = when == Send::kLast || (end_ != 0 && reached_ >= end_);
  // Before the head has chosen the steps, it is not known what belongs to them.
  if (end_ == 0 && when == Send::kIfDue) return {};
  const bool due = recorder_.waiting() >= kSpansOfPart || now - sent_ >= kPartInterval;
  if (when == Send::kIfDue && !last && !due) return {};
  sent_ = now;
  if (last) recorder_.stop();
  recorder_.take(taken_);
  note_times(taken_.spans);
  std::erase_if(taken_.spans, [this](const Span& span) { return !belongs(span); });
  auto pieces = pieces_of(trace_, std::exchange(about_, {}), taken_.spans, taken_.dropped);
  pieces.back().last = last;
  if (last) {
    trace_ = 0;
    taken_ = {};
  }
  return pieces;
}

}  // namespace es::actors::tracing
