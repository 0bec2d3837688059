#pragma once
// Loader: one thread of the data workers. Fills a slot of the batch pool with one mini-batch.
//
// Accepts   FillSlot from the data workers -> SlotFilled to them.
// State     None of its own. The data and the pool are shared with the other loaders and the
// device. Fails     A sample that cannot be loaded is an answer with an error; the slot's content
// is then
//           arbitrary.
// Order     One after the other, as asked.
// Threads   Detached: reading files and decoding images must not delay the actors that answer the
// head.
#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/event_based_actor.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "actors/data_workers/batch_pool.h"
#include "proto/base/ids.h"
#include "store/dataset/epoch_sampler.h"
#include "store/dataset/sample_source.h"

namespace es::actors {

// What all mini-batches of a process come from; immutable but for the pool's slots.
struct DataSource {
  std::shared_ptr<const store::SampleSource> samples;
  store::EpochSampler sampler;
  BatchPool pool;
};

struct BatchRequest {
  caf::actor est;
  Version step = 0;
  VirtualRank rank = 0;
};

// data workers -> loader
struct FillSlot {
  BatchRequest request;
  std::uint32_t slot = 0;
};

// loader -> data workers
struct SlotFilled {
  BatchRequest request;
  std::uint32_t slot = 0;
  std::string error;  // empty: the mini-batch is there
};

caf::behavior loader_actor(caf::event_based_actor* self, std::shared_ptr<DataSource> source);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::FillSlot)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::SlotFilled)
