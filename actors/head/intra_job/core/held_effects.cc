#include "actors/head/intra_job/core/held_effects.h"

#include <variant>

namespace es::actors::intra_job {
namespace {

bool is_to(const Effect& effect, const std::string& node, const Fleet& fleet) {
  if (const auto* start = std::get_if<StartWorker>(&effect)) return start->device.node == node;
  const auto* kill = std::get_if<KillWorker>(&effect);
  if (kill == nullptr) return false;
  const auto worker = fleet.workers().find(kill->incarnation);
  return worker != fleet.workers().end() && worker->second.device.node == node;
}

}  // namespace

void HeldEffects::forget_worker(Incarnation worker) {
  std::erase_if(effects_, [&](const Effect& effect) {
    const auto* send = std::get_if<SendWorker>(&effect);
    return send != nullptr && send->to == worker;
  });
}

void HeldEffects::forget_node(const std::string& node, const Fleet& fleet) {
  std::erase_if(effects_, [&](const Effect& effect) { return is_to(effect, node, fleet); });
}

// The first two say up to which version the head has what workers have reported, and Decided
// follows from an evaluation.
bool makes_workers_forget(const SendWorker& effect) {
  return std::holds_alternative<protocol::Acknowledge>(*effect.message) ||
         std::holds_alternative<protocol::Install>(*effect.message) ||
         std::holds_alternative<protocol::Decided>(*effect.message);
}

// The worker answers no Acknowledge. Every other message leads to messages of the worker or to its
// exit.
bool awaits_an_answer(const Effect& effect) {
  if (const auto* send = std::get_if<SendWorker>(&effect))
    return !std::holds_alternative<protocol::Acknowledge>(*send->message);
  return std::holds_alternative<StartWorker>(effect) || std::holds_alternative<KillWorker>(effect);
}

}  // namespace es::actors::intra_job
