#pragma once
// Est: the actor of one EasyScaleThread (EST), which is one logical data-parallel worker. Its
// virtual rank never changes. It owns the position of the EST in the data: it requests the
// mini-batch of the next local step ahead of time, and it uses a time slice of the device when the
// device grants it one. The actor is a thin shell around EstCore, which decides.
//
// The batch-norm statistics of the EST are not stored here but in the replica, on the device
// thread: every worker that has committed a version holds the contexts of all ranks
// (docs/PROTOCOL.md).
//
// Accepts   GrantSlice from the device. The Est answers with RunLocalStep as soon as it has the
//           mini-batch of that step, and then requests the mini-batch of the next step. A step that
//           was granted before may be granted again, because a step can be repeated.
//           BatchLoaded from the data workers. A mini-batch of a step that is no longer requested
//           is returned at once.
//           SliceDone from the device: the local step is over, and the Est returns its slot.
//           Dismiss from the device: its ranks have changed. The Est returns its mini-batch and
//           waits for the next grant.
// Sends     LoadBatch and BatchDone to the data workers; RunLocalStep to the device.
// State     The rank, and in the core the requested step and the slot that it holds. Nothing is
//           stored durably.
// Fails     A mini-batch that could not be loaded goes to the device like any other, together with
//           its error. The actor lives as long as the worker process, also while its rank runs
//           elsewhere.
// Order     The device grants slices in rank order. The data workers answer in the order of
//           loading.
// Limits    It holds at most one slot besides the one that the device works on, and waits for at
//           most one mini-batch. Requests from before a dismissal may also be pending; it returns
//           their mini-batches.
// Threads   Cooperative; it never blocks.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/worker/est/core/est_core.h"
#include "proto/messages.h"

namespace es::actors {

struct EstState {
  VirtualRank rank = 0;
  EstCore core{0};  // est_actor() sets the last version
  caf::actor device, data_workers;
};

// `last_version` is the version at which the job ends; no later step is prefetched.
caf::behavior est_actor(caf::stateful_actor<EstState>* self, VirtualRank rank, Version last_version,
                        caf::actor device, caf::actor data_workers);

}  // namespace es::actors
