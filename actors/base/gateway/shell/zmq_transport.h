#pragma once
// Transport moves frames between this process and its peers over ZeroMQ. It is the only user of
// sockets between processes, and it knows nothing of actors or of the meaning of a frame.
//
// A process listens at one endpoint at most (a ROUTER), and opens one link (a DEALER) to each peer
// whose endpoint it knows. A peer that has connected is answered over its own connection. The
// first message on a connection names the sender (control_frame.h). ZeroMQ's routing ids are
// generated, so no peer can take the place of another one by using its id.
//
// * Order. Frames to one peer arrive in the order of send() as long as the peer is up: the route to
//   a peer never changes between its on_peer_up and on_peer_down.
// * Liveness. A beat is sent on every link that was idle for heartbeat_interval. A peer is down if
//   its connection broke, it said goodbye, or nothing arrived for dead_after. dead_after must
//   exceed the time that the largest body needs on the slowest link, because beats wait behind it.
//   Time in which this process did not run does not count as silence of its peers. Clients know
//   nothing of the times of a head, and have the default ones. So the connection of a client gets
//   beats at least as often as the default says, and may be silent for at least the default time.
// * Queues. send() never blocks and never refuses for lack of room; stats().queued_bytes counts the
//   bodies that wait. The queue of a link that this process opened ends at the latest dead_after
//   after the peer fell silent; the queue of a connection that the peer opened ends when it breaks.
//   A client is disconnected if more than two of the largest frames wait for it.
// * Identity. A PeerId belongs to the CURVE key that first used it, while the id is present and
//   until kPastOwnersMax other ids have left after it; another key is refused. A second connection
//   under a present id is refused too, and tries again. A restarted process therefore gets its id
//   as soon as the connection of its predecessor has broken or is found silent.
// * Security. ipc uses file permissions (endpoint.h). tcp uses CURVE, and a key must be authorized.
//   The key of a client can claim only ids of clients, and the key of a node only other ids. A
//   frame comes with the owner of its key. Without CURVE, any process that can connect may claim
//   any free id.
//
// Threads: send, connect, disconnect, authorize and stats may be called on any thread. Callbacks
// run on the transport's thread and must not block. stop() and the destructor say goodbye on all
// links, wait up to shutdown_flush for queued messages, and join the thread; no callback runs after
// that. A process that has a Transport must not fork(), except to exec.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/gateway/core/transport_stats.h"
#include "actors/base/gateway/shell/keys.h"
#include "proto/base/result.h"
#include "proto/frame.h"

namespace es::actors {

// The times of a process that is not told others.
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};
inline constexpr std::chrono::milliseconds kDeadAfter{2500};

struct TransportOptions {
  PeerId self;                      // the id of this process
  std::string endpoint;             // where to listen; empty if it only connects
  std::set<PeerId> also_self{};     // other peers in this process; their ids are refused too
  std::optional<ClusterKeys> keys;  // CURVE for all tcp links; without keys only ipc
  // The directory of authorized keys, which gateway_actor.h watches; empty if it is not watched.
  std::string authorized_dir{};
  bool insecure_loopback = false;  // allow tcp without keys on the loopback address
  // Whether peers with the id of a client may connect here. Only a head has clients.
  bool serves_clients = true;
  std::chrono::milliseconds heartbeat_interval = kHeartbeatInterval;
  std::chrono::milliseconds dead_after = kDeadAfter;  // from 2 heartbeat_interval to 1 hour
  std::chrono::milliseconds handshake_timeout{2000};  // a silent new connection is closed
  std::chrono::milliseconds shutdown_flush{500};
};

// What is learned about a link that this process opens before its peer is up, for messages to the
// user. The link continues to try in every case.
struct LinkNews {
  enum class Kind {
    kConnectFailed,    // no process accepts the connection there
    kConnected,        // a process accepts it; its id is not known yet
    kHandshakeFailed,  // no or wrong keys on one side, or not an EasyScale process
    kKeyRefused,       // the key of this process is not authorized there
    kTurnedAway,       // the peer said goodbye instead of answering
    kOtherVersion,     // the peer is a program of another release
  };
  Kind kind = Kind::kConnectFailed;
  std::uint16_t protocol = 0;  // the version that the peer speaks; for kOtherVersion
};

struct TransportEvents {
  // `sender` is null if this process has opened the link.
  std::function<void(const PeerId& from, std::shared_ptr<const Frame>,
                     const std::shared_ptr<const access::Sender>& sender)>
      on_frame;
  std::function<void(const PeerId&)> on_peer_up;
  std::function<void(const PeerId&)> on_peer_down;
  std::function<void(const PeerId&, LinkNews)> on_link_news = {};  // may be empty
  // Refusals and failures, at most one line per cause and second.
  std::function<void(const std::string& line)> log;
};

class Transport {
 public:
  // Binds and starts. Errors: a bad PeerId, time or endpoint; tcp without keys; the address is in
  // use. REQUIRES: every callback is set, except on_link_news.
  static Result<std::unique_ptr<Transport>> start(TransportOptions options, TransportEvents events);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // The address where this process listens, with the port that was chosen; empty if it does not.
  const std::string& endpoint() const;

  // gateway_messages.h describes them under Outbound, ConnectPeer and DisconnectPeer.
  void send(const PeerId& to, std::shared_ptr<const Frame> frame);
  // Error: the endpoint or the id is malformed, or the endpoint needs keys that are missing.
  Status connect(const PeerId& peer, const std::string& endpoint);
  void disconnect(const PeerId& peer);

  // Replaces the keys that may connect. Connections with other keys are closed, and those whose
  // key has another owner now continue under the new one.
  void authorize(access::AuthorizedKeys keys);

  TransportStats stats() const;

  // May be called repeatedly, on any thread except the transport's own. It returns when the thread
  // has ended. Frames that are sent later are dropped.
  void stop();

 private:
  class Impl;
  explicit Transport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace es::actors
