#include "actors/base/tracing/core/step_phases.h"

namespace es::actors::tracing {

void StepPhases::begin(Version step, Instant now) {
  step_ = Step{step, now, now, now};
}

void StepPhases::part_summed(Instant now) {
  if (step_) step_->last_part = step_->update = now;
}

void StepPhases::update_begins(Instant now) {
  if (step_) step_->update = now;
}

std::vector<Span> StepPhases::committed(Version step, Instant now) {
  if (!step_ || step_->number != step) return {};
  const Step s = *step_;
  step_.reset();
  const auto span = [&](SpanKind kind, Instant begin, Instant end) {
    return Span{
        .kind = kind, .lane = lane::kSteps, .step = step, .begin = begin, .duration = end - begin};
  };
  return {span(SpanKind::kStep, s.begin, now), span(SpanKind::kLocalSteps, s.begin, s.last_part),
          span(SpanKind::kGradientWait, s.last_part, s.update),
          span(SpanKind::kCommit, s.update, now)};
}

}  // namespace es::actors::tracing
