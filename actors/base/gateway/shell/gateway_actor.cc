#include "actors/base/gateway/shell/gateway_actor.h"

#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include <filesystem>
#include <memory>
#include <utility>

#include "actors/base/gateway/core/message_kill_point.h"

namespace es::actors {
namespace {

// The interval at which the directory of authorized keys is read again.
constexpr std::chrono::seconds kReadKeysEvery{1};

struct GatewayState {
  static constexpr const char* name = "gateway";
  std::shared_ptr<Transport> transport;
  access::AuthorizedKeys authorized;
  std::string keys_error;  // the last error that was logged
  KeysChanged keys_changed;
  ~GatewayState() {
    if (transport) transport->stop();
  }
};

using Log = std::function<void(const std::string&)>;

// If the keys cannot be read, the previous ones stay in force, because a file that is just being
// written must not lock out all peers.
void follow_keys(GatewayState& state, const std::string& directory, const Log& log) {
  std::error_code unknown;
  Result<access::AuthorizedKeys> keys =
      std::filesystem::is_directory(directory, unknown)
          ? read_authorized(directory)
          : Result<access::AuthorizedKeys>(failure(directory + ": there is no such directory"));
  const std::string error = keys ? std::string() : keys.error().message;
  // The same error is logged once, not every second.
  if (std::exchange(state.keys_error, error) != error && !error.empty())
    log("the set of authorized keys is not changed: " + error);
  if (!keys || *keys == state.authorized) return;
  const access::AuthorizedKeys before = std::exchange(state.authorized, *keys);
  if (state.keys_changed) state.keys_changed(before, *keys);
  state.transport->authorize(*std::move(keys));
}

TransportEvents events_to(const caf::actor& sink, const Log& log) {
  return {.on_frame =
              [sink](const PeerId& from, std::shared_ptr<const Frame> frame,
                     const std::shared_ptr<const access::Sender>& sender) {
                message_kill_point("got", frame->envelope.type);
                caf::anon_send(sink,
                               Inbound{.from = from, .frame = std::move(frame), .sender = sender});
              },
          .on_peer_up = [sink](const PeerId& peer) { caf::anon_send(sink, PeerUp{peer}); },
          .on_peer_down = [sink](const PeerId& peer) { caf::anon_send(sink, PeerDown{peer}); },
          .log = log};
}

caf::behavior gateway_behavior(caf::stateful_actor<GatewayState>* self,
                               const std::shared_ptr<Transport>& transport, const caf::actor& sink,
                               const Log& log, const access::AuthorizedKeys& authorized,
                               const std::string& authorized_dir, const KeysChanged& keys_changed) {
  self->state.keys_changed = keys_changed;
  self->state.transport = transport;
  self->state.authorized = authorized;
  if (!authorized_dir.empty()) self->delayed_send(self, kReadKeysEvery, caf::tick_atom_v);
  self->monitor(sink);
  self->set_down_handler([self](const caf::down_msg& down) { self->quit(down.reason); });
  return {
      [self](Outbound& message) {
        const MessageType type = message.frame->envelope.type;
        message_kill_point("send", type);
        // A test has asked for the end of this process at an earlier message, so it must not send
        // any other one.
        if (kill_point_passed()) return;
        self->state.transport->send(message.to, std::move(message.frame));
        message_kill_point_after("sent", type);
      },
      [self, sink, log](const ConnectPeer& message) {
        const Status status = self->state.transport->connect(message.peer, message.endpoint);
        if (status.ok()) return;
        log("cannot connect: " + message.peer + ": " + status.error().message);
        // The sink learns of it in the same way as of a peer that cannot be reached.
        self->send(sink, PeerDown{message.peer});
      },
      [self](const DisconnectPeer& message) { self->state.transport->disconnect(message.peer); },
      [self, log, authorized_dir](caf::tick_atom) {
        follow_keys(self->state, authorized_dir, log);
        self->delayed_send(self, kReadKeysEvery, caf::tick_atom_v);
      },
      [self](const GetTransportStats&) { return self->state.transport->stats(); }};
}

}  // namespace

Gateway::Gateway(caf::actor a, std::shared_ptr<Transport> transport,
                 std::chrono::milliseconds shutdown_flush)
    : actor(std::move(a)),
      endpoint(transport->endpoint()),
      transport_(std::move(transport)),
      shutdown_flush_(shutdown_flush) {}

std::function<TransportStats()> Gateway::counters() const {
  return [transport = transport_] { return transport->stats(); };
}

Gateway::~Gateway() {
  if (!transport_) return;  // it was moved from
  // Messages of one sender stay in order, so the answer proves that the actor has passed on all
  // frames that were sent to it before. An actor that has ended answers with an error. Another one
  // may have to wait for a free thread of CAF.
  caf::scoped_actor here(actor.home_system());
  here->request(actor, shutdown_flush_, GetTransportStats{})
      .receive([](const TransportStats&) {}, [](const caf::error&) {});
  transport_->stop();
}

Result<Gateway> start_gateway(caf::actor_system& system, TransportOptions options, caf::actor sink,
                              std::function<void(const std::string&)> log,
                              KeysChanged keys_changed) {
  const bool checks_keys = options.keys && options.endpoint.starts_with("tcp:");
  const std::string authorized_dir = checks_keys ? options.authorized_dir : std::string();
  const access::AuthorizedKeys authorized =
      checks_keys ? options.keys->authorized : decltype(authorized)();
  const std::chrono::milliseconds shutdown_flush = options.shutdown_flush;
  Result<std::unique_ptr<Transport>> started =
      Transport::start(std::move(options), events_to(sink, log));
  if (!started) return started.error();
  const std::shared_ptr<Transport> transport = *std::move(started);
  return Gateway(system.spawn(gateway_behavior, transport, sink, log, authorized, authorized_dir,
                              std::move(keys_changed)),
                 transport, shutdown_flush);
}

}  // namespace es::actors
