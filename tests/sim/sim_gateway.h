#pragma once
// SimGateway: stands in the place of all gateways of a simulated cluster at once. Speaks
// gateway_messages.h and keeps its promises; every frame takes a small random time, first in first
// out per pair of peers.
//
// A sender that was not opened as a peer is part of the head, as in the switchboard.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <random>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "actors/gateway/gateway_messages.h"
#include "actors/protocol/instant.h"

namespace es::test {

// A process starts: `sink` gets what its gateway would send it.
struct OpenPeer {
  actors::PeerId peer;
  caf::actor sink;
};

// A process has ended. What it had sent arrives; the others notice after `noticed_after`.
struct ClosePeer {
  actors::PeerId peer;
  actors::Instant noticed_after{};
};

// The network between two peers breaks, or works again. Frames on their way are lost.
struct CutLink {
  actors::PeerId a, b;
};
struct HealLink {
  actors::PeerId a, b;
};

class SimGatewayState {
 public:
  static constexpr const char* name = "sim_gateway";
  // How long a silent peer goes unnoticed.
  static constexpr actors::Instant kSilence = std::chrono::seconds(3);

  void init(caf::stateful_actor<SimGatewayState>* self, std::uint64_t seed);
  void open(const OpenPeer& peer);
  void close(const ClosePeer& peer);
  void connect(const actors::ConnectPeer& request);
  void send(const actors::Outbound& outbound);
  void cut(const CutLink& link);
  void heal(const HealLink& link);

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

 private:
  using Pair = std::pair<actors::PeerId, actors::PeerId>;  // a link: ascending; a channel: from, to
  struct Link {
    bool up = false;
    bool was_up = false;
    bool cut = false;
    actors::Instant noticed_at{};  // its loss, by both ends: it cannot be up again before
    std::set<actors::PeerId> wanted_by;
    std::vector<actors::Outbound> early;  // until it is up for the first time
    actors::PeerId early_from;
  };
  struct Channel {
    actors::Instant last_due{};
    std::uint64_t life = 0;
  };

  actors::PeerId sender() const;
  Link& link(const actors::PeerId& a, const actors::PeerId& b);
  void try_link(const actors::PeerId& a, const actors::PeerId& b);
  void post(const actors::PeerId& from, const actors::PeerId& to, Event event,
            actors::Instant extra = {});
  actors::Instant random_delay(actors::Instant least, actors::Instant most);

  caf::stateful_actor<SimGatewayState>* self_ = nullptr;
  std::mt19937_64 random_;
  std::map<actors::PeerId, caf::actor> peers_;
  std::map<caf::actor_id, actors::PeerId> ids_;
  std::map<Pair, Link> links_;
  std::map<Pair, Channel> channels_;
};

caf::behavior sim_gateway_actor(caf::stateful_actor<SimGatewayState>* self, std::uint64_t seed);

}  // namespace es::test

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::OpenPeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::ClosePeer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::CutLink)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::HealLink)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimGatewayState::Delivery)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimGatewayState::Reconnect)
