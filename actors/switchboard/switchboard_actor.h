#pragma once
// Switchboard: stands where a gateway would, for a process that is several peers at once: the
// daemon that is head and node. Messages between its own peers never leave the process; everything
// else goes to the real gateway, whose sink it is.
//
// Accepts   Outbound, ConnectPeer from local sinks; Inbound, PeerUp, PeerDown from the gateway;
//           HandOn at any time; AttachGateway once, before anything is sent to a remote peer.
// Sends     To local sinks what their gateway would send (gateway_messages.h). Frames and events of
//           remote peers go to the head, which is the only local peer that remote ones talk to.
// State     the local peers. Nothing saved.
// Fails     When it ends, the process has lost its wires: the daemon ends.
// Order     First in, first out per pair of peers.
// Limits    none of its own.
// Threads   Cooperative.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <memory>

#include "actors/gateway/gateway_messages.h"

namespace es::actors {

struct AttachGateway {
  caf::actor gateway;
};

// A local peer: its sink is the sender's address from then on.
struct RegisterPeer {
  PeerId id;
  caf::actor sink;
};

// anybody -> switchboard: answered by the same when all that it was sent before is handed on.
struct HandOn {};

struct SwitchboardState {
  caf::actor gateway;
  std::map<PeerId, caf::actor> sinks;
  PeerId id_of(const caf::strong_actor_ptr& sender) const;
};

caf::behavior switchboard_actor(caf::stateful_actor<SwitchboardState>* self);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::AttachGateway)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::RegisterPeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::HandOn)
