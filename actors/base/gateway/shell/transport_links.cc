// The second half of TransportLoop: links, peers and time limits.
#include "actors/base/gateway/shell/transport_loop.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace es::actors {

// ---- links

void TransportLoop::open_link(const PeerId& id, OutLink& link) {
  const bool secure = link.endpoint.kind == Endpoint::Kind::kTcp && options_.keys.has_value();
  Result<std::unique_ptr<WireSocket>> socket =
      WireSocket::dial(context_, settings_, link.endpoint, secure ? &*options_.keys : nullptr);
  // The time limit of the beat begins now. Until the first beat of the peer arrives, the link
  // counts as not established.
  link.heard = link.sent = now_;
  link.established = false;
  if (!socket) {
    log_.line(now_, "cannot connect", id + ": " + socket.error().message);
    // What makes dial() fail, such as an address that cannot be used, hardly changes within
    // milliseconds.
    link.retry_at = now_ + kBackoffMax;
    return;
  }
  link.socket = *std::move(socket);
  // ZeroMQ keeps the beat until the connection exists, so it is the first message on it.
  link.socket->send_control({}, beat_);
}

// Ends the connection of a link that this process opened. The next attempt uses a new socket, so
// that nothing of the old connection can reach the new one.
void TransportLoop::fail_link(const PeerId& id, Peer& peer) {
  OutLink& link = *peer.out;
  // Only an established link can have carried messages. The loss of another one is no gap and is
  // not reported.
  const bool was_established = std::exchange(link.established, false);
  link.socket.reset();
  link.retry_at = now_ + link.backoff;
  link.backoff = std::min(2 * link.backoff, kBackoffMax);
  if (was_established) link_lost(id, peer);
}

// Closes a link that this process opened, on purpose.
void TransportLoop::close_link(Peer& peer) {
  OutLink& link = *peer.out;
  if (link.established) {
    link.socket->send_control({}, bye_);
    link.socket->flush_at_close(options_.shutdown_flush);
  }
  peer.out.reset();
}

void TransportLoop::condemn(const std::string& connection, InLink& link) {
  link.condemned = true;
  link.sent = now_;
  // The entry stays after the goodbye, so that later messages of this connection are recognised and
  // refused. It ends when ZeroMQ can no longer reach the connection.
  if (!listener_->send_control(connection, bye_)) link.unreachable = true;
}

void TransportLoop::lose_connection(const std::string& connection, const InLink& link) {
  Peer& peer = peers_.at(link.peer);
  ES_CHECK(peer.in == connection);
  peer.in.clear();
  owners_.release(link.peer);
  link_lost(link.peer, peer);
}

// ---- peers

void TransportLoop::peer_up(const PeerId& id, Peer& peer, Peer::Route route) {
  if (peer.state == Peer::State::kUp) return;
  peer.state = Peer::State::kUp;
  peer.route = route;
  events_.on_peer_up(id);
  // PeerUp is reported first. The frames that were sent while the link was being made follow in
  // their order.
  for (std::shared_ptr<const Frame>& frame : std::exchange(peer.pending, {}))
    transmit(peer, std::move(frame));
}

// A PeerDown is reported even if the peer's other connection is alive, because frames on the lost
// one may be missing. The PeerUp that follows makes the gap visible to the sink.
void TransportLoop::link_lost(const PeerId& id, Peer& peer) {
  if (peer.state == Peer::State::kDown) return;
  peer.state = Peer::State::kDown;
  drop(std::exchange(peer.pending, {}).size());
  events_.on_peer_down(id);
  if (peer.out && peer.out->established) {
    peer_up(id, peer, Peer::Route::kOut);
  } else if (!peer.in.empty()) {
    peer_up(id, peer, Peer::Route::kIn);
  }
}

void TransportLoop::transmit(Peer& peer, std::shared_ptr<const Frame> frame) {
  if (peer.route == Peer::Route::kOut) {
    peer.out->sent = now_;
    peer.out->socket->send_frame({}, std::move(frame), counters_, peer.out->queued);
    ++counters_.sent;
    return;
  }
  if (peer.in.empty()) return drop(1);  // it went down while earlier frames were sent
  transmit_in(peer, std::move(frame));
}

void TransportLoop::transmit_in(Peer& peer, std::shared_ptr<const Frame> frame) {
  InLink& link = in_links_.at(peer.in);
  // Workers and nodes read all the time, and the protocol bounds what they are sent. A client can
  // send any number of requests, and may be a program that never reads the answers.
  if (is_client(link.peer) && *link.queued > kClientQueuedBytesMax) {
    refuse(counters_.refused_unread, "disconnected a client that does not read its answers",
           link.peer + ", " + std::to_string(*link.queued) + " bytes wait for it");
    drop(1);
    // A copy, because lose_connection() clears peer.in.
    const std::string connection = peer.in;
    condemn(connection, link);
    return lose_connection(connection, link);
  }
  link.sent = now_;
  if (!link.unreachable &&
      listener_->send_frame(peer.in, std::move(frame), counters_, link.queued)) {
    ++counters_.sent;
  } else {
    // Messages that the peer sent before it left may still wait to be read, so it is reported as
    // down only at the next tick.
    link.unreachable = true;
    drop(1);
  }
}

void TransportLoop::drop(std::size_t frame_count) {
  counters_.dropped_unreachable += frame_count;
}

void TransportLoop::refuse(std::atomic<std::uint64_t>& counter, const char* cause,
                           const std::string& detail) {
  ++counter;
  log_.line(now_, cause, detail);
}

// ---- time

void TransportLoop::tick() {
  forgive_lateness();
  for (auto it = in_links_.begin(); it != in_links_.end();)
    it = keep_connection(it->first, it->second) ? std::next(it) : in_links_.erase(it);
  for (auto& [id, peer] : peers_)
    if (peer.out) tend_link(id, peer);
  // Nothing is left to be done for a peer without a link. If it returns, it gets a new entry.
  std::erase_if(peers_, [](const auto& entry) {
    const Peer& peer = entry.second;
    return !peer.out && peer.in.empty();
  });
  // Two ticks in each interval, so that a beat is at most half an interval late.
  next_tick_ = now_ + tick_interval();
}

// Half of the shortest time between two beats.
std::chrono::milliseconds TransportLoop::tick_interval() const {
  return std::min(options_.heartbeat_interval, kHeartbeatInterval) / 2;
}

// A process that was stopped or got no processor time has not listened. Its peers were not silent
// during that time, so their time limits are extended by it.
void TransportLoop::forgive_lateness() {
  const auto late = now_ - next_tick_;
  if (late < 2 * tick_interval()) return;
  for (auto& [connection, link] : in_links_) link.heard += late;
  for (auto& [id, peer] : peers_) {
    peer.connecting_since += late;
    if (peer.out) peer.out->heard += late;
  }
}

bool TransportLoop::keep_connection(const std::string& connection, InLink& link) {
  if (link.unreachable) {
    if (!link.condemned) lose_connection(connection, link);
    return false;
  }
  const bool client = is_client(link.peer);
  const auto silence_max = client ? std::max(options_.dead_after, kDeadAfter) : options_.dead_after;
  if (!link.condemned && now_ - link.heard > silence_max) {
    condemn(connection, link);
    lose_connection(connection, link);
  }
  // A condemned connection gets the goodbye again at intervals. As soon as the connection has
  // ended, ZeroMQ refuses to send to it, and the entry is removed.
  const auto beat_after = client ? std::min(options_.heartbeat_interval, kHeartbeatInterval)
                                 : options_.heartbeat_interval;
  const auto idle_max = link.condemned ? options_.dead_after : beat_after;
  if (now_ - link.sent >= idle_max) {
    link.sent = now_;
    if (!listener_->send_control(connection, link.condemned ? bye_ : beat_))
      link.unreachable = true;
  }
  return true;
}

void TransportLoop::tend_link(const PeerId& id, Peer& peer) {
  OutLink& link = *peer.out;
  const bool is_silent = now_ - link.heard > options_.dead_after;
  if (link.established && is_silent) {
    fail_link(id, peer);
  } else if (link.established && now_ - link.sent >= options_.heartbeat_interval) {
    link.sent = now_;
    link.socket->send_control({}, beat_);
  } else if (link.socket ? !link.established && is_silent : now_ >= link.retry_at) {
    link.socket.reset();
    open_link(id, link);
  }
  // The sink learns after this time that the peer cannot be reached. The link continues to try, and
  // a PeerUp may follow later.
  if (peer.state == Peer::State::kConnecting && now_ - peer.connecting_since > options_.dead_after)
    link_lost(id, peer);
}

void TransportLoop::say_goodbye() {
  for (auto& [id, peer] : peers_) {
    drop(peer.pending.size());
    if (peer.out) close_link(peer);
  }
  for (const auto& [connection, link] : in_links_)
    if (!link.condemned) listener_->send_control(connection, bye_);
  if (listener_) listener_->flush_at_close(options_.shutdown_flush);
  // Before the handler of keys: without a handler ZeroMQ could accept any key.
  listener_.reset();
  zap_.reset();
}

}  // namespace es::actors
