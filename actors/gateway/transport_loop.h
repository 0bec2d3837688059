#pragma once
// TransportLoop: the thread of a Transport. Owns every socket and all knowledge of peers; takes
// commands from an Outbox, reads sockets (transport_loop.cc), keeps links and peers and time
// (transport_links.cc).
//
// A peer can have a link that we opened (OutLink) and a connection that it opened (InLink). Each is
// established by the other side's first beat. Frames go over the one that was established first
// (the peer's route), until the peer is down. The loss of either is a PeerDown, because frames that
// the peer sent may be lost with it; if the other one lives, a PeerUp follows at once.
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>
#include <zmq.hpp>

#include "actors/gateway/control_frame.h"
#include "actors/gateway/identity_registry.h"
#include "actors/gateway/limited_log.h"
#include "actors/gateway/outbox.h"
#include "actors/gateway/wire.h"
#include "actors/gateway/zap_handler.h"
#include "actors/gateway/zmq_transport.h"

namespace es::actors {

class TransportLoop {
 public:
  // REQUIRES: context, events and counters outlive the loop; counters outlive the context.
  TransportLoop(zmq::context_t& context, const TransportOptions& options,
                const TransportEvents& events, TransportCounters& counters);

  // Before run(), on any thread. Error: cannot bind. Returns where we listen.
  Result<std::string> listen(const Endpoint& endpoint);

  // Until a StopCommand: then says goodbye to all links and closes them.
  void run(Outbox& outbox);

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  // Pause before a failed link is tried again; doubled each time.
  static constexpr std::chrono::milliseconds kBackoffMin{50};
  static constexpr std::chrono::milliseconds kBackoffMax{2000};
  // A client for which more than this waits to be sent is disconnected: two of the largest frames.
  static constexpr std::uint64_t kClientQueuedBytesMax = 2 * std::uint64_t{kBodyBytesMax};

  struct OutLink {
    Endpoint endpoint;
    std::unique_ptr<WireSocket> socket;  // none while it waits to try again
    bool established = false;
    std::shared_ptr<QueuedBytes> queued = std::make_shared<QueuedBytes>(0);
    Time heard, sent, retry_at;
    std::chrono::milliseconds backoff;
  };
  struct InLink {
    PeerId peer;
    std::string user;  // CURVE key, empty without
    Time heard, sent;
    std::shared_ptr<QueuedBytes> queued = std::make_shared<QueuedBytes>(0);
    bool condemned = false;    // its peer was told goodbye: nothing from it counts any more
    bool unreachable = false;  // ZeroMQ says that it is gone
  };
  struct Peer {
    enum class State { kConnecting, kUp, kDown };
    enum class Route { kOut, kIn };
    State state = State::kDown;
    Route route = Route::kOut;  // while up
    std::unique_ptr<OutLink> out;
    std::string in;                                     // key of in_links_, empty: none
    Time connecting_since;                              // while connecting
    std::vector<std::shared_ptr<const Frame>> pending;  // while connecting: sent when up
  };

  // Commands. False: stop.
  bool take_commands(Outbox& outbox);
  void handle(SendCommand command);
  void handle(ConnectCommand command);
  void handle(DisconnectCommand command);
  void handle(AuthorizeCommand command);

  // Sockets.
  void wait(int outbox_fd);
  void read_sockets();
  void read_listener();
  void read_link(const PeerId& id, Peer& peer);
  void read_zap();
  void read_events();
  bool is_news_only(const PeerId& id, SocketEvent event);
  void tell(const PeerId& id, LinkNews news);

  // Messages.
  void on_link_message(const PeerId& id, Peer& peer, WireMessage& message);
  void on_listener_message(WireMessage& message);
  void on_incoming_control(const WireMessage& message);
  bool is_of_other_version(const std::string& who, const WireMessage& message);
  bool admit(const WireMessage& message, const PeerId& id);
  bool is_taken(const PeerId& id);
  void deliver(const PeerId& from, const WireMessage& message);

  // Links.
  void open_link(const PeerId& id, OutLink& link);
  void fail_link(const PeerId& id, Peer& peer);
  void close_link(Peer& peer);
  void condemn(const std::string& connection, InLink& link);
  void lose_connection(const std::string& connection, const InLink& link);

  // Peers.
  void peer_up(const PeerId& id, Peer& peer, Peer::Route route);
  void link_lost(const PeerId& id, Peer& peer);
  void transmit(Peer& peer, std::shared_ptr<const Frame> frame);
  void transmit_in(Peer& peer, std::shared_ptr<const Frame> frame);
  void drop(std::size_t frame_count);

  // Time.
  void tick();
  void forgive_lateness();
  bool keep_connection(const std::string& connection, InLink& link);
  void tend_link(const PeerId& id, Peer& peer);
  void say_goodbye();

  void refuse(std::atomic<std::uint64_t>& counter, const char* cause, const std::string& detail);

  // Constant after construction.
  zmq::context_t& context_;
  const TransportOptions& options_;
  const TransportEvents& events_;
  const SocketSettings settings_;
  const std::string beat_;
  const std::string bye_;

  TransportCounters& counters_;  // own synchronisation

  // Touched by the loop's thread only, once run() is called.
  LimitedLog log_;
  std::unique_ptr<ZapHandler> zap_;
  std::unique_ptr<WireSocket> listener_;
  std::map<PeerId, Peer> peers_;
  std::unordered_map<std::string, InLink> in_links_;  // by the listener's name of the connection
  IdentityRegistry owners_;
  Time now_;
  Time next_tick_;
};

}  // namespace es::actors
