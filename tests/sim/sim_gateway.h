#pragma once
// SimGateway: stands in the place of all gateways of a simulated cluster at once. Speaks
// gateway_messages.h and keeps its promises; every frame takes a small random time, first in first
// out per pair of peers.
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

#include "actors/gateway/shell/gateway_messages.h"
#include "actors/protocol/core/instant.h"

namespace es::test {

// A process starts: `sink` gets what its gateway would send it. `site`: the machine that it runs
// on.
struct OpenPeer {
  actors::PeerId peer;
  caf::actor sink;
  std::string site;
};

// A process has ended. What it had sent arrives; the others notice after `noticed_after`.
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

// The network lets nothing through: between two peers, or out of and into a site. Frames wait, as
// in TCP; when that lasts too long both ends give the link up and what waited is lost. Heal with
// all false.
struct BlockLink {
  actors::PeerId a, b;
  bool a_to_b = false, b_to_a = false;
};
struct BlockSite {
  std::string site;
  bool out = false, in = false;
};

// The connection breaks and is made again: frames on their way are lost, both ends are told.
struct ResetLink {
  actors::PeerId a, b;
};

// Frames between these two take so much longer; zero: not any more.
struct SlowLink {
  actors::PeerId a, b;
  actors::Instant extra{};
};

// The next so many frames between workers are lost, and nobody is told.
struct LoseFrames {
  std::uint32_t count = 0;
};

// Who sends (or, at_receiver, is to get) the nth frame of this type from now on is caught, and
// `on_caught` is told. It stands still from then on (freeze), or it dies: nothing more leaves it,
// and a receiver does not get that frame.
struct SetTrap {
  MessageType type = MessageType::kNone;
  bool at_receiver = false;
  bool freeze = false;
  std::uint32_t nth = 1;
};

// The head dies here: what it sends after this message does not leave it, and `on_caught` is told.
struct SilenceHead {};

class SimGatewayState {
 public:
  static constexpr const char* name = "sim_gateway";
  // How long a silent peer goes unnoticed.
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
  void reset(const ResetLink& reset);
  void slow(const SlowLink& slow);
  void lose(const LoseFrames& lose);
  void trap(const SetTrap& trap) { trap_ = trap; }
  void silence_head();

  using Event = std::variant<actors::PeerUp, actors::PeerDown, actors::Inbound>;
  struct Delivery {
    actors::PeerId from, to;
    std::uint64_t life = 0;  // of the channel; an older one is lost
    Event event;
  };
  void deliver(const Delivery& delivery);
  struct Reconnect {
    actors::PeerId a, b;
  };
  void reconnect(const Reconnect& pair);
  struct Silence {
    actors::PeerId a, b;
    std::uint64_t epoch = 0;  // of the link
  };
  void on_silence(const Silence& silence);

 private:
  using Pair = std::pair<actors::PeerId, actors::PeerId>;  // a link: ascending; a channel: from, to
  struct Link {
    bool up = false;
    bool was_up = false;
    bool silent = false;           // up, but one direction is blocked or one end is frozen
    std::uint64_t epoch = 0;       // counts every change of these
    actors::Instant noticed_at{};  // its loss, by both ends: it cannot be up again before
    std::set<actors::PeerId> wanted_by;
    std::vector<actors::Outbound> early;  // until it is up for the first time
    actors::PeerId early_from;
    std::vector<std::pair<actors::PeerId, actors::Outbound>> held;  // with sender, while silent
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
  // Links follow what has been blocked, frozen, healed or woken.
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
  std::set<Pair> blocked_;                          // (from, to)
  std::set<std::string> blocked_out_, blocked_in_;  // sites
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
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::ResetLink)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SlowLink)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::LoseFrames)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SetTrap)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SilenceHead)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimGatewayState::Delivery)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimGatewayState::Reconnect)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimGatewayState::Silence)
