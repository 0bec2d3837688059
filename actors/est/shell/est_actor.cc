#include "actors/est/shell/est_actor.h"

#include <caf/all.hpp>

namespace es::actors {
namespace {

using Self = caf::stateful_actor<EstState>*;

void give_back(Self self, std::uint32_t slot) {
  self->send(self->state.data_workers,
             Msg<wire::BatchDone>::build({}, [&](auto b) { b.setSlot(slot); }));
}

// Ensures that the mini-batch of `step` is held here or has been requested. A mini-batch of another
// step is returned: after a round the job may continue at an earlier step than the prefetched one.
void want(Self self, Version step) {
  EstState& s = self->state;
  if (s.loaded && s.loaded->step != step) {
    give_back(self, s.loaded->slot);
    s.loaded.reset();
  }
  if (s.loaded || s.requested == step) return;
  s.requested = step;
  self->send(s.data_workers, Msg<wire::LoadBatch>::build({}, [&](wire::LoadBatch::Builder b) {
               b.setStep(step);
               b.setRank(s.rank);
             }));
}

void run_if_ready(Self self) {
  EstState& s = self->state;
  if (!s.granted || !s.loaded || s.loaded->step != s.granted->step) return;
  self->send(s.device, Msg<wire::RunLocalStep>::build({}, [&](wire::RunLocalStep::Builder b) {
               b.setGeneration(s.granted->generation.value);
               b.setStep(s.granted->step);
               b.setRank(s.rank);
               b.setSlot(s.loaded->slot);
               b.setError(s.loaded->error);
             }));
  const Version next = s.granted->step + 1;
  s.granted.reset();
  s.loaded.reset();  // the device uses the slot until SliceDone
  if (next < s.last_version) want(self, next);
}

void on_loaded(Self self, wire::BatchLoaded::Reader loaded) {
  EstState& s = self->state;
  if (s.requested != loaded.getStep()) return give_back(self, loaded.getSlot());
  // The answer to an older request, which a Dismiss or a grant of another step has replaced.
  s.requested.reset();
  s.loaded = EstState::Loaded{loaded.getStep(), loaded.getSlot(), loaded.getError().cStr()};
  run_if_ready(self);
}

}  // namespace

caf::behavior est_actor(Self self, VirtualRank rank, Version last_version, caf::actor device,
                        caf::actor data_workers) {
  self->state.rank = rank;
  self->state.last_version = last_version;
  self->state.device = std::move(device);
  self->state.data_workers = std::move(data_workers);
  return {
      [=](const Msg<wire::GrantSlice>& message) {
        auto view = message.view();
        self->state.granted = Head{};
        self->state.granted->generation = {view->getGeneration()};
        self->state.granted->step = view->getStep();
        want(self, view->getStep());
        run_if_ready(self);
      },
      [=](const Msg<wire::Dismiss>&) {
        EstState& s = self->state;
        if (s.loaded) give_back(self, s.loaded->slot);
        s.loaded.reset();
        s.requested.reset();
        s.granted.reset();
      },
      [=](const Msg<wire::BatchLoaded>& message) { on_loaded(self, *message.view()); },
      [=](const Msg<wire::SliceDone>& message) { give_back(self, message.view()->getSlot()); },
  };
}

}  // namespace es::actors
