#include "actors/base/gateway/shell/gateway_actor.h"

#include <doctest/doctest.h>

#include <caf/all.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "proto/messages.h"
#include "tests/actors/base/gateway/shell/station.h"

namespace es::actors {
namespace {

using test::quick_options;
using test::TempDirectory;

constexpr std::chrono::minutes kDeadline{1};

// One process: an actor system with a gateway that delivers to the test itself.
struct Process {
  explicit Process(TransportOptions options) {
    config.set("scheduler.policy", caf::atom("sharing"));
    system = std::make_unique<caf::actor_system>(config);
    self = std::make_unique<caf::scoped_actor>(*system);
    Result<Gateway> started =
        start_gateway(*system, std::move(options), caf::actor_cast<caf::actor>(self->ptr()),
                      [](const std::string&) {});
    REQUIRE(started.ok());
    gateway = started->actor;
    endpoint = started->endpoint;
    wire.emplace(*std::move(started));
  }
  ~Process() {
    stop();
    gateway = nullptr;
  }
  void stop() {
    (*self)->send_exit(gateway, caf::exit_reason::user_shutdown);
    (*self)->wait_for(gateway);
  }

  // The next message, which must be a T. If none comes, returns an empty T.
  template <class T>
  T next() {
    T result{};
    bool got = false;
    (*self)->receive([&](const T& message) { result = message, got = true; },
                     caf::others >> [&](caf::message_view& view) -> caf::result<caf::message> {
                       FAIL_CHECK(caf::to_string(view.content()));
                       return caf::sec::unexpected_message;
                     },
                     caf::after(kDeadline) >> [] {});
    CHECK(got);
    return result;
  }
  template <class T>
  void send(T message) {
    (*self)->send(gateway, std::move(message));
  }

  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<caf::scoped_actor> self;
  caf::actor gateway;
  std::string endpoint;
  std::optional<Gateway> wire;  // It ends before the actor system does.
};

Msg<wire::KillWorker> kill_message(std::uint64_t incarnation) {
  return Msg<wire::KillWorker>::build(
      {}, [&](wire::KillWorker::Builder b) { b.setIncarnation(incarnation); });
}

TEST_SUITE("actors/base/gateway/gateway_actor") {
  TEST_CASE("a message travels from actor to actor through two gateways, and back") {
    const TempDirectory dir;
    Process head(quick_options("head", dir.ipc("head.sock")));
    Process node(quick_options("node/a"));
    CHECK(head.endpoint == dir.ipc("head.sock"));
    CHECK(node.endpoint.empty());
    node.send(ConnectPeer{.peer = "head", .endpoint = head.endpoint});
    CHECK(node.next<PeerUp>().peer == "head");
    CHECK(head.next<PeerUp>().peer == "node/a");
    for (std::uint64_t i = 0; i < 100; ++i)
      head.send(Outbound{.to = "node/a", .frame = kill_message(i).frame()});
    for (std::uint64_t i = 0; i < 100; ++i) {
      const Inbound inbound = node.next<Inbound>();
      CHECK(inbound.from == "head");
      const auto message = Msg<wire::KillWorker>::from_frame(inbound.frame);
      REQUIRE(message.ok());
      CHECK((*message).view()->getIncarnation() == i);
      node.send(Outbound{.to = "head", .frame = inbound.frame});
    }
    for (std::uint64_t i = 0; i < 100; ++i) {
      const auto message = Msg<wire::KillWorker>::from_frame(head.next<Inbound>().frame);
      REQUIRE(message.ok());
      CHECK((*message).view()->getIncarnation() == i);
    }
  }

  TEST_CASE("the end of a gateway is a PeerDown for the sinks of its peers") {
    const TempDirectory dir;
    Process head(quick_options("head", dir.ipc("head.sock")));
    Process node(quick_options("node/a"));
    node.send(ConnectPeer{.peer = "head", .endpoint = head.endpoint});
    CHECK(head.next<PeerUp>().peer == "node/a");
    node.stop();
    CHECK(head.next<PeerDown>().peer == "node/a");
  }

  TEST_CASE("a peer that is not connected, or cannot be reached, is a PeerDown for the sink") {
    Process process(quick_options("client/1"));
    process.send(Outbound{.to = "head", .frame = kill_message(1).frame()});
    CHECK(process.next<PeerDown>().peer == "head");
    process.send(ConnectPeer{.peer = "worker/1", .endpoint = "carrier pigeon"});
    CHECK(process.next<PeerDown>().peer == "worker/1");
    process.send(ConnectPeer{.peer = "worker/2", .endpoint = "tcp://127.0.0.1:9"});
    CHECK(process.next<PeerDown>().peer == "worker/2");
    process.send(GetTransportStats{});
    CHECK(process.next<TransportStats>().dropped_unreachable == 1);
  }

  TEST_CASE("a link that is closed on purpose causes no PeerDown here and one at the peer") {
    const TempDirectory dir;
    Process head(quick_options("head", dir.ipc("head.sock")));
    Process node(quick_options("node/a"));
    node.send(ConnectPeer{.peer = "head", .endpoint = head.endpoint});
    CHECK(node.next<PeerUp>().peer == "head");
    CHECK(head.next<PeerUp>().peer == "node/a");
    node.send(DisconnectPeer{.peer = "head"});
    CHECK(head.next<PeerDown>().peer == "node/a");
    node.send(GetTransportStats{});
    CHECK(node.next<TransportStats>().received == 0);
  }

  TEST_CASE("the gateway ends with its sink, and its peers get a PeerDown") {
    const TempDirectory dir;
    Process head(quick_options("head", dir.ipc("head.sock")));
    caf::actor sink = head.system->spawn([](caf::event_based_actor*) -> caf::behavior {
      return {[](const PeerUp&) {}, [](const PeerDown&) {}, [](const Inbound&) {}};
    });
    Result<Gateway> node =
        start_gateway(*head.system, quick_options("node/a"), sink, [](const std::string&) {});
    REQUIRE(node.ok());
    caf::anon_send(node->actor, ConnectPeer{.peer = "head", .endpoint = head.endpoint});
    CHECK(head.next<PeerUp>().peer == "node/a");
    caf::anon_send_exit(sink, caf::exit_reason::user_shutdown);
    CHECK(head.next<PeerDown>().peer == "node/a");
  }

  TEST_CASE(
      "a program that ends together with its peers joins the transport before its actor system "
      "ends") {
    const TempDirectory dir;
    constexpr int kRounds = 40;
    for (int i = 0; i < kRounds; ++i) {
      std::optional<Process> head(std::in_place,
                                  quick_options("head", dir.ipc("h" + std::to_string(i))));
      Process node(quick_options("node/a"));
      node.send(ConnectPeer{.peer = "head", .endpoint = head->endpoint});
      CHECK(node.next<PeerUp>().peer == "head");
      // Both transports end, and then both systems, while the goodbye of the other side is on its
      // way.
      std::thread other([&] { head.reset(); });
      node.wire.reset();
      other.join();
    }
  }

  TEST_CASE("messages that were sent before the gateway is destroyed still arrive") {
    const TempDirectory dir;
    Process head(quick_options("head", dir.ipc("head.sock")));
    TransportOptions patient = quick_options("node/a");
    patient.shutdown_flush = kDeadline;  // A slow machine must not decide what arrives.
    Process node(patient);
    node.send(ConnectPeer{.peer = "head", .endpoint = head.endpoint});
    CHECK(node.next<PeerUp>().peer == "head");
    CHECK(head.next<PeerUp>().peer == "node/a");
    for (std::uint64_t i = 0; i < 1000; ++i)
      node.send(Outbound{.to = "head", .frame = kill_message(i).frame()});
    node.wire.reset();
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const auto message = Msg<wire::KillWorker>::from_frame(head.next<Inbound>().frame);
      REQUIRE(message.ok());
      CHECK((*message).view()->getIncarnation() == i);
    }
    CHECK(head.next<PeerDown>().peer == "node/a");
  }

  TEST_CASE("a gateway that cannot listen is an error, not an actor") {
    caf::actor_system_config config;
    caf::actor_system system(config);
    caf::scoped_actor self(system);
    const Result<Gateway> gateway =
        start_gateway(system, quick_options("head", "tcp://0.0.0.0:*"),
                      caf::actor_cast<caf::actor>(self.ptr()), [](const std::string&) {});
    CHECK(gateway.error().kind == ErrorKind::kRefused);
  }
}

}  // namespace
}  // namespace es::actors
