#pragma once
// A profile: where the devices of a job spend their time, and for what they hold memory, computed
// from a trace.
#include <string>
#include <vector>

#include "actors/base/tracing/core/span.h"

namespace es::actors::tracing {

struct OperatorTime {
  std::string name{};  // its kind, or kind and node
  bool backward = false;
  std::uint64_t calls = 0;
  double seconds = 0;
  double flops = 0;  // of all calls
  double bytes = 0;
};

// How the devices of one type spend the steps, summed over them. Seconds.
struct DeviceTime {
  std::string device_type{};
  std::uint32_t devices = 0;
  std::uint64_t steps = 0;   // global steps of all devices together
  std::uint64_t slices = 0;  // local steps
  double step_seconds = 0;   // whole steps
  double slice_seconds = 0;
  double batch_wait_seconds = 0;
  double reduce_seconds = 0;
  double update_seconds = 0;
  double operator_seconds = 0;            // inside of slices
  double peak_gflops = 0;                 // mean over the devices; 0: not measured
  std::vector<OperatorTime> kinds{};      // by kind, the longest first
  std::vector<OperatorTime> operators{};  // by node, the longest first
  std::uint64_t dropped = 0;              // spans that the trace lacks
};

struct ProcessMemory {
  Incarnation worker{};
  DeviceId device{};
  std::vector<TracedMemory> parts{};
};

struct Profile {
  std::string job{};
  Version first = 0, end = 0;
  std::string note{};
  std::vector<DeviceTime> devices{};  // by type
  std::vector<ProcessMemory> memory{};
  std::vector<std::string> missing{};  // a line for each worker without its spans
};

Profile profile_of(const Trace& trace);

}  // namespace es::actors::tracing
