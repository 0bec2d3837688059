#include "actors/head/intra_job/shell/ordered_effects.h"

#include <utility>
#include <variant>

namespace es::actors {

void OrderedEffects::perform(intra_job::Effects effects) {
  for (intra_job::Effect& effect : effects) {
    const bool is_step = std::holds_alternative<intra_job::LedgerLineAdded>(effect);
    if (is_stalled() || !perform_now(effect)) hold(std::move(effect));
    if (is_step) owner_.step_reported();
  }
}

bool OrderedEffects::perform_now(const intra_job::Effect& effect) {
  const Status performed = owner_.perform(effect);
  if (!performed.ok()) stall(performed.error());
  return performed.ok();
}

void OrderedEffects::hold(intra_job::Effect effect) {
  if (awaits_an_answer(effect)) clock_.stand_still();
  held_.add(std::move(effect));
}

void OrderedEffects::stall(const Error& reason) {
  stalled_ = reason;
  owner_.stalled(reason);
}

bool OrderedEffects::recover() {
  if (!is_stalled()) return false;
  stalled_.reset();
  perform_held();
  if (is_stalled()) return false;
  clock_.go_on();
  return true;
}

void OrderedEffects::perform_held() {
  if (const Status written = owner_.before_held(); !written.ok()) return stall(written.error());
  // An effect is removed only after it was performed, so a failed one stays the first.
  while (!held_.empty()) {
    if (!perform_now(held_.front())) return;
    held_.pop();
  }
}

}  // namespace es::actors
