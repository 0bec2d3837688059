#pragma once
// WireSocket: the ZeroMQ calls of the transport, without exceptions. It is a socket with the
// settings of the transport that sends and receives messages and reports events of its connections.
// Not thread-safe.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "actors/base/gateway/core/endpoint.h"
#include "actors/base/gateway/core/transport_stats.h"
#include "actors/base/gateway/shell/keys.h"
#include "proto/frame.h"

namespace es::actors {

// The number of body bytes that wait to be sent. ZeroMQ's own thread subtracts what it has sent, so
// any thread may use it.
using QueuedBytes = std::atomic<std::uint64_t>;

struct SocketSettings {
  std::chrono::milliseconds dead_after;
  std::chrono::milliseconds handshake_timeout;
};

// Further parts of a message are dropped when it arrives.
inline constexpr std::size_t kPartsMax = 2;

struct WireMessage {
  std::string connection;             // the sender, on a socket that listens; otherwise empty
  std::string user;                   // CURVE public key of the sender in Z85; empty without CURVE
  std::string address;                // of the sender's machine; empty for a local socket
  std::vector<zmq::message_t> parts;  // 1 to kPartsMax
  bool too_many_parts = false;
};

// The first two events occur only on a socket that dials. It continues to try after kConnectFailed.
enum class SocketEvent { kConnectFailed, kConnected, kDisconnected, kHandshakeFailed, kKeyRefused };

class WireSocket {
 public:
  // Creates a ROUTER that listens at `endpoint`. Its only event is a failed handshake. With
  // `server_keys` it accepts only CURVE connections that the context's ZAP handler accepts.
  // REQUIRES: that handler answers. Error: it cannot bind.
  static Result<std::unique_ptr<WireSocket>> listen(zmq::context_t& context,
                                                    const SocketSettings& settings,
                                                    const Endpoint& endpoint,
                                                    const CurveKeys* server_keys);

  // Creates a DEALER that tries to connect to `endpoint` until it is destroyed. With `keys` it uses
  // CURVE. Error: the address cannot be used.
  static Result<std::unique_ptr<WireSocket>> dial(zmq::context_t& context,
                                                  const SocketSettings& settings,
                                                  const Endpoint& endpoint,
                                                  const ClusterKeys* keys);

  // Closes at once. Queued messages are lost, unless flush_at_close() was called.
  ~WireSocket();
  WireSocket(const WireSocket&) = delete;
  WireSocket& operator=(const WireSocket&) = delete;

  // The end of the context waits for at most this time until the messages queued here are sent.
  void flush_at_close(std::chrono::milliseconds at_most);

  // Sends to `connection`, which is empty on a socket that dials. Returns false if that connection
  // is gone. There is no other error, as the queue has no limit.
  bool send_control(const std::string& connection, const std::string& bytes);
  // The body is not copied: the frame is kept alive until ZeroMQ has sent it. Until then its bytes
  // are part of `counters.queued_bytes` and of `*queued`. REQUIRES: counters outlive the context.
  bool send_frame(const std::string& connection, std::shared_ptr<const Frame> frame,
                  TransportCounters& counters, std::shared_ptr<QueuedBytes> queued);

  // Return the next message or event, if there is one.
  std::optional<WireMessage> receive();
  std::optional<SocketEvent> next_event();

  std::string bound_endpoint() const;
  // Handles to poll for messages and events.
  void* handle() { return socket_.handle(); }
  void* event_handle() { return events_.handle(); }

 private:
  WireSocket(zmq::context_t& context, zmq::socket_type type, const SocketSettings& settings);
  void monitor(int events);
  bool send_route(const std::string& connection);

  const bool listens_;
  zmq::socket_t socket_;
  zmq::socket_t events_;
};

}  // namespace es::actors
