#include "actors/worker/data_workers/shell/loader_actor.h"

#include <caf/all.hpp>

#include "actors/base/tracing/clock/trace_clock.h"

namespace es::actors {

caf::behavior loader_actor(caf::event_based_actor* self, std::shared_ptr<DataSource> source,
                           std::uint32_t number) {
  return {
      [self, source, number](const FillSlot& fill) {
        const BatchRequest& request = fill.request;
        const bool traced = source->recorder && source->recorder->on();
        const Instant begin = traced ? tracing::trace_now() : Instant{};
        // The content follows from the seed, the step and the rank alone. So no bit depends on
        // which loader fills the slot, or when.
        const Status status = store::fill_batch(*source->samples, source->sampler,
                                                source->sampler.cursor(request.step), request.rank,
                                                source->pool.words(fill.slot));
        if (traced)
          source->recorder->add(
              {.kind = tracing::SpanKind::kLoadBatch,
               .lane = static_cast<std::uint16_t>(tracing::lane::kFirstLoader + number),
               .number = request.rank,
               .step = request.step,
               .begin = begin,
               .duration = tracing::trace_now() - begin});
        self->send(caf::actor_cast<caf::actor>(self->current_sender()),
                   SlotFilled{request, fill.slot, status.ok() ? "" : status.error().message});
      },
  };
}

}  // namespace es::actors
