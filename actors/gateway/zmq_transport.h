#pragma once
// Transport: moves frames between this process and its peers over ZeroMQ. The only user of sockets
// between processes; knows nothing of actors or of what a frame means.
//
// A process listens at one endpoint at most (a ROUTER), and opens one link (a DEALER) to each peer
// whose endpoint it was told. A peer that connected to us is answered over its own connection. The
// first message on a connection says who speaks (control_frame.h); ZeroMQ's routing ids are
// generated, so no peer can take another's place by naming its id.
//
// Order      frames to one peer arrive in the order of send(), as long as the peer is up: the way
//            to a peer never changes between its on_peer_up and on_peer_down.
// Liveness   a beat goes out on every link that was idle for heartbeat_interval. A peer is down
//            when its connection broke, it said goodbye, or nothing came for dead_after. dead_after
//            must exceed the time that the largest body takes on the slowest link: beats wait
//            behind it. Time in which this process did not run is not held against peers.
// Queues     send() never blocks and never refuses for lack of room; stats().queued_bytes counts
//            the bodies that wait. The queue of a link that we opened ends at the latest dead_after
//            after the peer fell silent, of a connection that the peer opened when that breaks. A
//            client for which more than two of the largest frames wait is disconnected.
// Identity   a PeerId belongs to the CURVE key that first used it, while it is present and until
//            kPastOwnersMax other ids left after it; another key is refused. A second connection
//            under an id that is present is refused too, and tries again: a restarted process gets
//            its id as soon as its predecessor's connection broke or is found silent.
// Security   ipc: file permissions (endpoint.h). tcp: CURVE; a key must be in the authorized set.
//            Without CURVE, any process that can connect may claim any id that is free.
//
// Threads: send, connect, disconnect, authorize and stats may be called from any thread. Callbacks
// run on the transport's thread and must not block. stop(), and the destructor, say goodbye to all
// links, wait up to shutdown_flush for what is queued, and join the thread; no callback runs after.
// Do not fork() a process that has a Transport, except to exec.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actors/gateway/keys.h"
#include "actors/gateway/peer_id.h"
#include "actors/gateway/transport_stats.h"
#include "proto/base/result.h"
#include "proto/frame.h"

namespace es::actors {

struct TransportOptions {
  PeerId self;                      // who we are
  std::string endpoint;             // where to listen; empty: we only connect
  std::set<PeerId> also_self{};     // other peers that live in this process: nobody else is these
  std::optional<ClusterKeys> keys;  // CURVE for all tcp links; absent: only ipc
  // Directory of the keys that may connect, for who watches it (gateway_actor.h); empty: nobody
  // does.
  std::string authorized_dir{};
  bool insecure_loopback = false;  // allow tcp without keys on the loopback address
  std::chrono::milliseconds heartbeat_interval{500};
  std::chrono::milliseconds dead_after{2500};         // from 2 heartbeat_interval to 1 hour
  std::chrono::milliseconds handshake_timeout{2000};  // a connection that says nothing is closed
  std::chrono::milliseconds shutdown_flush{500};
};

// What became known of a link that we open, before its peer is up: what a person may want to know.
// The link goes on trying whatever it was.
struct LinkNews {
  enum class Kind {
    kConnectFailed,    // nobody takes the connection there
    kConnected,        // somebody does; is not known yet who
    kHandshakeFailed,  // no or wrong keys on one of the sides, or not one of us
    kKeyRefused,       // our key is not authorized there
    kTurnedAway,       // the peer said goodbye instead of answering
    kOtherVersion,     // the peer is a program of another release
  };
  Kind kind = Kind::kConnectFailed;
  std::uint16_t protocol = 0;  // of kOtherVersion: the one that it speaks
};

struct TransportEvents {
  std::function<void(const PeerId& from, std::shared_ptr<const Frame>)> on_frame;
  std::function<void(const PeerId&)> on_peer_up;
  std::function<void(const PeerId&)> on_peer_down;
  std::function<void(const PeerId&, LinkNews)> on_link_news = {};  // may be empty
  // Refusals and failures; at most one line per cause and second.
  std::function<void(const std::string& line)> log;
};

class Transport {
 public:
  // Binds and starts. Errors: bad PeerId, times, endpoint; tcp without keys; the address is taken.
  // REQUIRES: every callback is set, except on_link_news.
  static Result<std::unique_ptr<Transport>> start(TransportOptions options, TransportEvents events);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Where we listen, with the port that was chosen; empty when we do not.
  const std::string& endpoint() const;

  // What Outbound, ConnectPeer and DisconnectPeer mean: actors/gateway/gateway_messages.h.
  void send(const PeerId& to, std::shared_ptr<const Frame> frame);
  // Error: the endpoint or the id is malformed, or the endpoint needs keys that we lack.
  Status connect(const PeerId& peer, const std::string& endpoint);
  void disconnect(const PeerId& peer);

  // Replaces the set of keys that may connect; connections of others are closed.
  void authorize(std::set<std::string> public_keys);

  TransportStats stats() const;

  // From any thread but the transport's own, any number of times. Returns when the thread has
  // ended; what is sent afterwards goes nowhere.
  void stop();

 private:
  class Impl;
  explicit Transport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace es::actors
