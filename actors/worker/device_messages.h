#pragma once
// Between the two halves of a worker: the control half (WorkerActor, which decides and answers the
// head at any time) and the device half (DeviceActor, which computes on a thread of its own). They
// hand over the effects and events of the worker core as they are (worker_events.h).
#include <caf/allowed_unsafe_message_type.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "actors/worker/worker_events.h"

namespace es::actors {

// control -> device: perform this effect of the engine.
struct DeviceCommand {
  worker::Effect effect;
  // Whether some member will get what comes of it through host memory, as far as is known now.
  bool host_copies = true;
};

// control -> device, and back when it is done: this message's data is in device memory alone, and
// has to be in its segment before the message can go. Not answered when its generation is over.
struct CopyOut {
  worker::SendPeer send;
};
struct CopiedOut {
  worker::SendPeer send;
};

// device -> control: an effect has been completed.
struct DeviceEvent {
  worker::EngineEvent event;
};

// device -> itself: run the slices that have arrived, now that what had come before is seen.
struct RunSlices {};

// device -> control, after each update: for the companion and for people.
struct DeviceStats {
  Version version = 0;
  std::vector<double> est_seconds;    // of the step's local steps, by rank
  double context_switch_seconds = 0;  // between them, the next mini-batch at hand
  double data_wait_seconds = 0;       // no mini-batch at hand
  std::uint32_t live_gradient_buffers_max = 0;
};

// Generations below this are abandoned; set by the control half at once, so that the device half
// stops between two slices, or two evaluation batches, instead of working off its queue.
using AbandonedBelow = std::atomic<std::uint64_t>;

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::DeviceCommand)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::CopyOut)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::CopiedOut)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::DeviceEvent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::RunSlices)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::DeviceStats)
