#include "actors/gateway/gateway_actor.h"

#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include <memory>
#include <utility>

#include "actors/gateway/message_kill_point.h"

namespace es::actors {
namespace {

// How long a gateway's end waits for its actor, which may wait for a thread behind others.
constexpr std::chrono::milliseconds kHandOverMax{500};

struct GatewayState {
  static constexpr const char* name = "gateway";
  std::shared_ptr<Transport> transport;
  ~GatewayState() {
    if (transport) transport->stop();
  }
};

using Log = std::function<void(const std::string&)>;

TransportEvents events_to(const caf::actor& sink, const Log& log) {
  return {.on_frame =
              [sink](const PeerId& from, std::shared_ptr<const Frame> frame) {
                message_kill_point("got", frame->head.type);
                caf::anon_send(sink, Inbound{.from = from, .frame = std::move(frame)});
              },
          .on_peer_up = [sink](const PeerId& peer) { caf::anon_send(sink, PeerUp{peer}); },
          .on_peer_down = [sink](const PeerId& peer) { caf::anon_send(sink, PeerDown{peer}); },
          .log = log};
}

caf::behavior gateway_behavior(caf::stateful_actor<GatewayState>* self,
                               const std::shared_ptr<Transport>& transport, const caf::actor& sink,
                               const Log& log) {
  self->state.transport = transport;
  self->monitor(sink);
  self->set_down_handler([self](const caf::down_msg& down) { self->quit(down.reason); });
  return {
      [self](Outbound& message) {
        const MessageType type = message.frame->head.type;
        message_kill_point("send", type);
        if (kill_point_passed()) return;
        self->state.transport->send(message.to, std::move(message.frame));
        message_kill_point_after("sent", type);
      },
      [self, sink, log](const ConnectPeer& message) {
        const Status status = self->state.transport->connect(message.peer, message.endpoint);
        if (status.ok()) return;
        log("cannot connect: " + message.peer + ": " + status.error().message);
        self->send(sink, PeerDown{message.peer});
      },
      [self](const DisconnectPeer& message) { self->state.transport->disconnect(message.peer); },
      [self](AuthorizeKeys& message) {
        self->state.transport->authorize(std::move(message.public_keys));
      },
      [self](const GetTransportStats&) { return self->state.transport->stats(); }};
}

}  // namespace

Gateway::Gateway(caf::actor a, std::shared_ptr<Transport> transport)
    : actor(std::move(a)), endpoint(transport->endpoint()), transport_(std::move(transport)) {}

Gateway::~Gateway() {
  if (!transport_) return;  // moved from
  // Once it answers, it has passed on what it was sent before. One that has ended has nothing.
  caf::scoped_actor here(actor.home_system());
  here->request(actor, kHandOverMax, GetTransportStats{})
      .receive([](const TransportStats&) {}, [](const caf::error&) {});
  transport_->stop();
}

Result<Gateway> start_gateway(caf::actor_system& system, TransportOptions options, caf::actor sink,
                              std::function<void(const std::string&)> log) {
  Result<std::unique_ptr<Transport>> started =
      Transport::start(std::move(options), events_to(sink, log));
  if (!started) return started.error();
  const std::shared_ptr<Transport> transport = *std::move(started);
  return Gateway(system.spawn(gateway_behavior, transport, sink, log), transport);
}

}  // namespace es::actors
