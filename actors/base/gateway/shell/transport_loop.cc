#include "actors/base/gateway/shell/transport_loop.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace es::actors {
namespace {

// The number of messages that are read from one socket before the other sockets are read.
constexpr int kReadBatch = 256;

template <class Duration>
long to_poll_ms(Duration time) {
  return std::max<long>(0, std::chrono::ceil<std::chrono::milliseconds>(time).count());
}

}  // namespace

TransportLoop::TransportLoop(zmq::context_t& context, const TransportOptions& options,
                             const TransportEvents& events, TransportCounters& counters)
    : context_(context),
      options_(options),
      events_(events),
      settings_{.dead_after = options.dead_after, .handshake_timeout = options.handshake_timeout},
      beat_(encode_control({.kind = ControlKind::kBeat, .from = options.self})),
      bye_(encode_control({.kind = ControlKind::kBye, .from = options.self})),
      counters_(counters),
      log_(events.log),
      now_(Clock::now()),
      next_tick_(now_) {}

Result<std::string> TransportLoop::listen(const Endpoint& endpoint) {
  const CurveKeys* server_keys = nullptr;
  if (endpoint.kind == Endpoint::Kind::kTcp && options_.keys) {
    server_keys = &*options_.keys->server;
    // The handler is bound before the listener. Otherwise ZeroMQ could accept the first connections
    // without asking for their keys.
    Result<std::unique_ptr<ZapHandler>> zap = ZapHandler::bind(context_, options_.keys->authorized);
    if (!zap) return zap.error();
    zap_ = *std::move(zap);
  }
  Result<std::unique_ptr<WireSocket>> listener =
      WireSocket::listen(context_, settings_, endpoint, server_keys);
  if (!listener) return listener.error();
  listener_ = *std::move(listener);
  return listener_->bound_endpoint();
}

void TransportLoop::run(Outbox& outbox) {
  next_tick_ = Clock::now() + tick_interval();
  do {
    wait(outbox.fd());
    now_ = Clock::now();
    read_sockets();
    if (now_ >= next_tick_) tick();
    // Sockets are read before commands are taken, so a loss that has already arrived is reported
    // before more is sent to that peer.
  } while (take_commands(outbox));
  say_goodbye();
}

// ---- commands

bool TransportLoop::take_commands(Outbox& outbox) {
  for (TransportCommand& command : outbox.take_all()) {
    if (std::holds_alternative<StopCommand>(command)) return false;
    std::visit(
        [this](auto& c) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(c)>, StopCommand>)
            handle(std::move(c));
        },
        command);
  }
  return true;
}

void TransportLoop::handle(SendCommand command) {
  if (command.frame->body_bytes() > kBodyBytesMax)
    return refuse(counters_.refused_oversize, "refused to send an oversized body",
                  std::to_string(command.frame->body_bytes()) + " bytes to " + command.to);
  const auto found = peers_.find(command.to);
  if (found == peers_.end() || found->second.state == Peer::State::kDown) {
    drop(1);
    // Every frame to a peer that is down causes a PeerDown, so the sender learns that this frame
    // was dropped.
    events_.on_peer_down(command.to);
  } else if (found->second.state == Peer::State::kConnecting) {
    found->second.pending.push_back(std::move(command.frame));
  } else {
    transmit(found->second, std::move(command.frame));
  }
}

void TransportLoop::handle(ConnectCommand command) {
  Peer& peer = peers_[command.peer];
  // Callers may repeat the command; a link to the same address continues.
  if (peer.out && peer.out->endpoint == command.endpoint) return;
  if (peer.out) {
    const bool was_established = peer.out->established;
    close_link(peer);
    if (was_established) link_lost(command.peer, peer);
  }
  peer.out = std::make_unique<OutLink>();
  peer.out->endpoint = std::move(command.endpoint);
  peer.out->backoff = kBackoffMin;
  // While it connects, frames to the peer are kept instead of dropped. A peer that is up through
  // its own connection stays up.
  if (peer.state == Peer::State::kDown) peer.state = Peer::State::kConnecting;
  peer.connecting_since = now_;
  open_link(command.peer, *peer.out);
}

void TransportLoop::handle(DisconnectCommand command) {
  const auto found = peers_.find(command.peer);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  drop(peer.pending.size());
  if (peer.out) close_link(peer);
  if (!peer.in.empty()) {
    condemn(peer.in, in_links_.at(peer.in));
    owners_.release(command.peer);
  }
  peers_.erase(found);
}

void TransportLoop::handle(AuthorizeCommand command) {
  if (!zap_) return;
  zap_->authorize(std::move(command.keys));
  for (auto& [connection, link] : in_links_) {
    // ZeroMQ checks keys only when a connection begins. Connections whose key was removed have to
    // be ended here.
    if (link.condemned) continue;
    if (zap_->accepts(link.user)) {
      // The file of the key may give it another role now.
      link.sender = sender_of(link.user, link.sender->address);
      if (may_be(link.peer, *link.sender)) continue;
    }
    log_.line(now_, "key revoked", link.peer + " is disconnected");
    condemn(connection, link);
    lose_connection(connection, link);
  }
  owners_.forget_past([this](const std::string& key) { return !zap_->accepts(key); });
}

// ---- sockets

void TransportLoop::wait(int outbox_fd) {
  std::vector<zmq_pollitem_t> items{{nullptr, outbox_fd, ZMQ_POLLIN, 0}};
  const auto watch = [&items](void* handle) { items.push_back({handle, 0, ZMQ_POLLIN, 0}); };
  if (zap_) watch(zap_->handle());
  if (listener_) {
    watch(listener_->handle());
    watch(listener_->event_handle());
  }
  for (const auto& [id, peer] : peers_) {
    if (!peer.out || !peer.out->socket) continue;
    watch(peer.out->socket->handle());
    watch(peer.out->socket->event_handle());
  }
  // An error (for example, a signal) only means that no socket is ready.
  (void)zmq_poll(items.data(), static_cast<int>(items.size()),
                 to_poll_ms(next_tick_ - Clock::now()));
}

void TransportLoop::read_sockets() {
  // What is called from here changes peers and links, but only tick() and commands remove entries
  // of peers_. The loops over peers_ rely on this.
  if (zap_) read_zap();
  if (listener_) read_listener();
  for (auto& [id, peer] : peers_)
    if (peer.out && peer.out->socket) read_link(id, peer);
  read_events();
}

void TransportLoop::read_zap() {
  while (const std::optional<ZapHandler::Decision> decision = zap_->answer()) {
    if (decision->accepted) continue;
    refuse(counters_.refused_key, "refused a connection, key not authorized",
           decision->public_key.empty() ? "no key" : decision->public_key);
  }
}

void TransportLoop::read_listener() {
  // The rest is read in the next turn: zmq_poll returns at once while messages wait. A busy peer
  // thus cannot keep others from being heard.
  for (int i = 0; i < kReadBatch; ++i) {
    std::optional<WireMessage> message = listener_->receive();
    if (!message) return;
    on_listener_message(*message);
  }
}

void TransportLoop::read_link(const PeerId& id, Peer& peer) {
  for (int i = 0; i < kReadBatch && peer.out->socket; ++i) {
    std::optional<WireMessage> message = peer.out->socket->receive();
    if (!message) return;
    on_link_message(id, peer, *message);
  }
}

void TransportLoop::read_events() {
  while (listener_ && listener_->next_event() == SocketEvent::kHandshakeFailed)
    refuse(counters_.refused_handshake, "refused a connection, handshake failed",
           "the peer has no keys or wrong ones, or is not an EasyScale process");
  for (auto& [id, peer] : peers_) {
    if (!peer.out || !peer.out->socket) continue;
    const std::optional<SocketEvent> event = peer.out->socket->next_event();
    if (!event || is_news_only(id, *event)) continue;
    // The peer may have sent messages before it closed the connection. Deliver them before the loss
    // is reported, so that the sink gets everything that has arrived.
    while (std::optional<WireMessage> last = peer.out->socket->receive()) {
      on_link_message(id, peer, *last);
      if (!peer.out->socket) break;
    }
    if (!peer.out->socket) continue;  // a goodbye among them has closed it
    if (event == SocketEvent::kKeyRefused) {
      log_.line(now_, "the key of this process was refused",
                "by " + id + " at " + peer.out->endpoint.text);
      // A refused key does not become valid within milliseconds, so the next attempt waits for the
      // longest time.
      peer.out->backoff = kBackoffMax;
    } else if (event == SocketEvent::kHandshakeFailed) {
      log_.line(now_, "handshake failed", "with " + id + " at " + peer.out->endpoint.text);
    }
    fail_link(id, peer);
    // More waiting would not help, so the sink learns of it before the time limit.
    if (event == SocketEvent::kKeyRefused && peer.state == Peer::State::kConnecting)
      link_lost(id, peer);
  }
}

// Returns true if the event is only reported and the link continues to try.
bool TransportLoop::is_news_only(const PeerId& id, SocketEvent event) {
  using Kind = LinkNews::Kind;
  switch (event) {
    case SocketEvent::kConnectFailed:
      return tell(id, {Kind::kConnectFailed}), true;
    case SocketEvent::kConnected:
      return tell(id, {Kind::kConnected}), true;
    case SocketEvent::kHandshakeFailed:
      return tell(id, {Kind::kHandshakeFailed}), false;
    case SocketEvent::kKeyRefused:
      return tell(id, {Kind::kKeyRefused}), false;
    case SocketEvent::kDisconnected:
      return false;
  }
  return false;
}

void TransportLoop::tell(const PeerId& id, LinkNews news) {
  if (events_.on_link_news) events_.on_link_news(id, news);
}

// ---- messages

void TransportLoop::on_link_message(const PeerId& id, Peer& peer, WireMessage& message) {
  OutLink& link = *peer.out;
  // A message of one part is a control frame, and one of two parts is an envelope with its body.
  if (message.parts.size() != 1) {
    if (!link.established)
      return refuse(counters_.refused_stranger, "refused a message before a beat", "from " + id);
    link.heard = now_;
    return deliver(id, message, nullptr);
  }
  const std::optional<ControlFrame> control =
      decode_control(message.parts[0].data(), message.parts[0].size());
  if (!control && is_of_other_version(id, message)) {
    tell(id, {LinkNews::Kind::kOtherVersion,
              *foreign_protocol(message.parts[0].data(), message.parts[0].size())});
    return fail_link(id, peer);
  }
  if (!control)
    return refuse(counters_.refused_malformed, "refused a malformed message", "from " + id);
  // Another process may listen at an address that was given away again. Nothing that it sends must
  // count as sent by the peer.
  if (control->from != id) {
    refuse(counters_.refused_identity, "refused a peer under another name",
           control->from + " answers at " + link.endpoint.text + " of " + id);
    return fail_link(id, peer);
  }
  if (control->kind == ControlKind::kBye) {
    if (!link.established) {
      log_.line(now_, "a peer refused this process: its name is taken or its key is not authorized",
                id);
      tell(id, {LinkNews::Kind::kTurnedAway});
    }
    return fail_link(id, peer);
  }
  link.heard = now_;
  // The first beat establishes the link.
  if (link.established) return;
  link.established = true;
  link.backoff = kBackoffMin;
  peer_up(id, peer, Peer::Route::kOut);
}

bool TransportLoop::is_of_other_version(const std::string& who, const WireMessage& message) {
  const auto protocol = foreign_protocol(message.parts[0].data(), message.parts[0].size());
  if (!protocol) return false;
  refuse(counters_.refused_malformed, "refused a peer of another version",
         who + " speaks protocol " + std::to_string(*protocol) + ", this program " +
             std::to_string(kProtocolVersion));
  return true;
}

void TransportLoop::on_listener_message(WireMessage& message) {
  if (message.parts.size() == 1) return on_incoming_control(message);
  const auto link = in_links_.find(message.connection);
  // Before the first beat the sender has no name, so the message cannot be attributed to a peer.
  if (link == in_links_.end() || link->second.condemned)
    return refuse(counters_.refused_stranger, "refused a message before a beat",
                  "from an incoming connection");
  link->second.heard = now_;
  deliver(link->second.peer, message, link->second.sender);
}

void TransportLoop::on_incoming_control(const WireMessage& message) {
  const std::optional<ControlFrame> control =
      decode_control(message.parts[0].data(), message.parts[0].size());
  // The bye contains the version of this process.
  if (!control && is_of_other_version("an incoming connection", message)) {
    listener_->send_control(message.connection, bye_);
    return;
  }
  if (!control)
    return refuse(counters_.refused_malformed, "refused a malformed message",
                  "from an incoming connection");
  const auto found = in_links_.find(message.connection);
  if (found == in_links_.end()) {
    if (control->kind == ControlKind::kBeat && !admit(message, control->from))
      listener_->send_control(message.connection, bye_);
    return;
  }
  InLink& link = found->second;
  if (link.condemned) {
    if (control->kind == ControlKind::kBeat) listener_->send_control(message.connection, bye_);
    return;
  }
  if (control->from != link.peer)
    return refuse(counters_.refused_identity, "refused a peer under another name",
                  control->from + " on the connection of " + link.peer);
  link.heard = now_;
  if (control->kind == ControlKind::kBeat) return;
  lose_connection(message.connection, link);
  in_links_.erase(found);
}

// Handles the first beat of a connection: the connection gets the id, unless the id is taken.
bool TransportLoop::admit(const WireMessage& message, const PeerId& id) {
  // The key may have been removed from the set after the handshake.
  if (zap_ && !zap_->accepts(message.user)) {
    refuse(counters_.refused_key, "refused a connection, key not authorized", message.user);
    return false;
  }
  const std::shared_ptr<const access::Sender> sender = sender_of(message.user, message.address);
  if (!may_be(id, *sender)) {
    refuse(counters_.refused_identity, "refused a peer under a name that its key may not use",
           id + (sender->owner ? " with the key " + sender->owner->name : std::string()));
    return false;
  }
  const bool is_own = id == options_.self || options_.also_self.contains(id);
  // An id belongs to one connection and to one key. Otherwise a peer could take over the messages
  // of another one by using its name.
  if (is_own || is_taken(id) || !owners_.claim(id, message.user)) {
    refuse(counters_.refused_identity, "refused a peer under a name that is taken",
           id + owner_text(id, *sender));
    return false;
  }
  in_links_[message.connection] = {
      .peer = id, .user = message.user, .sender = sender, .heard = now_, .sent = now_};
  Peer& peer = peers_[id];
  peer.in = message.connection;
  // The answer establishes the link at the other side.
  listener_->send_control(message.connection, beat_);
  peer_up(id, peer, Peer::Route::kIn);
  return true;
}

std::shared_ptr<const access::Sender> TransportLoop::sender_of(const std::string& user,
                                                               const std::string& address) const {
  access::Sender sender{.owner = {}, .address = address};
  if (zap_) sender.owner = zap_->owner(user);
  return std::make_shared<const access::Sender>(std::move(sender));
}

// Names the keys if the name belongs to another key than that of the sender.
std::string TransportLoop::owner_text(const PeerId& id, const access::Sender& sender) const {
  const std::string* key = owners_.owner(id);
  if (key == nullptr || !sender.owner || !zap_->accepts(*key)) return {};
  const std::string& owner = zap_->owner(*key).name;
  if (owner == sender.owner->name) return {};
  return " belongs to the key " + owner + " until it is revoked; the key " + sender.owner->name +
         " asked for it";
}

// The owner of a client's key must not send in the name of a node or a worker, nor the other way
// round.
bool TransportLoop::may_be(const PeerId& id, const access::Sender& sender) const {
  if (is_client(id))
    return options_.serves_clients && (!sender.owner || sender.owner->client.has_value());
  return !sender.owner || sender.owner->node;
}

// Returns whether another connection uses this id. A connection that is already broken is removed
// here, so that a restarted process need not wait until its predecessor is found silent.
bool TransportLoop::is_taken(const PeerId& id) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || found->second.in.empty()) return false;
  // A copy, because lose_connection() clears the text.
  const std::string connection = found->second.in;
  if (listener_->send_control(connection, beat_)) return true;
  lose_connection(connection, in_links_.at(connection));
  in_links_.erase(connection);
  return false;
}

void TransportLoop::deliver(const PeerId& from, const WireMessage& message,
                            const std::shared_ptr<const access::Sender>& sender) {
  if (message.parts.size() != 2 || message.too_many_parts)
    return refuse(counters_.refused_malformed, "refused a malformed message",
                  "from " + from + ": a message has 2 parts");
  const zmq::message_t& envelope = message.parts[0];
  const zmq::message_t& body = message.parts[1];
  // The sizes are checked before anything is decoded.
  if (envelope.size() > kEnvelopeBytesMax || body.size() > kBodyBytesMax)
    return refuse(counters_.refused_oversize, "refused an oversized message",
                  "from " + from + ": envelope " + std::to_string(envelope.size()) +
                      " bytes, body " + std::to_string(body.size()) + " bytes");
  Result<std::shared_ptr<const Frame>> frame =
      decode_frame(envelope.data(), envelope.size(), body.data(), body.size());
  if (!frame)
    return refuse(counters_.refused_malformed, "refused a malformed message",
                  "from " + from + ": " + frame.error().message);
  ++counters_.received;
  counters_.received_bytes += (*frame)->body_bytes();
  events_.on_frame(from, *std::move(frame), sender);
}

}  // namespace es::actors
