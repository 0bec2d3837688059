#include "tests/sim/sim_gateway.h"

#include <caf/all.hpp>

#include <algorithm>

namespace es::test {

using namespace actors;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {}

void SimGatewayState::init(caf::stateful_actor<SimGatewayState>* self, std::uint64_t seed,
                           OnCaught on_caught) {
  self_ = self;
  on_caught_ = std::move(on_caught);
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
  sites_[peer.peer] = peer.site;
  caught_.erase(peer.peer);  // A head that was started again.
  // Every process that wants a link to this peer tries all the time.
  for (const auto& [pair, link] : links_)
    if (!link.wanted_by.empty() && (pair.first == peer.peer || pair.second == peer.peer))
      reconnect_later(pair);
}

void SimGatewayState::reconnect_later(const Pair& pair) {
  self_->delayed_send(self_, random_delay(milliseconds(10), milliseconds(300)),
                      Reconnect{pair.first, pair.second});
}

void SimGatewayState::close(const ClosePeer& peer) {
  const auto at = peers_.find(peer.peer);
  if (at == peers_.end()) return;
  ids_.erase(at->second->id());
  peers_.erase(at);
  frozen_.erase(peer.peer);
  for (auto& [pair, link] : links_) {
    if (pair.first != peer.peer && pair.second != peer.peer) continue;
    const PeerId other = pair.first == peer.peer ? pair.second : pair.first;
    link.wanted_by.erase(peer.peer);
    ++channels_[{other, peer.peer}].life;
    link.held.clear();
    ++link.epoch;
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
  if (l.up || l.wanted_by.empty() || !peers_.contains(a) || !peers_.contains(b)) return;
  if (blocked(a, b) || blocked(b, a)) return;
  const Instant now = self_->clock().now().time_since_epoch();
  if (now < l.noticed_at) {
    self_->delayed_send(self_, l.noticed_at - now + milliseconds(1), Reconnect{a, b});
    return;
  }
  l.up = l.was_up = true;
  l.silent = false;
  ++l.epoch;
  post(a, b, PeerUp{a});
  post(b, a, PeerUp{b});
  for (const Outbound& early : std::exchange(l.early, {}))
    post(l.early_from, early.to, Inbound{l.early_from, early.frame});
}

void SimGatewayState::send(const Outbound& outbound) {
  const PeerId from = sender();
  if (caught_.contains(from)) return;
  const bool caught = springs(outbound.frame->envelope.type, false);
  Link& l = link(from, outbound.to);
  const bool workers = from.starts_with("worker") && outbound.to.starts_with("worker");
  if (workers && l.up && lose_ > 0) {
    --lose_;
  } else if (l.up && blocked(from, outbound.to)) {
    l.held.emplace_back(from, outbound);
  } else if (l.up) {
    post(from, outbound.to, Inbound{from, outbound.frame});
  } else if (l.wanted_by.contains(from) && !l.was_up) {
    l.early.push_back(outbound);
    l.early_from = from;
  } else {
    post(outbound.to, from, PeerDown{outbound.to});
  }
  if (caught) spring(from);
}

// --- faults

void SimGatewayState::freeze(const FreezePeer& peer) {
  if (peers_.contains(peer.peer)) frozen_.insert(peer.peer);
  review();
}

void SimGatewayState::wake(const WakePeer& peer) {
  frozen_.erase(peer.peer);
  review();
}

void SimGatewayState::block(const BlockLink& block) {
  const auto set = [this](const PeerId& from, const PeerId& to, bool on) {
    on ? (void)blocked_.emplace(from, to) : (void)blocked_.erase({from, to});
  };
  set(block.a, block.b, block.a_to_b);
  set(block.b, block.a, block.b_to_a);
  review();
}

void SimGatewayState::block(const BlockSite& block) {
  block.out ? (void)blocked_out_.insert(block.site) : (void)blocked_out_.erase(block.site);
  block.in ? (void)blocked_in_.insert(block.site) : (void)blocked_in_.erase(block.site);
  review();
}

void SimGatewayState::isolate(const IsolateSite& isolate) {
  isolate.on ? (void)isolated_.insert(isolate.site) : (void)isolated_.erase(isolate.site);
  review();
}

bool SimGatewayState::blocked(const PeerId& from, const PeerId& to) const {
  if (frozen_.contains(from) || frozen_.contains(to) || blocked_.contains({from, to})) return true;
  const auto a = sites_.find(from), b = sites_.find(to);
  if (a == sites_.end() || b == sites_.end() || a->second == b->second) return false;
  const bool of_workers = from.starts_with("worker/") && to.starts_with("worker/");
  if (of_workers && (isolated_.contains(a->second) || isolated_.contains(b->second))) return true;
  return blocked_out_.contains(a->second) || blocked_in_.contains(b->second);
}

void SimGatewayState::review() {
  for (auto& [pair, l] : links_) {
    const auto& [a, b] = pair;
    const bool silent = blocked(a, b) || blocked(b, a);
    if (!l.up) {
      if (!silent && !l.wanted_by.empty()) reconnect_later(pair);
    } else if (silent != std::exchange(l.silent, silent)) {
      ++l.epoch;
      if (silent) self_->delayed_send(self_, kSilence, Silence{a, b, l.epoch});
      if (silent) continue;
      for (const auto& [from, outbound] : std::exchange(l.held, {}))
        post(from, outbound.to, Inbound{from, outbound.frame});
    }
  }
}

void SimGatewayState::on_silence(const Silence& silence) {
  Link& l = link(silence.a, silence.b);
  if (l.up && l.silent && l.epoch == silence.epoch) take_down({silence.a, silence.b}, l);
}

void SimGatewayState::take_down(const Pair& pair, Link& l) {
  const auto& [a, b] = pair;
  l.up = l.silent = false;
  ++l.epoch;
  l.held.clear();
  ++channels_[{a, b}].life;
  ++channels_[{b, a}].life;
  post(a, b, PeerDown{a});
  post(b, a, PeerDown{b});
  l.noticed_at = std::max(channels_[{a, b}].last_due, channels_[{b, a}].last_due);
}

void SimGatewayState::reset(const ResetLink& reset) {
  const Pair pair = std::minmax(reset.a, reset.b);
  Link& l = links_[pair];
  if (!l.up) return;
  take_down(pair, l);
  reconnect_later(pair);
}

void SimGatewayState::slow(const SlowLink& slow) {
  extra_[{slow.a, slow.b}] = extra_[{slow.b, slow.a}] = slow.extra;
}

void SimGatewayState::lose(const LoseFrames& lose) {
  lose_ += lose.count;
}

bool SimGatewayState::springs(MessageType type, bool at_receiver) {
  return trap_.type == type && trap_.at_receiver == at_receiver && --trap_.nth == 0;
}

void SimGatewayState::spring(const PeerId& caught) {
  const bool freezes = std::exchange(trap_, {}).freeze && caught != kHead;
  freezes ? freeze({caught}) : (void)caught_.insert(caught);
  on_caught_(caught, freezes);
}

void SimGatewayState::silence_head() {
  if (!peers_.contains(kHead)) return;
  caught_.insert(kHead);
  on_caught_(kHead, false);
}

// --- the wire

void SimGatewayState::post(const PeerId& from, const PeerId& to, Event event, Instant extra) {
  Channel& channel = channels_[{from, to}];
  const Instant now = self_->clock().now().time_since_epoch();
  const auto slow = extra_.find({from, to});
  if (slow != extra_.end()) extra += slow->second;
  const Instant due = now + extra + random_delay(microseconds(100), milliseconds(2));
  channel.last_due = std::max(channel.last_due, due);
  self_->delayed_send(self_, channel.last_due - now,
                      Delivery{from, to, channel.life, std::move(event)});
}

void SimGatewayState::deliver(const Delivery& delivery) {
  const auto to = peers_.find(delivery.to);
  if (to == peers_.end() || channels_[{delivery.from, delivery.to}].life != delivery.life) return;
  if (const auto* inbound = std::get_if<Inbound>(&delivery.event))
    if (springs(inbound->frame->envelope.type, true)) {
      spring(delivery.to);
      if (caught_.contains(delivery.to)) return;
    }
  std::visit([&](const auto& event) { caf::anon_send(to->second, event); }, delivery.event);
}

caf::behavior sim_gateway_actor(caf::stateful_actor<SimGatewayState>* self, std::uint64_t seed,
                                SimGatewayState::OnCaught on_caught) {
  self->state.init(self, seed, std::move(on_caught));
  return {
      [=](const OpenPeer& m) { self->state.open(m); },
      [=](const ClosePeer& m) { self->state.close(m); },
      [=](const ConnectPeer& m) { self->state.connect(m); },
      [=](const Outbound& m) { self->state.send(m); },
      [=](const FreezePeer& m) { self->state.freeze(m); },
      [=](const WakePeer& m) { self->state.wake(m); },
      [=](const BlockLink& m) { self->state.block(m); },
      [=](const BlockSite& m) { self->state.block(m); },
      [=](const IsolateSite& m) { self->state.isolate(m); },
      [=](const ResetLink& m) { self->state.reset(m); },
      [=](const SlowLink& m) { self->state.slow(m); },
      [=](const LoseFrames& m) { self->state.lose(m); },
      [=](const SetTrap& m) { self->state.trap(m); },
      [=](const SilenceHead&) { self->state.silence_head(); },
      [=](const SimGatewayState::Delivery& m) { self->state.deliver(m); },
      [=](const SimGatewayState::Reconnect& m) { self->state.reconnect(m); },
      [=](const SimGatewayState::Silence& m) { self->state.on_silence(m); },
  };
}

}  // namespace es::test
