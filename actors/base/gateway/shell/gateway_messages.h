#pragma once
// The messages between the actors of a process and its gateway. Any actor that speaks these structs
// is a gateway: GatewayActor (gateway_actor.h) puts the frames on ZeroMQ, and a simulation replaces
// it by an actor that decides delay, loss and partition.
//
// All of them are plain values that are never answered and never serialised; a frame is shared by
// pointer. A gateway promises its sink for each peer:
//
// * Order. What arrives between a PeerUp and the next PeerDown is exactly what the peer sent, in
//   its order. A PeerDown stands for a possible gap; after it nothing arrives before the next
//   PeerUp.
// * Alternation. A PeerUp comes before the first Inbound. PeerUp and PeerDown alternate, except
//   that each Outbound to a peer that is not connected causes one PeerDown.
// * No confirmation. An Outbound is not confirmed. Only a message of the peer can prove that it has
//   arrived.
#include <caf/allowed_unsafe_message_type.hpp>

#include <memory>
#include <string>

#include "actors/base/access/core/identity.h"
#include "actors/base/gateway/core/peer_id.h"
#include "proto/frame.h"

namespace es::actors {

// From the sink: sends this frame to that peer. If the peer is not connected, the frame is dropped
// and counted, and PeerDown{to} follows. REQUIRES: `frame` is not null.
struct Outbound {
  PeerId to;
  std::shared_ptr<const Frame> frame;
};

// From the sink: opens a link to a process that listens at `endpoint` ("ipc:///path" or
// "tcp://host:port"). PeerUp follows when the process answers. PeerDown{peer} follows at once if
// the endpoint is not allowed or the key is refused, and after dead_after without an answer; the
// link then continues to try. Outbound frames before PeerUp are kept and sent when the link is up.
// A second ConnectPeer to the same endpoint does nothing; one to another endpoint replaces the
// link.
struct ConnectPeer {
  PeerId peer;
  std::string endpoint;
};

// From the sink: closes the link on purpose. No PeerDown follows. The peer is informed after all
// frames that were sent before. If the peer still needs the link, it may open it again (PeerUp).
struct DisconnectPeer {
  PeerId peer;
};

// To the sink: a frame of a peer. decode_frame has checked it, but its body is not decoded yet.
// `sender` says whose connection it is. It is null for peers in the same process, for peers that
// this process has called, and in simulations.
struct Inbound {
  PeerId from;
  std::shared_ptr<const Frame> frame;
  std::shared_ptr<const access::Sender> sender = nullptr;
};

// To the sink: the peer cannot be reached any more, has been silent for too long, or said goodbye.
struct PeerDown {
  PeerId peer;
};

// To the sink: the peer was heard for the first time, or again after a PeerDown.
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
