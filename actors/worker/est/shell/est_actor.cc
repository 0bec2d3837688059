#include "actors/worker/est/shell/est_actor.h"

#include <caf/all.hpp>

#include <variant>

namespace es::actors {
namespace {

using Self = caf::stateful_actor<EstState>*;

void perform_effect(Self self, const RequestBatch& effect) {
  self->send(self->state.data_workers,
             Msg<wire::LoadBatch>::build({}, [&](wire::LoadBatch::Builder b) {
               b.setStep(effect.step);
               b.setRank(self->state.rank);
             }));
}

void perform_effect(Self self, const ReturnSlot& effect) {
  self->send(
      self->state.data_workers,
      Msg<wire::BatchDone>::build({}, [&](wire::BatchDone::Builder b) { b.setSlot(effect.slot); }));
}

void perform_effect(Self self, const OfferSlice& effect) {
  self->send(self->state.device,
             Msg<wire::RunLocalStep>::build({}, [&](wire::RunLocalStep::Builder b) {
               b.setGeneration(effect.generation.value);
               b.setStep(effect.batch.step);
               b.setRank(self->state.rank);
               b.setSlot(effect.batch.slot);
               b.setError(effect.batch.error);
             }));
}

void perform(Self self, const EstEffects& effects) {
  for (const EstEffect& effect : effects)
    std::visit([self](const auto& e) { perform_effect(self, e); }, effect);
}

}  // namespace

caf::behavior est_actor(Self self, VirtualRank rank, Version last_version, caf::actor device,
                        caf::actor data_workers) {
  self->state.rank = rank;
  self->state.core = EstCore(last_version);
  self->state.device = std::move(device);
  self->state.data_workers = std::move(data_workers);
  return {
      [=](const Msg<wire::GrantSlice>& message) {
        auto view = message.view();
        perform(self, self->state.core.granted({view->getGeneration()}, view->getStep()));
      },
      [=](const Msg<wire::Dismiss>&) { perform(self, self->state.core.dismissed()); },
      [=](const Msg<wire::BatchLoaded>& message) {
        auto view = message.view();
        perform(self, self->state.core.loaded(
                          {view->getStep(), view->getSlot(), view->getError().cStr()}));
      },
      [=](const Msg<wire::SliceDone>& message) {
        // The core has given this slot to the device, so it is returned without the core.
        perform_effect(self, ReturnSlot{message.view()->getSlot()});
      },
  };
}

}  // namespace es::actors
