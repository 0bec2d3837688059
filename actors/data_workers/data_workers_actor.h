#pragma once
// DataWorkers: one per worker process; has the mini-batches of all its ESTs loaded and augmented by
// a pool of loaders, so that a process opens its data once and not once for each EST.
//
// Accepts   LoadBatch from an EST, at any time -> BatchLoaded to it, once a slot and a loader are
// free.
//           BatchDone from an EST: the slot may be used again.
//           NextSlice from the device: which slice it runs next.
//           SlotFilled from a loader.
// Sends     BatchLoaded to the EST that asked; FillSlot to a loader.
// State     requests that wait, free slots and loaders, the next slice. Nothing saved: a mini-batch
//           is a pure function of (seed, epoch, step, rank).
// Fails     A sample that cannot be loaded (a corrupt image) is told to the EST in BatchLoaded.
// Links
//           to no one; dies with the worker process.
// Order     As the device runs its slices: by step, then by rank, whatever the order of arrival.
// The
//           last free slot goes only to the slice that runs next, so the device never waits for a
//           slice that finds all slots held by later ones. With several loaders mini-batches may be
//           ready in another order; the device takes them in its own.
// Limits    At most `slots` mini-batches in memory; requests wait beyond that (one per EST).
// Threads   Cooperative: it only hands out work. The loaders are meant to be detached.
#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/common/caf_messages.h"
#include "actors/data_workers/batch_pool.h"
#include "actors/data_workers/loader_actor.h"
#include "proto/messages.h"

namespace es::actors {

struct DataWorkersState {
  std::uint32_t slots = 0;
  std::vector<BatchRequest> waiting;
  std::vector<std::uint32_t> free_slots;
  std::vector<caf::actor> free_loaders;
  Version next_step = 0;  // the slice that the device runs next
  VirtualRank next_rank = 0;
};

// `slots` of the pool that the loaders fill. REQUIRES: at least one slot and one loader.
caf::behavior data_workers_actor(caf::stateful_actor<DataWorkersState>* self, std::uint32_t slots,
                                 std::vector<caf::actor> loaders);

}  // namespace es::actors
