#include "actors/base/gateway/shell/wire.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace es::actors {
namespace {

constexpr char kZapDomain[] = "easyscale";
// ZMQ_ZAP_ENFORCE_DOMAIN refuses connections if no ZAP handler answers. The header of this version
// declares it only for draft builds, but the library knows it.
constexpr int kZapEnforceDomain = 93;
constexpr int kReconnectMs = 50;
constexpr int kReconnectMaxMs = 1000;
// A body that is slightly too large still arrives and is counted. ZeroMQ closes the connection for
// anything larger.
constexpr std::int64_t kPartBytesMax = static_cast<std::int64_t>(kBodyBytesMax) + (64 << 10);

constexpr int kHandshakeFailures = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                   ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                   ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

int to_int(std::chrono::milliseconds time) {
  return static_cast<int>(time.count());
}

void set_common(zmq::socket_t& socket, const SocketSettings& settings) {
  // Closing never waits for messages that cannot be sent, and sending never blocks, because the
  // loop serves all peers on one thread. The send queue has no limit: the protocol bounds what is
  // sent to workers and nodes, and the loop disconnects clients that do not read.
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, 0);
  socket.set(zmq::sockopt::sndtimeo, 0);
  // The receive queue has no limit either, and ZeroMQ's own heartbeats are off. If a limit has
  // stopped libzmq 4.3.4 from reading a connection and this connection breaks, the next heartbeat
  // or ping ends the process ("Assertion failed: !_io_error"). The transport's thread reads
  // everything that arrives anyway.
  socket.set(zmq::sockopt::rcvhwm, 0);
  // The beats show which processes live. TCP keepalive closes connections to hosts that are gone.
  const int dead_after_s = std::max(1, to_int(settings.dead_after) / 1000);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, dead_after_s);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, dead_after_s);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, 1);
  socket.set(zmq::sockopt::tcp_maxrt, to_int(settings.dead_after));
  socket.set(zmq::sockopt::maxmsgsize, kPartBytesMax);
  socket.set(zmq::sockopt::handshake_ivl, to_int(settings.handshake_timeout));
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMs);
}

void set_address_family(zmq::socket_t& socket, const Endpoint& endpoint) {
  socket.set(zmq::sockopt::ipv6, endpoint.host.starts_with("["));
}

// The body of a frame is sent without a copy. This object keeps the frame alive until ZeroMQ needs
// the bytes no longer, and release_body() then corrects the counters, possibly on a thread of
// ZeroMQ.
struct QueuedBody {
  std::shared_ptr<const Frame> frame;
  TransportCounters& counters;
  std::shared_ptr<QueuedBytes> queued;
};

void release_body(void*, void* hint) {
  const std::unique_ptr<QueuedBody> body(static_cast<QueuedBody*>(hint));
  body->counters.queued_bytes -= body->frame->body_bytes();
  *body->queued -= body->frame->body_bytes();
}

zmq::message_t body_message(std::shared_ptr<const Frame> frame, TransportCounters& counters,
                            std::shared_ptr<QueuedBytes> queued) {
  const auto bytes = frame->body.asBytes();
  counters.queued_bytes += bytes.size();
  counters.sent_bytes += bytes.size();
  *queued += bytes.size();
  auto* keep = new QueuedBody{std::move(frame), counters, std::move(queued)};
  return {const_cast<kj::byte*>(bytes.begin()), bytes.size(), release_body, keep};
}

std::string property_of(zmq::message_t& part, const char* name) {
  const char* value = zmq_msg_gets(part.handle(), name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

WireSocket::WireSocket(zmq::context_t& context, zmq::socket_type type,
                       const SocketSettings& settings)
    : listens_(type == zmq::socket_type::router),
      socket_(context, type),
      events_(context, zmq::socket_type::pair) {
  set_common(socket_, settings);
}

WireSocket::~WireSocket() {
  zmq_socket_monitor(socket_.handle(), nullptr, 0);
}

Result<std::unique_ptr<WireSocket>> WireSocket::listen(zmq::context_t& context,
                                                       const SocketSettings& settings,
                                                       const Endpoint& endpoint,
                                                       const CurveKeys* server_keys) {
  try {
    std::unique_ptr<WireSocket> wire(new WireSocket(context, zmq::socket_type::router, settings));
    zmq::socket_t& socket = wire->socket_;
    set_address_family(socket, endpoint);
    // Without this option ZeroMQ would silently drop messages to connections that have ended.
    socket.set(zmq::sockopt::router_mandatory, true);
    if (server_keys != nullptr) {
      socket.set(zmq::sockopt::curve_server, true);
      socket.set(zmq::sockopt::curve_secretkey, server_keys->secret_key);
      socket.set(zmq::sockopt::zap_domain, kZapDomain);
      const int on = 1;
      // If the library does not know the option, the ZAP handler that was bound before has the same
      // effect.
      (void)zmq_setsockopt(socket.handle(), kZapEnforceDomain, &on, sizeof on);
    }
    // The monitor begins before the socket is bound, so that no event is missed.
    wire->monitor(kHandshakeFailures);
    socket.bind(endpoint.text);
    return wire;
  } catch (const zmq::error_t& error) {
    return failure("endpoint " + endpoint.text + ": cannot listen: " + error.what());
  }
}

Result<std::unique_ptr<WireSocket>> WireSocket::dial(zmq::context_t& context,
                                                     const SocketSettings& settings,
                                                     const Endpoint& endpoint,
                                                     const ClusterKeys* keys) {
  try {
    std::unique_ptr<WireSocket> wire(new WireSocket(context, zmq::socket_type::dealer, settings));
    zmq::socket_t& socket = wire->socket_;
    set_address_family(socket, endpoint);
    if (keys != nullptr) {
      socket.set(zmq::sockopt::curve_serverkey, keys->server_public);
      socket.set(zmq::sockopt::curve_publickey, keys->client.public_key);
      socket.set(zmq::sockopt::curve_secretkey, keys->client.secret_key);
    }
    wire->monitor(kHandshakeFailures | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECTED |
                  ZMQ_EVENT_CONNECT_RETRIED);
    socket.connect(endpoint.text);
    return wire;
  } catch (const zmq::error_t& error) {
    return failure("endpoint " + endpoint.text + ": cannot connect: " + error.what());
  }
}

void WireSocket::monitor(int events) {
  static std::atomic<std::uint64_t> count{0};  // makes the name unique in a context
  const std::string address = "inproc://monitor-" + std::to_string(++count);
  if (zmq_socket_monitor(socket_.handle(), address.c_str(), events) != 0) throw zmq::error_t();
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(address);
}

void WireSocket::flush_at_close(std::chrono::milliseconds at_most) {
  socket_.set(zmq::sockopt::linger, to_int(at_most));
}

bool WireSocket::send_route(const std::string& connection) {
  return !listens_ || socket_.send(zmq::buffer(connection), zmq::send_flags::sndmore).has_value();
}

bool WireSocket::send_control(const std::string& connection, const std::string& bytes) {
  try {
    return send_route(connection) && socket_.send(zmq::buffer(bytes)).has_value();
  } catch (const zmq::error_t&) {
    return false;
  }
}

bool WireSocket::send_frame(const std::string& connection, std::shared_ptr<const Frame> frame,
                            TransportCounters& counters, std::shared_ptr<QueuedBytes> queued) {
  try {
    if (!send_route(connection)) return false;
    const std::string envelope = encode_envelope(frame->envelope);
    if (!socket_.send(zmq::buffer(envelope), zmq::send_flags::sndmore)) return false;
    // If it cannot be sent, the end of `body` calls release_body(), so the counters are right in
    // any case.
    zmq::message_t body = body_message(std::move(frame), counters, std::move(queued));
    return socket_.send(body, zmq::send_flags::none).has_value();
  } catch (const zmq::error_t&) {
    return false;
  }
}

std::optional<WireMessage> WireSocket::receive() {
  try {
    WireMessage message;
    zmq::message_t part;
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
    if (listens_) {
      message.connection = part.to_string();
      if (!part.more() || !socket_.recv(part, zmq::recv_flags::dontwait)) return message;
    }
    // The user id is the key that the ZAP handler has accepted (zap_handler.cc).
    message.user = property_of(part, "User-Id");
    if (listens_) message.address = property_of(part, "Peer-Address");
    for (;;) {
      const bool more = part.more();
      // All parts are read, since the next message begins after the last one, but only a few are
      // kept. A peer cannot make this process store any number of them.
      if (message.parts.size() < kPartsMax) {
        message.parts.push_back(std::move(part));
      } else {
        message.too_many_parts = true;
      }
      part = zmq::message_t();
      if (!more || !socket_.recv(part, zmq::recv_flags::dontwait)) return message;
    }
  } catch (const zmq::error_t&) {
    return std::nullopt;
  }
}

std::optional<SocketEvent> WireSocket::next_event() {
  try {
    zmq::message_t event;
    if (!events_.recv(event, zmq::recv_flags::dontwait)) return std::nullopt;
    std::uint16_t kind = 0;  // the first field of the event, see zmq_socket_monitor(3)
    std::memcpy(&kind, event.data(), sizeof kind);
    zmq::message_t address;
    (void)events_.recv(address, zmq::recv_flags::dontwait);
    if (kind == ZMQ_EVENT_CONNECT_RETRIED) return SocketEvent::kConnectFailed;
    if (kind == ZMQ_EVENT_CONNECTED) return SocketEvent::kConnected;
    if (kind == ZMQ_EVENT_DISCONNECTED) return SocketEvent::kDisconnected;
    if (kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return SocketEvent::kKeyRefused;
    return SocketEvent::kHandshakeFailed;
  } catch (const zmq::error_t&) {
    return std::nullopt;
  }
}

std::string WireSocket::bound_endpoint() const {
  return socket_.get(zmq::sockopt::last_endpoint);
}

}  // namespace es::actors
