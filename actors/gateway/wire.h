#pragma once
// WireSocket: the ZeroMQ calls of the transport, without exceptions. A socket with our settings,
// one message out, one message in, and what happened to its connections. Used by one thread at a
// time.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "actors/gateway/endpoint.h"
#include "actors/gateway/keys.h"
#include "actors/gateway/transport_stats.h"
#include "proto/frame.h"

namespace es::actors {

// Bytes of bodies that wait to be sent. Any thread: ZeroMQ's own thread subtracts what it has sent.
using QueuedBytes = std::atomic<std::uint64_t>;

struct SocketSettings {
  std::chrono::milliseconds dead_after;
  std::chrono::milliseconds handshake_timeout;
};

// Parts of a message beyond these are thrown away when it arrives.
inline constexpr std::size_t kPartsMax = 2;

struct WireMessage {
  std::string connection;  // who sent it, on a socket that listens; empty on one that dials
  std::string user;        // CURVE public key of the sender, Z85; empty without CURVE
  std::vector<zmq::message_t> parts;  // 1 to kPartsMax
  bool too_many_parts = false;
};

// The first two only on a socket that dials; it goes on trying after kConnectFailed.
enum class SocketEvent { kConnectFailed, kConnected, kDisconnected, kHandshakeFailed, kKeyRefused };

class WireSocket {
 public:
  // A ROUTER that listens at `endpoint`; it reports failed handshakes only. With `server_keys`, it
  // takes only CURVE connections that the context's ZAP handler accepts. REQUIRES: that handler
  // answers. Error: cannot bind.
  static Result<std::unique_ptr<WireSocket>> listen(zmq::context_t& context,
                                                    const SocketSettings& settings,
                                                    const Endpoint& endpoint,
                                                    const CurveKeys* server_keys);

  // A DEALER that goes on trying to connect to `endpoint` until it is destroyed. With `keys`, it
  // talks CURVE. Error: the address cannot be used.
  static Result<std::unique_ptr<WireSocket>> dial(zmq::context_t& context,
                                                  const SocketSettings& settings,
                                                  const Endpoint& endpoint,
                                                  const ClusterKeys* keys);

  // Closes at once: what is queued is lost, unless flush_at_close() was called.
  ~WireSocket();
  WireSocket(const WireSocket&) = delete;
  WireSocket& operator=(const WireSocket&) = delete;

  // The context's end waits so long for what is queued here.
  void flush_at_close(std::chrono::milliseconds at_most);

  // Sends to `connection` (empty on a socket that dials). False: that connection is gone; nothing
  // else can go wrong, as the queue has no limit.
  bool send_control(const std::string& connection, const std::string& bytes);
  // The body is not copied: the frame lives until ZeroMQ has sent it. Until then its bytes are part
  // of `counters.queued_bytes` and of `*queued`. REQUIRES: counters outlive the context.
  bool send_frame(const std::string& connection, std::shared_ptr<const Frame> frame,
                  TransportCounters& counters, std::shared_ptr<QueuedBytes> queued);

  // The next message, or event, if there is one.
  std::optional<WireMessage> receive();
  std::optional<SocketEvent> next_event();

  std::string bound_endpoint() const;
  // To poll for messages and events.
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
