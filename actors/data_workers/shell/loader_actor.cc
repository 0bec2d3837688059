#include "actors/data_workers/shell/loader_actor.h"

#include <caf/all.hpp>

namespace es::actors {

caf::behavior loader_actor(caf::event_based_actor* self, std::shared_ptr<DataSource> source) {
  return {
      [self, source](const FillSlot& fill) {
        const BatchRequest& request = fill.request;
        // The content follows from the seed, the step and the rank alone. So no bit depends on
        // which loader fills the slot, or when.
        const Status status = store::fill_batch(*source->samples, source->sampler,
                                                source->sampler.cursor(request.step), request.rank,
                                                source->pool.words(fill.slot));
        self->send(caf::actor_cast<caf::actor>(self->current_sender()),
                   SlotFilled{request, fill.slot, status.ok() ? "" : status.error().message});
      },
  };
}

}  // namespace es::actors
