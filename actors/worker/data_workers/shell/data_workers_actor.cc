#include "actors/worker/data_workers/shell/data_workers_actor.h"

#include <caf/all.hpp>

namespace es::actors {
namespace {

using Self = caf::stateful_actor<DataWorkersState>*;

void perform(Self self, const std::vector<Fill>& fills) {
  DataWorkersState& s = self->state;
  for (const Fill& fill : fills) {
    // The queue counts the free loaders too and begins no fill without one.
    self->send(s.free_loaders.back(),
               FillSlot{{s.ests.at(fill.rank), fill.step, fill.rank}, fill.slot});
    s.free_loaders.pop_back();
  }
}

void answer(Self self, const SlotFilled& filled) {
  self->send(filled.request.est,
             Msg<wire::BatchLoaded>::build({}, [&](wire::BatchLoaded::Builder b) {
               b.setStep(filled.request.step);
               b.setRank(filled.request.rank);
               b.setSlot(filled.slot);
               b.setError(filled.error);
             }));
}

}  // namespace

caf::behavior data_workers_actor(Self self, std::uint32_t slots, std::vector<caf::actor> loaders) {
  self->state.queue = BatchQueue(slots, static_cast<std::uint32_t>(loaders.size()));
  self->state.free_loaders = std::move(loaders);
  return {
      [=](const Msg<wire::LoadBatch>& message) {
        auto view = message.view();
        self->state.ests[view->getRank()] = caf::actor_cast<caf::actor>(self->current_sender());
        perform(self, self->state.queue.request(view->getStep(), view->getRank()));
      },
      [=](const Msg<wire::NextSlice>& message) {
        auto view = message.view();
        perform(self, self->state.queue.next_slice(view->getStep(), view->getRank()));
      },
      [=](const SlotFilled& filled) {
        self->state.free_loaders.push_back(caf::actor_cast<caf::actor>(self->current_sender()));
        answer(self, filled);
        perform(self, self->state.queue.loader_free());
      },
      [=](const Msg<wire::BatchDone>& message) {
        perform(self, self->state.queue.slot_free(message.view()->getSlot()));
      },
  };
}

}  // namespace es::actors
