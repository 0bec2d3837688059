#pragma once
// TransportLoop: the thread of a Transport. It owns all sockets and all state of peers. It takes
// commands from an Outbox and reads sockets (transport_loop.cc), and it manages links, peers and
// time limits (transport_links.cc).
//
// A peer can have a link that this process opened (OutLink) and a connection that it opened
// (InLink). Each is established by the first beat of the other side. Frames use the one that was
// established first (the peer's route) until the peer is down. The loss of either of them causes a
// PeerDown, because frames of the peer may be lost with it. If the other one is alive, a PeerUp
// follows at once.
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>
#include <zmq.hpp>

#include "actors/base/gateway/core/control_frame.h"
#include "actors/base/gateway/core/identity_registry.h"
#include "actors/base/gateway/core/limited_log.h"
#include "actors/base/gateway/core/outbox.h"
#include "actors/base/gateway/shell/wire.h"
#include "actors/base/gateway/shell/zap_handler.h"
#include "actors/base/gateway/shell/zmq_transport.h"

namespace es::actors {

class TransportLoop {
 public:
  // REQUIRES: context, events and counters outlive the loop; counters outlive the context.
  TransportLoop(zmq::context_t& context, const TransportOptions& options,
                const TransportEvents& events, TransportCounters& counters);

  // Call it before run(), on any thread. Returns the address where it listens. Error: it cannot
  // bind.
  Result<std::string> listen(const Endpoint& endpoint);

  // Runs until a StopCommand. Then it says goodbye on all links and closes them.
  void run(Outbox& outbox);

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  // The pause before a failed link is tried again; it is doubled each time.
  static constexpr std::chrono::milliseconds kBackoffMin{50};
  static constexpr std::chrono::milliseconds kBackoffMax{2000};
  // A client is disconnected when more than this waits to be sent to it, two of the largest frames.
  static constexpr std::uint64_t kClientQueuedBytesMax = 2 * std::uint64_t{kBodyBytesMax};

  struct OutLink {
    Endpoint endpoint;
    std::unique_ptr<WireSocket> socket;  // null while it waits to try again
    bool established = false;
    std::shared_ptr<QueuedBytes> queued = std::make_shared<QueuedBytes>(0);
    Time heard, sent, retry_at;
    std::chrono::milliseconds backoff;
  };
  struct InLink {
    PeerId peer;
    std::string user;  // CURVE key; empty without CURVE
    std::shared_ptr<const access::Sender> sender;
    Time heard, sent;
    std::shared_ptr<QueuedBytes> queued = std::make_shared<QueuedBytes>(0);
    bool condemned = false;    // its peer received a goodbye, and nothing from it counts any more
    bool unreachable = false;  // ZeroMQ has reported that it is gone
  };
  struct Peer {
    enum class State { kConnecting, kUp, kDown };
    enum class Route { kOut, kIn };
    State state = State::kDown;
    Route route = Route::kOut;  // while the peer is up
    std::unique_ptr<OutLink> out;
    std::string in;         // a key of in_links_; empty if there is none
    Time connecting_since;  // while connecting
    // while connecting: sent when the peer is up
    std::vector<std::shared_ptr<const Frame>> pending;
  };

  // Commands. take_commands() returns false for a StopCommand.
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
  std::shared_ptr<const access::Sender> sender_of(const std::string& user,
                                                  const std::string& address) const;
  bool may_be(const PeerId& id, const access::Sender& sender) const;
  bool is_taken(const PeerId& id);
  std::string owner_text(const PeerId& id, const access::Sender& sender) const;
  void deliver(const PeerId& from, const WireMessage& message,
               const std::shared_ptr<const access::Sender>& sender);

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
  std::chrono::milliseconds tick_interval() const;
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

  TransportCounters& counters_;  // synchronised by themselves

  // After run() was called, only the loop's thread uses these.
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
