// Peers that vanish: raw sockets that speak the gateway's protocol as far as a test needs it, and a
// real process that is killed.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <zmq.hpp>

#include "actors/base/gateway/core/control_frame.h"
#include "tests/actors/base/gateway/shell/station.h"

namespace es::actors {
namespace {

using test::impatient_options;
using test::numbered_frame;
using test::quick_options;
using test::Station;
using test::TempDirectory;

std::string beat_of(const PeerId& id) {
  return encode_control({.kind = ControlKind::kBeat, .from = id});
}

// A peer that names itself and then sends nothing more.
zmq::socket_t silent_caller(zmq::context_t& context, const PeerId& id,
                            const std::string& endpoint) {
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect(endpoint);
  socket.send(zmq::buffer(beat_of(id)), zmq::send_flags::none);
  return socket;
}

TEST_SUITE("actors/base/gateway/transport_liveness") {
  TEST_CASE("a caller that falls silent is down after dead_after, though its connection exists") {
    const TempDirectory dir;
    Station head(impatient_options("head", dir.ipc("head.sock")));
    zmq::context_t context;
    zmq::socket_t caller = silent_caller(context, "worker/1", head->endpoint());
    REQUIRE(head.wait_for("up worker/1"));
    REQUIRE(head.wait_for("down worker/1"));
    // It returns over the same connection. First it receives the message that the old link has
    // ended.
    caller.send(zmq::buffer(beat_of("worker/1")), zmq::send_flags::none);
    caller.set(zmq::sockopt::rcvtimeo, 60000);
    zmq::message_t message;
    bool told_goodbye = false;
    while (!told_goodbye && caller.recv(message)) {
      const auto control = decode_control(message.data(), message.size());
      told_goodbye = control && control->kind == ControlKind::kBye;
    }
    CHECK(told_goodbye);
    CHECK(head.seen().count("up worker/1") == 1);
    zmq::socket_t again = silent_caller(context, "worker/1", head->endpoint());
    CHECK(head.wait_for("up worker/1", 2));
  }

  TEST_CASE("a caller whose connection breaks is down long before dead_after") {
    const TempDirectory dir;
    TransportOptions options = quick_options("head", dir.ipc("head.sock"));
    options.dead_after = std::chrono::hours(1);
    Station head(options);
    zmq::context_t context;
    {
      zmq::socket_t caller = silent_caller(context, "worker/1", head->endpoint());
      REQUIRE(head.wait_for("up worker/1"));
    }
    CHECK(head.wait_for("down worker/1"));
  }

  TEST_CASE("a listener that falls silent is down after dead_after, and up when it speaks again") {
    const TempDirectory dir;
    zmq::context_t context;
    zmq::socket_t listener(context, zmq::socket_type::router);
    listener.set(zmq::sockopt::linger, 0);
    listener.set(zmq::sockopt::rcvtimeo, 60000);
    listener.bind(dir.ipc("w.sock"));
    Station client(impatient_options("client/1"));
    REQUIRE(client->connect("worker/1", dir.ipc("w.sock")).ok());
    std::set<std::string> answered;
    for (std::size_t life = 1; life <= 2; ++life) {
      // Answers the first beat of the next connection, and sends nothing after that.
      zmq::message_t connection, beat;
      do {
        REQUIRE(listener.recv(connection).has_value());
        REQUIRE(listener.recv(beat).has_value());
      } while (!answered.insert(connection.to_string()).second);
      listener.send(connection, zmq::send_flags::sndmore);
      listener.send(zmq::buffer(beat_of("worker/1")), zmq::send_flags::none);
      REQUIRE(client.wait_for("up worker/1", life));
      REQUIRE(client.wait_for("down worker/1", life));
    }
    CHECK(client.seen().events ==
          std::vector<std::string>{"up worker/1", "down worker/1", "up worker/1", "down worker/1"});
  }

  TEST_CASE("idle peers keep each other up") {
    const TempDirectory dir;
    TransportOptions options = quick_options("head", dir.ipc("head.sock"));
    options.dead_after = std::chrono::seconds(1);
    Station head(options);
    Station node(quick_options("node/a"));
    REQUIRE(node->connect("head", head->endpoint()).ok());
    REQUIRE(head.wait_for("up node/a"));
    // A third peer that falls silent serves as the clock: when it is down, dead_after has passed.
    zmq::context_t context;
    zmq::socket_t silent = silent_caller(context, "worker/1", head->endpoint());
    REQUIRE(head.wait_for("down worker/1"));
    CHECK(head.seen().count("down node/a") == 0);
    CHECK(node.seen().count("down head") == 0);
  }

  TEST_CASE("a client with the default times stays connected to a head with other ones") {
    // The head has shorter times than a client sends beats at, and then longer ones than a client
    // waits for.
    for (const auto& [beat, dead] : {std::pair{20, 200}, std::pair{10'000, 20'000}}) {
      const TempDirectory dir;
      TransportOptions options = quick_options("head", dir.ipc("head.sock"));
      options.heartbeat_interval = std::chrono::milliseconds(beat);
      options.dead_after = std::chrono::milliseconds(dead);
      Station head(options);
      TransportOptions defaults;
      defaults.self = "client/1";
      Station client(defaults);
      REQUIRE(client->connect("head", head->endpoint()).ok());
      REQUIRE(head.wait_for("up client/1"));
      // A silent peer of another process serves as the clock.
      TransportOptions later = quick_options("clock", dir.ipc("clock.sock"));
      later.dead_after = kDeadAfter + std::chrono::milliseconds(500);
      Station clock(later);
      zmq::context_t context;
      const zmq::socket_t silent = silent_caller(context, "worker/1", clock->endpoint());
      REQUIRE(clock.wait_for("down worker/1"));
      CHECK(head.seen().count("down client/1") == 0);
      CHECK(client.seen().count("down head") == 0);
    }
  }

  TEST_CASE(
      "a process that is killed is reported down, and the frames that it sent before are not "
      "lost") {
    const TempDirectory dir;
    // The child is forked before this test has a thread or a ZeroMQ context.
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      TransportOptions options = quick_options("worker/1");
      Station worker(options);
      if (!worker->connect("head", dir.ipc("head.sock")).ok()) ::_exit(1);
      for (std::uint64_t i = 0; i < 100; ++i) worker->send("head", numbered_frame(i));
      for (;;) ::pause();
    }
    Station head(quick_options("head", dir.ipc("head.sock")));
    CHECK(head.wait_frames(100));
    CHECK(::kill(child, SIGKILL) == 0);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(head.wait_for("down worker/1"));
    CHECK(head.seen().events.back() == "down worker/1");
  }

  TEST_CASE(
      "a process that was stopped for longer than dead_after is down, and up when it continues") {
    const TempDirectory dir;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      Station worker(quick_options("worker/1"));
      if (!worker->connect("head", dir.ipc("head.sock")).ok()) ::_exit(1);
      for (;;) ::pause();
    }
    Station head(impatient_options("head", dir.ipc("head.sock")));
    CHECK(head.wait_for("up worker/1"));
    CHECK(::kill(child, SIGSTOP) == 0);
    CHECK(head.wait_for("down worker/1"));
    CHECK(::kill(child, SIGCONT) == 0);
    CHECK(head.wait_for("up worker/1", 2));
    CHECK(::kill(child, SIGKILL) == 0);
    CHECK(::waitpid(child, nullptr, 0) == child);
    CHECK(head.wait_for("down worker/1", 2));
  }
}

}  // namespace
}  // namespace es::actors
