#pragma once
// The JSON trace-event format, which https://ui.perfetto.dev and chrome://tracing open.
#include <string>

#include "actors/base/tracing/core/span.h"

namespace es::actors::tracing {

// One process of the format for each process of the trace, one thread for each lane, a complete
// event ("X") for each span, and an arrow ("s", "f") from the sending of a gradient to its arrival.
// Times are microseconds since the request of the trace, all by the clock of the head. The member
// "otherData" names the job, the steps, the alignment of the clocks with their errors, and what is
// missing.
std::string chrome_json(const Trace& trace);

// The name of a span, for example "EST 3", and of its lane, for example "device".
std::string name_of(const Span& span, const TracedProcess& process);
std::string lane_name(std::uint16_t lane);

}  // namespace es::actors::tracing
