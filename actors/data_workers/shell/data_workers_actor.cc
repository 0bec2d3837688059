#include "actors/data_workers/shell/data_workers_actor.h"

#include <caf/all.hpp>

#include <algorithm>
#include <tuple>

#include "proto/base/check.h"

namespace es::actors {
namespace {

using Self = caf::stateful_actor<DataWorkersState>*;
using Request = std::vector<BatchRequest>::iterator;

// Returns the waiting request that can be served now, or the end. The last free slot is reserved
// for the slice that the device runs next: ESTs return a slot only after their slice, so without
// this rule later slices could hold all slots while the device waits for an earlier one.
Request servable(DataWorkersState& s) {
  if (s.free_slots.empty() || s.free_loaders.empty()) return s.waiting.end();
  if (s.free_slots.size() == 1)
    return std::find_if(s.waiting.begin(), s.waiting.end(), [&](const BatchRequest& request) {
      return request.step == s.next_step && request.rank == s.next_rank;
    });
  return std::min_element(s.waiting.begin(), s.waiting.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.rank) < std::tie(b.step, b.rank);
  });
}

void serve(Self self) {
  DataWorkersState& s = self->state;
  for (Request at = servable(s); at != s.waiting.end(); at = servable(s)) {
    const caf::actor loader = s.free_loaders.back();
    s.free_loaders.pop_back();
    self->send(loader, FillSlot{std::move(*at), s.free_slots.back()});
    s.free_slots.pop_back();
    s.waiting.erase(at);
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
  ES_CHECK(slots > 0 && !loaders.empty());
  self->state.slots = slots;
  self->state.free_loaders = std::move(loaders);
  for (std::uint32_t slot = slots; slot > 0; --slot) self->state.free_slots.push_back(slot - 1);
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
      [=](const SlotFilled& filled) {
        self->state.free_loaders.push_back(caf::actor_cast<caf::actor>(self->current_sender()));
        answer(self, filled);
        serve(self);
      },
      [=](const Msg<wire::BatchDone>& message) {
        self->state.free_slots.push_back(message.view()->getSlot());
        ES_CHECK(self->state.free_slots.size() <= self->state.slots);
        serve(self);
      },
  };
}

}  // namespace es::actors
