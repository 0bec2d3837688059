#pragma once
// Messages between the two halves of a worker: the control half (WorkerActor), which decides and
// can answer the head at any time, and the device half (DeviceActor), which computes on a thread of
// its own. They contain the effects and events of the worker core unchanged (worker_events.h).
#include <caf/allowed_unsafe_message_type.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "actors/base/tracing/core/span.h"
#include "actors/worker/core/worker_events.h"

namespace es::actors {

// From the control half to the device half: perform this effect of the engine.
struct DeviceCommand {
  worker::Effect effect;
  // Whether some member will get the result through host memory, as far as this is known now.
  bool host_copies = true;
};

// From the control half to the device half: the data of this message is only in device memory and
// must be in its segment before the message can be sent. The answer is CopiedOut; there is no
// answer if the generation of the message is abandoned.
struct CopyOut {
  worker::SendPeer send;
};
struct CopiedOut {
  worker::SendPeer send;
};

// From the device half to the control half: the result of an effect.
struct DeviceEvent {
  worker::EngineEvent event;
};

// From the control half to the device half: there are commands in StepWork.
struct DoStepWork {};

// From the device half to itself, behind the slices that have arrived (worker::YieldToMailbox).
struct ResumeSlices {};

// From the device half to the control half after each update: measurements for the companion and
// for users.
struct DeviceStats {
  Version version = 0;
  std::vector<double> est_seconds;  // duration of each local step of this step, by rank
  // time between local steps while the next mini-batch was loaded
  double context_switch_seconds = 0;
  double data_wait_seconds = 0;  // time in which the next mini-batch was not loaded
  std::uint32_t live_gradient_buffers_max = 0;
};

// From the control half to the device half: record from the next step on, or stop recording.
struct TraceDevice {
  std::uint64_t trace = 0;  // 0: stop
  bool all_operators = false;
  bool peak = false;
};
// From the device half to the control half: everything from step `step` on is recorded.
struct DeviceTraced {
  std::uint64_t trace = 0;
  Version step = 0;
  tracing::TracedProcess about;
};

// Generations below this number are abandoned. The control half sets it at once, so that the device
// half stops between two slices, or between two evaluation batches, and does not first perform the
// commands in its queue.
using AbandonedBelow = std::atomic<std::uint64_t>;

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::DeviceCommand)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::CopyOut)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::CopiedOut)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::DeviceEvent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::DoStepWork)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::ResumeSlices)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::DeviceStats)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::TraceDevice)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::DeviceTraced)
