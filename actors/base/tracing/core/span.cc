#include "actors/base/tracing/core/span.h"

namespace es::actors::tracing {

bool belongs_to_step(SpanKind kind) {
  switch (kind) {
    case SpanKind::kEvaluate:
    case SpanKind::kLoad:
    case SpanKind::kLoadBatch:
    case SpanKind::kRound:
      return false;
    default:
      return true;
  }
}

}  // namespace es::actors::tracing
