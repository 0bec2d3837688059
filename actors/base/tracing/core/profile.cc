#include "actors/base/tracing/core/profile.h"

#include <algorithm>
#include <map>

namespace es::actors::tracing {
namespace {

struct Sums {
  DeviceTime time;
  std::map<std::pair<bool, std::string>, OperatorTime> kinds, operators;
  std::uint32_t measured = 0;  // devices with a measured peak
};

void add(std::map<std::pair<bool, std::string>, OperatorTime>& to, const std::string& name,
         const TracedOperator& op, double seconds) {
  OperatorTime& sum = to[{op.backward, name}];
  sum.name = name;
  sum.backward = op.backward;
  ++sum.calls;
  sum.seconds += seconds;
  sum.flops += op.flops;
  sum.bytes += op.bytes;
}

void add(Sums& sums, const Span& span, const TracedProcess& process) {
  const double seconds = in_seconds(span.duration);
  DeviceTime& time = sums.time;
  switch (span.kind) {
    case SpanKind::kStep:
      ++time.steps;
      time.step_seconds += seconds;
      break;
    case SpanKind::kSlice:
      ++time.slices;
      time.slice_seconds += seconds;
      break;
    case SpanKind::kBatchWait:
      time.batch_wait_seconds += seconds;
      break;
    case SpanKind::kReduce:
      time.reduce_seconds += seconds;
      break;
    case SpanKind::kUpdate:
      time.update_seconds += seconds;
      break;
    case SpanKind::kOperator:
      time.operator_seconds += seconds;
      if (span.number < process.operators.size()) {
        const TracedOperator& op = process.operators[span.number];
        add(sums.kinds, op.kind, op, seconds);
        add(sums.operators, op.kind + " " + op.node, op, seconds);
      }
      break;
    default:
      break;
  }
}

std::vector<OperatorTime> longest_first(
    const std::map<std::pair<bool, std::string>, OperatorTime>& sums) {
  std::vector<OperatorTime> list;
  for (const auto& [key, sum] : sums) list.push_back(sum);
  std::stable_sort(list.begin(), list.end(), [](const OperatorTime& a, const OperatorTime& b) {
    return a.seconds > b.seconds;
  });
  return list;
}

}  // namespace

Profile profile_of(const Trace& trace) {
  Profile profile{.job = trace.job,
                  .first = trace.first,
                  .end = trace.end,
                  .note = trace.note,
                  .devices = {},
                  .memory = {},
                  .missing = {}};
  std::map<std::string, Sums> by_type;
  for (const ProcessTrace& process : trace.processes) {
    if (process.worker == Incarnation{}) continue;
    if (!process.missing.empty())
      profile.missing.push_back("worker " + std::to_string(process.worker.value) + " on " +
                                process.device.text() + ": " + process.missing);
    Sums& sums = by_type[process.device.type.name];
    ++sums.time.devices;
    sums.time.dropped += process.dropped;
    if (process.about.peak_gflops > 0) {
      ++sums.measured;
      sums.time.peak_gflops += process.about.peak_gflops;
    }
    for (const Span& span : process.spans) add(sums, span, process.about);
    if (!process.about.memory.empty())
      profile.memory.push_back({process.worker, process.device, process.about.memory});
  }
  for (auto& [type, sums] : by_type) {
    DeviceTime time = std::move(sums.time);
    time.device_type = type;
    if (sums.measured > 0) time.peak_gflops /= sums.measured;
    time.kinds = longest_first(sums.kinds);
    time.operators = longest_first(sums.operators);
    profile.devices.push_back(std::move(time));
  }
  return profile;
}

}  // namespace es::actors::tracing
