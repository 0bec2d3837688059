#pragma once
// Gateway: one per process; puts the frames of the process's actors on ZeroMQ and turns lost
// processes into messages.
// Accepts   Outbound, ConnectPeer, DisconnectPeer -> none (gateway_messages.h);
//           GetTransportStats -> TransportStats. All are legal at any time.
// Sends     Inbound, PeerUp, PeerDown to the sink, in the order in which they happened.
// State     a Transport (zmq_transport.h): sockets, links, peers. Nothing is saved. Where it
//           listens with keys, it reads the directory of the keys that may connect every second
//           (TransportOptions.authorized_dir): a key whose file is removed loses its connections.
// Fails     monitors the sink; when it is down, the gateway ends and says goodbye to all peers.
//           If this actor dies: the peers see a goodbye, the process has lost its wire and ends.
//           The other way round, the owner of the Gateway ends the wire by letting go of it.
// Order     per peer and direction, as Transport says; none between peers.
// Limits    what waits for a client is bounded (zmq_transport.h), for others it is not:
//           TransportStats.queued_bytes tells. Frames in and out have at most kBodyBytesMax bytes;
//           the others are refused and counted.
// Threads   cooperative; never blocks in a handler. Ending waits for
// TransportOptions.shutdown_flush
//           at most. The transport has a thread of its own.
#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/allowed_unsafe_message_type.hpp>

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "actors/gateway/gateway_messages.h"
#include "actors/gateway/zmq_transport.h"

namespace es::actors {

// anybody -> gateway: answered by TransportStats.
struct GetTransportStats {};

// A gateway that runs. The transport's thread sends to the actors of `system`, so it may not
// outlive that: whoever holds the Gateway is declared after the system, and letting go of it ends
// the wire.
class Gateway {
 public:
  caf::actor actor;
  std::string endpoint;  // where the process listens; empty when it does not

  Gateway(caf::actor actor, std::shared_ptr<Transport> transport);
  Gateway(Gateway&&) = default;
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;
  // Sends what the process's actors have handed to the gateway before, as far as
  // TransportOptions.shutdown_flush allows, says goodbye and joins the transport's thread.
  ~Gateway();

 private:
  std::shared_ptr<Transport> transport_;
};

// Starts the transport and its actor. `log` is called from the transport's thread.
// Error: as Transport::start.
Result<Gateway> start_gateway(caf::actor_system& system, TransportOptions options, caf::actor sink,
                              std::function<void(const std::string& line)> log);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::GetTransportStats)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::TransportStats)
