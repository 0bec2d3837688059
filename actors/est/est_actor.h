#pragma once
// Est: one EasyScaleThread, a logical data-parallel worker. Its virtual rank never changes. It owns
// the EST's place in the data: it fetches the mini-batch of the next local step ahead of time and
// takes a time slice of the device when it is granted one.
//
// The EST's batch-norm statistics live in the replica beside the device, not here: every worker
// that has committed a version holds the contexts of all ranks (actors/protocol/README.md).
//
// Accepts   GrantSlice from the device -> RunLocalStep to it, once the mini-batch of that step is
//           there. A step that was granted before may be granted again (a repeated step).
//           BatchLoaded from the data workers; one of another step than wanted goes back at once.
//           With the slice taken it asks for the next step's mini-batch.
//           SliceDone from the device: the local step is over, its slot goes back.
//           Dismiss from the worker: the rank runs elsewhere; gives its mini-batch back and rests.
// Sends     LoadBatch, BatchDone to the data workers; RunLocalStep to the device.
// State     rank, wanted step, the slot that it holds. Nothing saved.
// Fails     A mini-batch that could not be loaded goes to the device like any other, with its
//           error. Lives as long as the worker process, resting while its rank is elsewhere.
// Order     The device grants in rank order; the answers come in the order of loading.
// Limits    Holds at most one slot beside the one that the device works on, has at most one request
// waiting per step. Threads   Cooperative; never blocks.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <optional>
#include <string>

#include "actors/common/caf_messages.h"
#include "proto/messages.h"

namespace es::actors {

struct EstState {
  VirtualRank rank = 0;
  Version last_version = 0;  // the job ends there: nothing is prefetched beyond
  caf::actor device, data_workers;

  struct Loaded {
    Version step = 0;
    std::uint32_t slot = 0;
    std::string error;  // not empty: the mini-batch could not be loaded
  };
  std::optional<Version> requested;  // asked of the data workers, not answered yet
  std::optional<Loaded> loaded;      // the mini-batch in hand
  std::optional<Head> granted;       // a slice waits for its mini-batch
};

caf::behavior est_actor(caf::stateful_actor<EstState>* self, VirtualRank rank, Version last_version,
                        caf::actor device, caf::actor data_workers);

}  // namespace es::actors
