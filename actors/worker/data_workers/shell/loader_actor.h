#pragma once
// Loader: one thread that fills a slot of the batch pool with one mini-batch.
//
// Accepts   FillSlot from the data workers. The answer is SlotFilled.
// Sends     SlotFilled to the data workers.
// State     None of its own. It shares the data and the pool with the other loaders and the device.
// Fails     If a sample cannot be loaded, the answer contains an error, and the content of the slot
//           is arbitrary.
// Order     It fills one slot after the other, in the order of the requests.
// Limits    The data workers give it one slot at a time.
// Threads   Detached, because reading files and decoding images must not delay the actors that
//           answer the head.
#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/event_based_actor.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "actors/base/tracing/core/recorder.h"
#include "actors/worker/data_workers/core/batch_pool.h"
#include "proto/base/ids.h"
#include "store/dataset/epoch_sampler.h"
#include "store/dataset/sample_source.h"

namespace es::actors {

// The source of all mini-batches of a process. It is immutable except for the slots of the pool.
struct DataSource {
  std::shared_ptr<const store::SampleSource> samples;
  store::EpochSampler sampler;
  BatchPool pool;
  std::shared_ptr<tracing::Recorder> recorder{};  // of this process; none in tests
};

struct BatchRequest {
  caf::actor est;
  Version step = 0;
  VirtualRank rank = 0;
};

// Sent by the data workers to a loader.
struct FillSlot {
  BatchRequest request;
  std::uint32_t slot = 0;
};

// Sent by a loader to the data workers.
struct SlotFilled {
  BatchRequest request;
  std::uint32_t slot = 0;
  std::string error;  // empty if the mini-batch was loaded
};

// `number`: among the loaders of this process, for traces.
caf::behavior loader_actor(caf::event_based_actor* self, std::shared_ptr<DataSource> source,
                           std::uint32_t number);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::FillSlot)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::SlotFilled)
