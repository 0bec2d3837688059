#include "actors/worker/est/core/est_core.h"

#include <utility>

#include "proto/base/check.h"

namespace es::actors {

EstEffects EstCore::granted(Generation generation, Version step) {
  EstEffects effects;
  grant_ = Grant{generation, step};
  want(step, effects);
  offer_if_ready(effects);
  return effects;
}

EstEffects EstCore::loaded(LoadedBatch batch) {
  // If the step was requested again, either request may be answered first. Both mini-batches are
  // equal, so the first one can stand for the older request.
  if (const auto older = forgotten_.find(batch.step); older != forgotten_.end()) {
    forgotten_.erase(older);
    return {ReturnSlot{batch.slot}};
  }
  ES_CHECK(requested_ == batch.step);
  EstEffects effects;
  requested_.reset();
  held_ = std::move(batch);
  offer_if_ready(effects);
  return effects;
}

// A request that is still open cannot be withdrawn. Its answer is returned when it comes.
EstEffects EstCore::dismissed() {
  EstEffects effects;
  return_held(effects);
  forget_request();
  grant_.reset();
  return effects;
}

// Ensures that the mini-batch of `step` is held or has been requested. A mini-batch of another step
// is returned: after a round the job may continue at an earlier step than the prefetched one.
void EstCore::want(Version step, EstEffects& effects) {
  if (held_ && held_->step != step) return_held(effects);
  if (held_ || requested_ == step) return;
  forget_request();
  requested_ = step;
  effects.emplace_back(RequestBatch{step});
}

void EstCore::forget_request() {
  if (requested_) forgotten_.insert(*requested_);
  requested_.reset();
}

void EstCore::offer_if_ready(EstEffects& effects) {
  if (!grant_ || !held_ || held_->step != grant_->step) return;
  const Grant grant = *std::exchange(grant_, std::nullopt);
  effects.emplace_back(OfferSlice{grant.generation, *std::exchange(held_, std::nullopt)});
  // The next mini-batch is loaded while the device computes.
  if (grant.step + 1 < last_version_) want(grant.step + 1, effects);
}

void EstCore::return_held(EstEffects& effects) {
  if (held_) effects.emplace_back(ReturnSlot{held_->slot});
  held_.reset();
}

}  // namespace es::actors
