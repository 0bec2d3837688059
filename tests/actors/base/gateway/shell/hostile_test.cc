// Raw sockets that send invalid bytes: the gateway does not crash, counts all of them, and serves
// others.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <random>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "actors/base/gateway/core/control_frame.h"
#include "tests/actors/base/gateway/shell/station.h"
#include "tests/support/seed.h"

namespace es::actors {
namespace {

using test::impatient_options;
using test::numbered_frame;
using test::quick_options;
using test::Station;
using test::TempDirectory;

using Parts = std::vector<std::string>;

std::string beat_of(const PeerId& id) {
  return encode_control({.kind = ControlKind::kBeat, .from = id});
}

Parts honest_parts(std::uint64_t number) {
  const auto frame = numbered_frame(number, 16);
  const auto body = frame->body.asChars();
  return {encode_envelope(frame->envelope), std::string(body.begin(), body.size())};
}

// Changes, cuts, extends, adds or removes parts of a valid message.
Parts mutated(std::mt19937_64& random) {
  Parts parts = random() % 4 == 0 ? Parts{beat_of("worker/1")} : honest_parts(random());
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes; ++i) {
    std::string& part = parts[random() % parts.size()];
    switch (random() % 6) {
      case 0:
      case 1:
        if (!part.empty()) part[random() % part.size()] ^= static_cast<char>(1 + random() % 255);
        break;
      case 2:
        part.resize(part.empty() ? 0 : random() % part.size());
        break;
      case 3:
        part.append(random() % 64, static_cast<char>(random()));
        break;
      case 4:
        parts.insert(parts.begin() + random() % (parts.size() + 1), std::string(3, 'x'));
        break;
      case 5:
        if (parts.size() > 1) parts.erase(parts.begin() + random() % parts.size());
        break;
    }
  }
  return parts;
}

class RawPeer {
 public:
  RawPeer(const std::string& endpoint, const PeerId& id, int unread_max = 1000)
      : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, 0);
    socket_.set(zmq::sockopt::rcvhwm, unread_max);
    socket_.connect(endpoint);
    if (!id.empty()) send({beat_of(id)});
  }
  void send(const Parts& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      socket_.send(zmq::buffer(parts[i]),
                   i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

std::uint64_t refused(const TransportStats& stats) {
  return stats.refused_malformed + stats.refused_oversize + stats.refused_stranger +
         stats.refused_identity;
}

int connect_raw(const std::string& endpoint) {
  const std::string port = endpoint.substr(endpoint.rfind(':') + 1);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

TEST_SUITE("actors/base/gateway/hostile") {
  TEST_CASE("mutated messages of an accepted peer do no harm") {
    std::mt19937_64 random(es::test::seed("hostile peer"));
    const TempDirectory dir;
    Station head(quick_options("head", dir.ipc("head.sock")));
    Station honest(quick_options("node/a"));
    REQUIRE(honest->connect("head", head->endpoint()).ok());
    REQUIRE(honest.wait_for("up head"));
    RawPeer hostile(head->endpoint(), "worker/1");
    constexpr std::uint64_t kCount = 30000;
    // Some mutations are a valid beat or bye, and these are not counted.
    std::uint64_t controls = 0;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const Parts parts = mutated(random);
      if (parts.size() == 1 && decode_control(parts[0].data(), parts[0].size())) ++controls;
      hostile.send(parts);
      if (i % 1000 == 0) honest->send("head", numbered_frame(i / 1000));
    }
    for (std::uint64_t i = 0; i < kCount / 1000; ++i)
      CHECK(head.wait_for("frame node/a " + std::to_string(i)));
    CHECK(head.wait_stats([&](const TransportStats& stats) {
      return refused(stats) + stats.received >= kCount - controls + kCount / 1000;
    }));
    CHECK(refused(head->stats()) > kCount / 4);
    CHECK(head.seen().count("down node/a") == 0);
    head->send("node/a", numbered_frame(7));
    CHECK(honest.wait_for("frame head 7"));
    CHECK(head.seen().log.size() < 100);  // The log does not grow with every message.
  }

  TEST_CASE("messages of a connection that never named its sender are refused") {
    std::mt19937_64 random(es::test::seed("hostile stranger"));
    const TempDirectory dir;
    Station head(quick_options("head", dir.ipc("head.sock")));
    RawPeer stranger(head->endpoint(), {});
    for (std::uint64_t i = 0; i < 1000; ++i) stranger.send(honest_parts(i));
    CHECK(head.wait_stats([](const TransportStats& s) { return s.refused_stranger == 1000; }));
    CHECK(head->stats().received == 0);
    CHECK(head.seen().events.empty());
  }

  TEST_CASE("each kind of invalid message is counted under its reason") {
    const TempDirectory dir;
    TransportOptions options = quick_options("head", dir.ipc("head.sock"));
    options.dead_after = std::chrono::hours(1);
    Station head(options);
    RawPeer peer(head->endpoint(), "worker/1");
    const Parts good = honest_parts(1);
    peer.send({"neither a beat nor a bye"});
    peer.send({good[0], good[1], "a third part"});
    peer.send({"not an envelope!", good[1]});
    peer.send({good[0], "not whole words"});
    peer.send({good[0], ""});
    CHECK(head.wait_stats([](const TransportStats& s) { return s.refused_malformed == 5; }));
    peer.send({std::string(kEnvelopeBytesMax + 8, '\0'), good[1]});
    peer.send({good[0], std::string(kBodyBytesMax + 8, '\0')});
    CHECK(head.wait_stats([](const TransportStats& s) { return s.refused_oversize == 2; }));
    peer.send({beat_of("worker/2")});
    CHECK(head.wait_stats([](const TransportStats& s) { return s.refused_identity == 1; }));
    peer.send(good);
    CHECK(head.wait_for("frame worker/1 1"));
  }

  // libzmq aborts when its own heartbeat is due on a broken connection whose messages have not been
  // received yet. A peer could cause that on purpose. The gateway therefore uses neither its
  // heartbeats nor its limit for received messages.
  TEST_CASE("a peer that floods a busy process and breaks the connection does no harm") {
    const TempDirectory dir;
    std::promise<void> busy, release;
    std::shared_future<void> released = release.get_future().share();
    std::once_flag once;
    const auto ignore = [](const std::string&) {};
    TransportOptions options = quick_options("head", dir.ipc("head.sock"));
    options.dead_after = std::chrono::hours(1);
    auto head = Transport::start(options, {.on_frame =
                                               [&](const PeerId&, auto, const auto&) {
                                                 std::call_once(once, [&] { busy.set_value(); });
                                                 released.wait();
                                               },
                                           .on_peer_up = ignore,
                                           .on_peer_down = ignore,
                                           .log = ignore});
    REQUIRE(head.ok());
    {
      RawPeer peer((*head)->endpoint(), "worker/1");
      for (std::uint64_t i = 0; i < 20000; ++i) peer.send(honest_parts(i));
      busy.get_future().wait();
    }
    // Many heartbeat intervals pass until the gateway gives up a peer that does not exist.
    Station clock(impatient_options("client/1"));
    REQUIRE(clock->connect("worker/2", dir.ipc("nobody.sock")).ok());
    CHECK(clock.wait_for("down worker/2"));
    release.set_value();
    Station honest(quick_options("node/a"));
    REQUIRE(honest->connect("head", (*head)->endpoint()).ok());
    CHECK(honest.wait_for("up head"));
  }

  TEST_CASE("a client that never reads its answers is disconnected before they fill the memory") {
    const TempDirectory dir;
    Station head(quick_options("head", dir.ipc("head.sock")));
    const auto answer = numbered_frame(1, (std::size_t{8} << 20) / sizeof(capnp::word));
    {
      RawPeer greedy(head->endpoint(), "client/1", 1);
      REQUIRE(head.wait_for("up client/1"));
      // The client sends all the time, so the gateway does not take it for dead. It never reads.
      for (int i = 0; i < 64; ++i) {
        greedy.send({beat_of("client/1")});
        head->send("client/1", answer);
      }
      REQUIRE(head.wait_for("down client/1"));
      CHECK(head->stats().refused_unread == 1);
      CHECK(head->stats().queued_bytes <= 3 * std::uint64_t{kBodyBytesMax});
      // Another beat does not open the connection again.
      greedy.send({beat_of("client/1")});
      Station honest(quick_options("client/2"));
      REQUIRE(honest->connect("head", head->endpoint()).ok());
      CHECK(honest.wait_for("up head"));
      CHECK(head.seen().count("up client/1") == 1);
    }
    CHECK(head.wait_stats([](const TransportStats& s) { return s.queued_bytes == 0; }));
  }

  TEST_CASE(
      "a connection with a body far over the limit is cut off, and others are served meanwhile") {
    const TempDirectory dir;
    Station head(quick_options("head", dir.ipc("head.sock")));
    RawPeer peer(head->endpoint(), "worker/1");
    REQUIRE(head.wait_for("up worker/1"));
    peer.send({honest_parts(1)[0], std::string(2 * kBodyBytesMax, '\0')});
    Station honest(quick_options("node/a"));
    REQUIRE(honest->connect("head", head->endpoint()).ok());
    honest->send("head", numbered_frame(1));
    CHECK(head.wait_for("frame node/a 1"));
    CHECK(head.wait_for("down worker/1"));
    CHECK(head->stats().received == 1);
  }

  TEST_CASE("bytes that are not ZeroMQ, and connections without any byte, do not disturb others") {
    std::mt19937_64 random(es::test::seed("hostile bytes"));
    TransportOptions options = quick_options("head", "tcp://127.0.0.1:*");
    options.insecure_loopback = true;
    options.handshake_timeout = std::chrono::milliseconds(100);
    Station head(options);
    std::vector<int> sockets;
    for (int i = 0; i < 200; ++i) {
      sockets.push_back(connect_raw(head->endpoint()));
      std::string bytes(random() % 256, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      if (i % 2 == 0) (void)!::send(sockets.back(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    TransportOptions client_options = quick_options("client/1");
    client_options.insecure_loopback = true;
    Station client(client_options);
    REQUIRE(client->connect("head", head->endpoint()).ok());
    client->send("head", numbered_frame(1));
    CHECK(head.wait_for("frame client/1 1"));
    CHECK(head.wait_stats([](const TransportStats& s) { return s.refused_handshake >= 100; }));
    for (const int fd : sockets) ::close(fd);
  }
}

}  // namespace
}  // namespace es::actors
