#pragma once
// What actors of a process exchange with its gateway. A gateway is whatever actor speaks these
// structs: GatewayActor (gateway_actor.h) puts the frames on ZeroMQ; a simulation puts its own
// actor in that place and decides delay, loss and partition.
//
// All of them are plain values, never answered, never serialised (a frame is shared by pointer).
// What a gateway promises its sink about one peer:
//   order      what arrives between a PeerUp and the next PeerDown is what the peer sent, in its
//              order. A PeerDown stands for a possible gap; after it nothing arrives before the
//              next PeerUp.
//   once       PeerUp before the first Inbound; PeerUp and PeerDown alternate, except that each
//              Outbound to a peer that is not connected is answered by one PeerDown.
//   no answer  an Outbound is accepted and forgotten; only what comes back proves that it arrived.
#include <caf/allowed_unsafe_message_type.hpp>

#include <memory>
#include <string>

#include "actors/gateway/peer_id.h"
#include "proto/frame.h"

namespace es::actors {

// sink -> gateway: send this frame to that peer. Dropped, counted and answered by PeerDown{to} when
// the peer is not connected. REQUIRES: a frame.
struct Outbound {
  PeerId to;
  std::shared_ptr<const Frame> frame;
};

// sink -> gateway: open a link to a process that listens at `endpoint` ("ipc:///path" or
// "tcp://host:port"). PeerUp follows when it answers; PeerDown{peer} at once when the endpoint is
// not allowed or our key is refused, and after dead_after without an answer otherwise (the link
// goes on trying). Outbound before that is kept and sent when the link is up. Connecting again to
// the same endpoint does nothing; to another one, it replaces the link.
struct ConnectPeer {
  PeerId peer;
  std::string endpoint;
};

// sink -> gateway: close the link on purpose. No PeerDown follows. The peer is told, after all
// frames sent before; when it still has a use for the link it may open it again (PeerUp).
struct DisconnectPeer {
  PeerId peer;
};

// gateway -> sink: a frame of a peer, checked by decode_frame (its body is not decoded yet).
struct Inbound {
  PeerId from;
  std::shared_ptr<const Frame> frame;
};

// gateway -> sink: the peer can be reached no more, is silent for too long, or said goodbye.
struct PeerDown {
  PeerId peer;
};

// gateway -> sink: the peer was heard for the first time, or again after a PeerDown.
struct PeerUp {
  PeerId peer;
};

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::Outbound)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::ConnectPeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::DisconnectPeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::Inbound)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::PeerDown)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::PeerUp)
