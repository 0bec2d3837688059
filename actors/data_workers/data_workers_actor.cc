#include "actors/data_workers/data_workers_actor.h"

#include <caf/all.hpp>

#include <algorithm>

#include "proto/base/check.h"

namespace es::actors {
namespace {

using Self = caf::stateful_actor<DataWorkersState>*;

void load(Self self, const DataWorkersState::Request& request, std::uint32_t slot) {
  DataSource& source = *self->state.source;
  store::fill_batch(source.dataset, source.sampler, source.augmentation,
                    source.sampler.cursor(request.step), request.rank, source.pool.images(slot),
                    source.pool.labels(slot));
  self->send(request.est, Msg<wire::BatchLoaded>::build({}, [&](wire::BatchLoaded::Builder b) {
               b.setStep(request.step);
               b.setRank(request.rank);
               b.setSlot(slot);
             }));
}

// The request that gets a free slot now, or the end.
std::deque<DataWorkersState::Request>::iterator servable(DataWorkersState& s) {
  if (s.free_slots.empty()) return s.waiting.end();
  if (s.free_slots.size() > 1) return s.waiting.begin();
  return std::find_if(s.waiting.begin(), s.waiting.end(), [&](const auto& request) {
    return request.step == s.next_step && request.rank == s.next_rank;
  });
}

void serve(Self self) {
  DataWorkersState& s = self->state;
  for (auto at = servable(s); at != s.waiting.end(); at = servable(s)) {
    const DataWorkersState::Request request = std::move(*at);
    s.waiting.erase(at);
    const std::uint32_t slot = s.free_slots.back();
    s.free_slots.pop_back();
    load(self, request, slot);
  }
}

}  // namespace

caf::behavior data_workers_actor(Self self, std::shared_ptr<DataSource> source) {
  self->state.source = std::move(source);
  for (std::uint32_t slot = self->state.source->pool.slots(); slot > 0; --slot)
    self->state.free_slots.push_back(slot - 1);
  return {
      [=](const Msg<wire::LoadBatch>& message) {
        auto view = message.view();
        self->state.waiting.push_back({caf::actor_cast<caf::actor>(self->current_sender()),
                                       view->getStep(), view->getRank()});
        serve(self);
      },
      [=](const Msg<wire::NextSlice>& message) {
        self->state.next_step = message.view()->getStep();
        self->state.next_rank = message.view()->getRank();
        serve(self);
      },
      [=](const Msg<wire::BatchDone>& message) {
        self->state.free_slots.push_back(message.view()->getSlot());
        ES_CHECK(self->state.free_slots.size() <= self->state.source->pool.slots());
        serve(self);
      },
  };
}

}  // namespace es::actors
