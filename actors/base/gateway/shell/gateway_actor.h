#pragma once
// Gateway: the actor that puts the frames of its process on ZeroMQ and turns lost processes into
// messages. Every process has one.
//
// Accepts   Outbound, ConnectPeer, DisconnectPeer (gateway_messages.h), without an answer.
//           GetTransportStats; the answer is TransportStats. All messages are legal at any time.
// Sends     Inbound, PeerUp, PeerDown to the sink, in the order in which the events happened.
// State     A Transport (zmq_transport.h) with sockets, links and peers. Nothing is stored durably.
//           If it listens with keys, it reads the directory of authorized keys every second
//           (TransportOptions.authorized_dir). A key whose file was removed loses its connections.
// Fails     It monitors the sink. When the sink ends, the gateway ends too and says goodbye to all
//           peers. If this actor ends, peers see a goodbye, and the process has lost its
//           connections and ends. The owner of the Gateway object closes all connections by
//           destroying it.
// Order     For each peer and direction, as Transport promises; none between different peers.
// Limits    What waits to be sent to a client is bounded (zmq_transport.h); what waits for other
//           peers is not, and TransportStats.queued_bytes shows it. Frames have at most
//           kBodyBytesMax bytes in both directions; larger ones are refused and counted.
// Threads   Cooperative; no handler blocks. The end of the actor waits for at most
//           TransportOptions.shutdown_flush. The transport has a thread of its own.
#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <chrono>

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/gateway/shell/zmq_transport.h"

namespace es::actors {

// Any actor may send this; the answer is TransportStats.
struct GetTransportStats {};

// A running gateway. The transport's thread sends to the actors of `system`, so it must not outlive
// the system: declare the Gateway after it. Destroying the Gateway closes all connections.
class Gateway {
 public:
  caf::actor actor;
  std::string endpoint;  // where the process listens; empty if it does not

  // Returns a function that reads the transport's counters, on any thread and at any time.
  std::function<TransportStats()> counters() const;

  // `shutdown_flush` is that of the transport.
  Gateway(caf::actor actor, std::shared_ptr<Transport> transport,
          std::chrono::milliseconds shutdown_flush);
  Gateway(Gateway&&) = default;
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;
  // Sends what the process's actors have handed to the gateway before, as far as
  // TransportOptions.shutdown_flush allows. Then it says goodbye and joins the transport's thread.
  ~Gateway();

 private:
  std::shared_ptr<Transport> transport_;
  std::chrono::milliseconds shutdown_flush_;
};

// Called when the authorized keys have changed, on a thread of CAF.
using KeysChanged =
    std::function<void(const access::AuthorizedKeys& before, const access::AuthorizedKeys& now)>;

// Starts the transport and its actor. `log` is called on the transport's thread; `keys_changed` may
// be empty. Error: those of Transport::start.
Result<Gateway> start_gateway(caf::actor_system& system, TransportOptions options, caf::actor sink,
                              std::function<void(const std::string& line)> log,
                              KeysChanged keys_changed = {});

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::GetTransportStats)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::TransportStats)
