#pragma once
// StepPhases turns what happens to a step in the control half of a worker into spans: the whole
// step, its local steps, the wait for gradients, and the commit. A step that is abandoned has no
// spans; it is repeated after the round.
#include <optional>
#include <vector>

#include "actors/base/tracing/core/span.h"

namespace es::actors::tracing {

class StepPhases {
 public:
  void begin(Version step, Instant now);
  void part_summed(Instant now);
  void update_begins(Instant now);
  // Returns the spans of the step; nothing if its begin was not seen.
  std::vector<Span> committed(Version step, Instant now);
  void abandon() { step_.reset(); }

 private:
  struct Step {
    Version number = 0;
    Instant begin{}, last_part{}, update{};
  };
  std::optional<Step> step_;
};

}  // namespace es::actors::tracing
