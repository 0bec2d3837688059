#include "actors/head/switchboard/shell/switchboard_actor.h"

#include <caf/all.hpp>

#include <utility>

namespace es::actors {
namespace {

using Self = caf::stateful_actor<SwitchboardState>*;

void to_head(Self self, const auto& message) {
  const auto head = self->state.sinks.find(kHeadPeer);
  if (head != self->state.sinks.end()) self->send(head->second, message);
}

void on_connect(Self self, const ConnectPeer& connect) {
  const SwitchboardState& s = self->state;
  const auto target = s.sinks.find(connect.peer);
  if (target == s.sinks.end()) return self->send(s.gateway, connect);
  // Two local peers are always connected, so both receive at once what a gateway would report.
  self->send(caf::actor_cast<caf::actor>(self->current_sender()), PeerUp{connect.peer});
  self->send(target->second, PeerUp{s.id_of(self->current_sender())});
}

void on_outbound(Self self, Door& door, const Outbound& outbound) {
  const SwitchboardState& s = self->state;
  const auto target = s.sinks.find(outbound.to);
  if (target == s.sinks.end()) {
    door.on_outbound(outbound);
    return self->send(s.gateway, outbound);
  }
  self->send(target->second, Inbound{s.id_of(self->current_sender()), outbound.frame});
}

void on_inbound(Self self, Door& door, const Inbound& inbound) {
  const Passage passage = door.on_inbound(inbound);
  if (passage.passes) return to_head(self, inbound);
  if (passage.refusal) self->send(self->state.gateway, Outbound{inbound.from, passage.refusal});
}

void on_peer_down(Self self, Door& door, const PeerDown& down) {
  door.on_peer_down(down.peer);
  to_head(self, down);
}

}  // namespace

// Jobs send in the name of the head: every sender that is not registered is a part of the head.
PeerId SwitchboardState::id_of(const caf::strong_actor_ptr& sender) const {
  for (const auto& [id, sink] : sinks)
    if (caf::actor_cast<caf::strong_actor_ptr>(sink) == sender) return id;
  return kHeadPeer;
}

caf::behavior switchboard_actor(Self self, std::shared_ptr<Door> door) {
  return {
      [=](AttachGateway& attach) { self->state.gateway = std::move(attach.gateway); },
      [=](RegisterPeer& peer) { self->state.sinks[peer.id] = std::move(peer.sink); },
      [=](const ConnectPeer& connect) { on_connect(self, connect); },
      [=](const Outbound& outbound) { on_outbound(self, *door, outbound); },
      [=](const Inbound& inbound) { on_inbound(self, *door, inbound); },
      [=](const PeerUp& up) { to_head(self, up); },
      [=](const PeerDown& down) { on_peer_down(self, *door, down); },
      [](const HandOn& all) { return all; },
  };
}

}  // namespace es::actors
