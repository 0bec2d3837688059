#pragma once
// Switchboard takes the place of a gateway in a process that is several peers at once: the daemon
// that is head and node. Messages between these local peers never leave the process. All other
// messages go to the real gateway, whose sink is the switchboard.
//
// Accepts   Outbound and ConnectPeer from local sinks; Inbound, PeerUp and PeerDown from the
//           gateway; HandOn at any time; AttachGateway once, before anything is sent to a remote
//           peer; RegisterPeer.
// Sends     To local sinks what their gateway would send (gateway_messages.h). Frames and events of
//           remote peers go to the head, which is the only local peer that talks to remote ones. A
//           frame that its sender may not send goes no further (door.h); a request is refused.
// State     The local peers, and the door. Nothing is saved but the audit log.
// Fails     When it ends, the process has lost its links, and the daemon ends.
// Order     First in, first out for each pair of peers.
// Limits    None of its own.
// Threads   Cooperative.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <memory>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/switchboard/shell/door.h"

namespace es::actors {

struct AttachGateway {
  caf::actor gateway;
};

// Registers a local peer. From then on messages of its sink carry this id as the sender.
struct RegisterPeer {
  PeerId id;
  caf::actor sink;
};

// Answered by the same message when everything that was sent before has been passed on.
struct HandOn {};

struct SwitchboardState {
  caf::actor gateway;
  std::map<PeerId, caf::actor> sinks;
  PeerId id_of(const caf::strong_actor_ptr& sender) const;
};

// `door` decides about the messages of the gateway, and is used by this actor only.
caf::behavior switchboard_actor(caf::stateful_actor<SwitchboardState>* self,
                                std::shared_ptr<Door> door);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::AttachGateway)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::RegisterPeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::HandOn)
