#pragma once
// DataWorkers: the actor of a worker process that has the mini-batches of all its ESTs loaded and
// augmented by a pool of loaders. A process therefore opens its data once, and not once for each
// EST. The actor is a thin shell around BatchQueue, which decides.
//
// Accepts   LoadBatch from an EST, at any time; there is one EST for each rank. The answer is
//           BatchLoaded, as soon as a slot and a loader are free.
//           BatchDone from an EST: the slot may be used again.
//           NextSlice from the device: the slice that the device runs next.
//           SlotFilled from a loader.
// Sends     BatchLoaded to the EST that sent the request; FillSlot to a loader.
// State     The ESTs and the free loaders; in the queue, waiting requests, free slots and the next
//           slice. Nothing is stored durably: a mini-batch is a pure function of (seed, epoch,
//           step, rank).
// Fails     If a sample cannot be loaded (for example, a corrupt image), BatchLoaded contains the
//           error. The actor is linked to no other actor and ends with the worker process.
// Order     Requests are served in the order in which the device runs slices, by step and then by
//           rank, whatever their order of arrival. The last free slot is given only to the slice
//           that runs next. Otherwise later slices could hold all slots, and the device would wait
//           forever. With several loaders, mini-batches can be ready in another order than that of
//           the slices; the device runs the slices in its own order.
// Limits    At most `slots` mini-batches are in memory. Further requests wait; there is at most one
//           for each EST.
// Threads   Cooperative: it only distributes work. The loaders should be detached actors.
#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <cstdint>
#include <map>
#include <vector>

#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/worker/data_workers/core/batch_queue.h"
#include "actors/worker/data_workers/shell/loader_actor.h"
#include "proto/messages.h"

namespace es::actors {

struct DataWorkersState {
  BatchQueue queue{1, 1};  // data_workers_actor() sets the numbers of slots and loaders
  std::map<VirtualRank, caf::actor> ests;  // those that have requested a mini-batch
  std::vector<caf::actor> free_loaders;
};

// `slots` is the number of slots in the pool that the loaders fill. REQUIRES: at least one slot and
// one loader.
caf::behavior data_workers_actor(caf::stateful_actor<DataWorkersState>* self, std::uint32_t slots,
                                 std::vector<caf::actor> loaders);

}  // namespace es::actors
