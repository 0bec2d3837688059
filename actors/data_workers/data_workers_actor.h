#pragma once
// DataWorkers: one per worker process; loads and augments the mini-batches of all its ESTs.
//
// Accepts   LoadBatch from an EST, at any time -> BatchLoaded to it, once a slot is free.
//           BatchDone from an EST: the slot may be used again.
//           NextSlice from the device: which slice it runs next.
// Sends     BatchLoaded to the EST that asked.
// State     queue of requests in order of arrival, free slots, the next slice. Nothing saved: a
//           mini-batch is a pure function of (seed, epoch, step, rank).
// Fails     Nothing can fail: the dataset is in memory and checked. Links to no one; dies with the
//           worker process.
// Order     First come, first served; but the last free slot goes only to the slice that runs next.
//           So the device never waits for a slice that finds all slots held by later ones.
// Limits    At most `slots` mini-batches in memory; requests wait beyond that (one per EST).
// Threads   Detached: loading must not delay the actors that answer the head.
#include <caf/event_based_actor.hpp>
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "actors/common/caf_messages.h"
#include "actors/data_workers/batch_pool.h"
#include "proto/messages.h"
#include "store/dataset/batch.h"

namespace es::actors {

// What all requests of a process share; immutable but for the pool's slots.
struct DataSource {
  store::ImageDataset dataset;
  store::EpochSampler sampler;
  store::Augmentation augmentation;
  BatchPool pool;
};

struct DataWorkersState {
  struct Request {
    caf::actor est;
    Version step = 0;
    VirtualRank rank = 0;
  };
  std::shared_ptr<DataSource> source;
  std::deque<Request> waiting;
  std::vector<std::uint32_t> free_slots;
  Version next_step = 0;  // the slice that the device runs next
  VirtualRank next_rank = 0;
};

caf::behavior data_workers_actor(caf::stateful_actor<DataWorkersState>* self,
                                 std::shared_ptr<DataSource> source);

}  // namespace es::actors
