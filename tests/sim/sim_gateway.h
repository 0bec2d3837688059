#pragma once
// SimGateway replaces all gateways of a simulated cluster. It speaks gateway_messages.h and keeps
// its promises. Every frame takes a small random time, in first-in, first-out order for each pair
// of peers.
//
// A sender that was not opened as a peer is part of the head, as in the switchboard.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/core/instant.h"

namespace es::test {

inline const actors::PeerId kHead = "head";

// A process starts. `sink` gets what its gateway would send it. `site` is the machine on which it
// runs.
struct OpenPeer {
  actors::PeerId peer;
  caf::actor sink;
  std::string site;
};

// A process has ended. The messages that it has sent arrive. The others notice after
// `noticed_after`.
struct ClosePeer {
  actors::PeerId peer;
  actors::Instant noticed_after{};
};

// The process stands still. The others notice when it is silent for too long.
struct FreezePeer {
  actors::PeerId peer;
};
struct WakePeer {
  actors::PeerId peer;
};

// The network transmits nothing between two peers, or out of and into a site. Frames wait, as in
// TCP. When that lasts too long, both ends give the link up, and the waiting frames are lost. All
// false heals the network.
struct BlockLink {
  actors::PeerId a, b;
  bool a_to_b = false, b_to_a = false;
};
struct BlockSite {
  std::string site;
  bool out = false, in = false;
};

// Workers on the site reach none on other sites, and are reached by none. The head is.
struct IsolateSite {
  std::string site;
  bool on = false;
};

// The connection breaks and is made again: frames on their way are lost, and both ends get a
// report.
struct ResetLink {
  actors::PeerId a, b;
};

// Frames between these two take this additional time; zero ends that.
struct SlowLink {
  actors::PeerId a, b;
  actors::Instant extra{};
};

// The next `count` frames between workers are lost without a report.
struct LoseFrames {
  std::uint32_t count = 0;
};

// The sender (or, with at_receiver, the receiver) of the nth frame of this type from now on is
// caught, and `on_caught` gets its name. It stands still from then on (freeze), or it dies: nothing
// more leaves it, and a receiver does not get that frame.
struct SetTrap {
  MessageType type = MessageType::kNone;
  bool at_receiver = false;
  bool freeze = false;
  std::uint32_t nth = 1;
};

// The head dies here: its messages after this one are lost, and `on_caught` is called.
struct SilenceHead {};

class SimGatewayState {
 public:
  static constexpr const char* name = "sim_gateway";
  // How long a silent peer is not noticed.
  static constexpr actors::Instant kSilence = std::chrono::seconds(3);

  using OnCaught = std::function<void(const actors::PeerId&, bool freeze)>;

  void init(caf::stateful_actor<SimGatewayState>* self, std::uint64_t seed, OnCaught on_caught);
  void open(const OpenPeer& peer);
  void close(const ClosePeer& peer);
  void connect(const actors::ConnectPeer& request);
  void send(const actors::Outbound& outbound);
  void freeze(const FreezePeer& peer);
  void wake(const WakePeer& peer);
  void block(const BlockLink& block);
  void block(const BlockSite& block);
  void isolate(const IsolateSite& isolate);
  void reset(const ResetLink& reset);
  void slow(const SlowLink& slow);
  void lose(const LoseFrames& lose);
  void trap(const SetTrap& trap) { trap_ = trap; }
  void silence_head();

  using Event = std::variant<actors::PeerUp, actors::PeerDown, actors::Inbound>;
  struct Delivery {
    actors::PeerId from, to;
    std::uint64_t life = 0;  // The number of the channel. A message of an older one is lost.
    Event event;
  };
  void deliver(const Delivery& delivery);
  struct Reconnect {
    actors::PeerId a, b;
  };
  void reconnect(const Reconnect& pair);
  struct Silence {
    actors::PeerId a, b;
    std::uint64_t epoch = 0;  // The number of this link.
  };
  void on_silence(const Silence& silence);

 private:
  // For a link: ascending. For a channel: from, to.
  using Pair = std::pair<actors::PeerId, actors::PeerId>;
  struct Link {
    bool up = false;
    bool was_up = false;
    // The link is up, but one direction is blocked or one end is frozen.
    bool silent = false;
    std::uint64_t epoch = 0;  // Counts every change of these.
    // Its loss was reported by both ends. It cannot be up again before that.
    actors::Instant noticed_at{};
    std::set<actors::PeerId> wanted_by;
    std::vector<actors::Outbound> early;  // Until it is up for the first time.
    actors::PeerId early_from;
    // With the sender, while it is silent.
    std::vector<std::pair<actors::PeerId, actors::Outbound>> held;
  };
  struct Channel {
    actors::Instant last_due{};
    std::uint64_t life = 0;
  };

  actors::PeerId sender() const;
  Link& link(const actors::PeerId& a, const actors::PeerId& b);
  void try_link(const actors::PeerId& a, const actors::PeerId& b);
  void reconnect_later(const Pair& pair);
  void take_down(const Pair& pair, Link& link);
  bool blocked(const actors::PeerId& from, const actors::PeerId& to) const;
  // Links follow from what has been blocked, frozen, healed or continued.
  void review();
  bool springs(MessageType type, bool at_receiver);
  void spring(const actors::PeerId& caught);
  void post(const actors::PeerId& from, const actors::PeerId& to, Event event,
            actors::Instant extra = {});
  actors::Instant random_delay(actors::Instant least, actors::Instant most);

  caf::stateful_actor<SimGatewayState>* self_ = nullptr;
  std::mt19937_64 random_;
  std::map<actors::PeerId, caf::actor> peers_;
  std::map<caf::actor_id, actors::PeerId> ids_;
  std::map<Pair, Link> links_;
  std::map<Pair, Channel> channels_;
  std::map<actors::PeerId, std::string> sites_;
  std::set<actors::PeerId> frozen_;
  std::set<Pair> blocked_;                          // (From, to).
  std::set<std::string> blocked_out_, blocked_in_;  // Sites.
  std::set<std::string> isolated_;                  // Sites.
  std::map<Pair, actors::Instant> extra_;
  std::uint32_t lose_ = 0;
  SetTrap trap_;
  std::set<actors::PeerId> caught_;
  OnCaught on_caught_;
};

caf::behavior sim_gateway_actor(caf::stateful_actor<SimGatewayState>* self, std::uint64_t seed,
                                SimGatewayState::OnCaught on_caught);

}  // namespace es::test

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::OpenPeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::ClosePeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::FreezePeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::WakePeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::BlockLink)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::BlockSite)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::IsolateSite)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::ResetLink)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SlowLink)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::LoseFrames)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SetTrap)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SilenceHead)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimGatewayState::Delivery)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimGatewayState::Reconnect)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimGatewayState::Silence)
