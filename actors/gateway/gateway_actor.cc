#include "actors/gateway/gateway_actor.h"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include <memory>
#include <utility>

#include "actors/gateway/message_kill_point.h"

namespace es::actors {
namespace {

struct GatewayState {
  static constexpr const char* name = "gateway";
  std::unique_ptr<Transport> transport;
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
                               const std::shared_ptr<std::unique_ptr<Transport>>& transport,
                               const caf::actor& sink, const Log& log) {
  self->state.transport = std::move(*transport);
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

Result<Gateway> start_gateway(caf::actor_system& system, TransportOptions options, caf::actor sink,
                              std::function<void(const std::string&)> log) {
  Result<std::unique_ptr<Transport>> started =
      Transport::start(std::move(options), events_to(sink, log));
  if (!started) return started.error();
  const std::string endpoint = (*started)->endpoint();
  // In a shared pointer because CAF copies the arguments of an actor.
  auto transport = std::make_shared<std::unique_ptr<Transport>>(*std::move(started));
  caf::actor actor = system.spawn(gateway_behavior, transport, sink, log);
  return Gateway{.actor = std::move(actor), .endpoint = endpoint};
}

}  // namespace es::actors
