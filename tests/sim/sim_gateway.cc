#include "tests/sim/sim_gateway.h"

#include <caf/all.hpp>

#include <algorithm>

namespace es::test {

using namespace actors;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {
const PeerId kHead = "head";
}

void SimGatewayState::init(caf::stateful_actor<SimGatewayState>* self, std::uint64_t seed) {
  self_ = self;
  random_.seed(seed);
}

Instant SimGatewayState::random_delay(Instant least, Instant most) {
  return least + Instant(random_() % static_cast<std::uint64_t>((most - least).count() + 1));
}

PeerId SimGatewayState::sender() const {
  const auto at = ids_.find(self_->current_sender()->id());
  return at == ids_.end() ? kHead : at->second;
}

SimGatewayState::Link& SimGatewayState::link(const PeerId& a, const PeerId& b) {
  return links_[std::minmax(a, b)];
}

void SimGatewayState::open(const OpenPeer& peer) {
  peers_[peer.peer] = peer.sink;
  ids_[peer.sink->id()] = peer.peer;
  // Whoever wants a link to this peer is trying all the time.
  for (const auto& [pair, link] : links_)
    if (!link.wanted_by.empty() && (pair.first == peer.peer || pair.second == peer.peer))
      self_->delayed_send(self_, random_delay(milliseconds(10), milliseconds(300)),
                          Reconnect{pair.first, pair.second});
}

void SimGatewayState::close(const ClosePeer& peer) {
  const auto at = peers_.find(peer.peer);
  if (at == peers_.end()) return;
  ids_.erase(at->second->id());
  peers_.erase(at);
  for (auto& [pair, link] : links_) {
    if (pair.first != peer.peer && pair.second != peer.peer) continue;
    const PeerId other = pair.first == peer.peer ? pair.second : pair.first;
    link.wanted_by.erase(peer.peer);
    ++channels_[{other, peer.peer}].life;
    if (!std::exchange(link.up, false)) continue;
    post(peer.peer, other, PeerDown{peer.peer}, peer.noticed_after);
    link.noticed_at = channels_[{peer.peer, other}].last_due;
  }
}

void SimGatewayState::connect(const ConnectPeer& request) {
  const PeerId from = sender();
  link(from, request.peer).wanted_by.insert(from);
  try_link(from, request.peer);
}

void SimGatewayState::reconnect(const Reconnect& pair) {
  try_link(pair.a, pair.b);
}

void SimGatewayState::try_link(const PeerId& a, const PeerId& b) {
  Link& l = link(a, b);
  if (l.up || l.cut || l.wanted_by.empty() || !peers_.contains(a) || !peers_.contains(b)) return;
  const Instant now = self_->clock().now().time_since_epoch();
  if (now < l.noticed_at) {
    self_->delayed_send(self_, l.noticed_at - now + milliseconds(1), Reconnect{a, b});
    return;
  }
  l.up = l.was_up = true;
  post(a, b, PeerUp{a});
  post(b, a, PeerUp{b});
  for (const Outbound& early : std::exchange(l.early, {}))
    post(l.early_from, early.to, Inbound{l.early_from, early.frame});
}

void SimGatewayState::send(const Outbound& outbound) {
  const PeerId from = sender();
  Link& l = link(from, outbound.to);
  if (l.up) {
    post(from, outbound.to, Inbound{from, outbound.frame});
  } else if (l.wanted_by.contains(from) && !l.was_up) {
    l.early.push_back(outbound);
    l.early_from = from;
  } else {
    post(outbound.to, from, PeerDown{outbound.to});
  }
}

void SimGatewayState::cut(const CutLink& cut) {
  Link& l = link(cut.a, cut.b);
  l.cut = true;
  if (!std::exchange(l.up, false)) return;
  ++channels_[{cut.a, cut.b}].life;
  ++channels_[{cut.b, cut.a}].life;
  post(cut.a, cut.b, PeerDown{cut.a}, kSilence);
  post(cut.b, cut.a, PeerDown{cut.b}, kSilence);
  l.noticed_at = std::max(channels_[{cut.a, cut.b}].last_due, channels_[{cut.b, cut.a}].last_due);
}

void SimGatewayState::heal(const HealLink& heal) {
  link(heal.a, heal.b).cut = false;
  self_->delayed_send(self_, random_delay(milliseconds(10), milliseconds(300)),
                      Reconnect{heal.a, heal.b});
}

void SimGatewayState::post(const PeerId& from, const PeerId& to, Event event, Instant extra) {
  Channel& channel = channels_[{from, to}];
  const Instant now = self_->clock().now().time_since_epoch();
  const Instant due = now + extra + random_delay(microseconds(100), milliseconds(2));
  channel.last_due = std::max(channel.last_due, due);
  self_->delayed_send(self_, channel.last_due - now,
                      Delivery{from, to, channel.life, std::move(event)});
}

void SimGatewayState::deliver(const Delivery& delivery) {
  const auto to = peers_.find(delivery.to);
  if (to == peers_.end() || channels_[{delivery.from, delivery.to}].life != delivery.life) return;
  std::visit([&](const auto& event) { caf::anon_send(to->second, event); }, delivery.event);
}

caf::behavior sim_gateway_actor(caf::stateful_actor<SimGatewayState>* self, std::uint64_t seed) {
  self->state.init(self, seed);
  return {
      [=](const OpenPeer& m) { self->state.open(m); },
      [=](const ClosePeer& m) { self->state.close(m); },
      [=](const ConnectPeer& m) { self->state.connect(m); },
      [=](const Outbound& m) { self->state.send(m); },
      [=](const CutLink& m) { self->state.cut(m); },
      [=](const HealLink& m) { self->state.heal(m); },
      [=](const SimGatewayState::Delivery& m) { self->state.deliver(m); },
      [=](const SimGatewayState::Reconnect& m) { self->state.reconnect(m); },
  };
}

}  // namespace es::test
