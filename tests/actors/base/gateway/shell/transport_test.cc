#include <doctest/doctest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "tests/actors/base/gateway/shell/station.h"

namespace es::actors {
namespace {

using test::impatient_options;
using test::numbered_frame;
using test::quick_options;
using test::Station;
using test::TempDirectory;

// Two stations that know each other. `client` has no endpoint of its own.
struct Pair {
  explicit Pair(const std::string& endpoint, TransportOptions head_options)
      : head([&] {
          head_options.endpoint = endpoint;
          return head_options;
        }()),
        client(quick_options("client/1")) {
    REQUIRE(client->connect("head", head->endpoint()).ok());
    REQUIRE(client.wait_for("up head"));
    REQUIRE(head.wait_for("up client/1"));
  }
  Station head;
  Station client;
};

std::vector<std::uint64_t> first_numbers(std::size_t count) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST_SUITE("actors/base/gateway/transport") {
  TEST_CASE("frames arrive whole and in order, in both directions") {
    const TempDirectory dir;
    Pair pair(dir.ipc("head.sock"), quick_options("head"));
    constexpr std::size_t kCount = 2000;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      pair.client->send("head", numbered_frame(i, 1 + i % 64));
      pair.head->send("client/1", numbered_frame(i, 1 + i % 64));
    }
    for (Station* station : {&pair.head, &pair.client}) {
      REQUIRE(station->wait_frames(kCount));
      CHECK(station->numbers() == first_numbers(kCount));
      for (const auto& frame : station->seen().frames) {
        const std::shared_ptr<const Frame> sent =
            numbered_frame(frame->envelope.request, 1 + frame->envelope.request % 64);
        CHECK(frame->envelope == sent->envelope);
        CHECK(frame->body.asBytes() == sent->body.asBytes());
      }
      CHECK((*station)->stats().received == kCount);
      CHECK((*station)->stats().sent == kCount);
    }
  }

  TEST_CASE("frames sent before the link is up arrive after it, in order") {
    const TempDirectory dir;
    Station client(quick_options("client/1"));
    REQUIRE(client->connect("head", dir.ipc("head.sock")).ok());
    for (std::uint64_t i = 0; i < 10; ++i) client->send("head", numbered_frame(i));
    Station head(quick_options("head", dir.ipc("head.sock")));
    REQUIRE(head.wait_frames(10));
    CHECK(head.numbers() == first_numbers(10));
    CHECK(head.seen().events.front() == "up client/1");
  }

  TEST_CASE("one process answers many peers, and each of them gets its own frames only") {
    const TempDirectory dir;
    Station head(quick_options("head", dir.ipc("head.sock")));
    constexpr std::uint64_t kPeers = 20;
    std::vector<std::unique_ptr<Station>> peers;
    for (std::uint64_t i = 0; i < kPeers; ++i) {
      peers.push_back(std::make_unique<Station>(quick_options("worker/" + std::to_string(i))));
      REQUIRE((*peers[i])->connect("head", head->endpoint()).ok());
    }
    for (std::uint64_t i = 0; i < kPeers; ++i)
      REQUIRE(head.wait_for("up worker/" + std::to_string(i)));
    for (std::uint64_t round = 0; round < 50; ++round)
      for (std::uint64_t i = 0; i < kPeers; ++i)
        head->send("worker/" + std::to_string(i), numbered_frame(round * kPeers + i));
    for (std::uint64_t i = 0; i < kPeers; ++i) {
      REQUIRE(peers[i]->wait_frames(50));
      std::vector<std::uint64_t> expected;
      for (std::uint64_t round = 0; round < 50; ++round) expected.push_back(round * kPeers + i);
      CHECK(peers[i]->numbers() == expected);
    }
  }

  TEST_CASE("between two processes that call each other no frame is lost or reordered") {
    const TempDirectory dir;
    Station a(quick_options("worker/1", dir.ipc("a.sock")));
    Station b(quick_options("worker/2", dir.ipc("b.sock")));
    REQUIRE(a->connect("worker/2", b->endpoint()).ok());
    REQUIRE(b->connect("worker/1", a->endpoint()).ok());
    for (std::uint64_t i = 0; i < 500; ++i) {
      a->send("worker/2", numbered_frame(i));
      b->send("worker/1", numbered_frame(i));
    }
    REQUIRE(a.wait_frames(500));
    REQUIRE(b.wait_frames(500));
    CHECK(a.numbers() == first_numbers(500));
    CHECK(b.numbers() == first_numbers(500));
    CHECK(a.seen().count("down worker/2") == 0);
    CHECK(b.seen().count("down worker/1") == 0);
  }

  TEST_CASE("a body of the largest size arrives over loopback TCP") {
    TransportOptions options = quick_options("head");
    options.insecure_loopback = true;
    options.endpoint = "tcp://127.0.0.1:*";
    Station head(options);
    CHECK(head->endpoint().starts_with("tcp://127.0.0.1:"));
    CHECK(head->endpoint() != options.endpoint);
    options.self = "client/1";
    options.endpoint = {};
    Station client(options);
    REQUIRE(client->connect("head", head->endpoint()).ok());
    client->send("head", numbered_frame(7, kBodyBytesMax / sizeof(capnp::word)));
    REQUIRE(head.wait_frames(1));
    CHECK(head.seen().frames[0]->body_bytes() == kBodyBytesMax);
    CHECK(client.wait_stats([](const TransportStats& s) { return s.queued_bytes == 0; }));
  }

  TEST_CASE("a body over the limit is not sent, and the next frame is") {
    const TempDirectory dir;
    Pair pair(dir.ipc("head.sock"), quick_options("head"));
    pair.client->send("head", numbered_frame(1, kBodyBytesMax / sizeof(capnp::word) + 1));
    pair.client->send("head", numbered_frame(2));
    REQUIRE(pair.head.wait_frames(1));
    CHECK(pair.head.numbers() == std::vector<std::uint64_t>{2});
    CHECK(pair.client->stats().refused_oversize == 1);
  }

  TEST_CASE("a frame to an unknown peer is dropped, counted and answered by a PeerDown") {
    Station station(quick_options("client/1"));
    station->send("worker/9", numbered_frame(1));
    CHECK(station.wait_for("down worker/9"));
    CHECK(station->stats().dropped_unreachable == 1);
  }

  TEST_CASE("a peer that never answers is reported down once") {
    const TempDirectory dir;
    Station station(impatient_options("client/1"));
    REQUIRE(station->connect("head", dir.ipc("nobody.sock")).ok());
    station->send("head", numbered_frame(1));
    REQUIRE(station.wait_for("down head"));
    CHECK(station->stats().dropped_unreachable == 1);
    Station head(quick_options("head", dir.ipc("nobody.sock")));
    REQUIRE(station.wait_for("up head"));
    CHECK(station.seen().events == std::vector<std::string>{"down head", "up head"});
  }

  TEST_CASE("a goodbye is reported at once, after all frames that were sent before it") {
    const TempDirectory dir;
    Pair pair(dir.ipc("head.sock"), quick_options("head"));
    for (std::uint64_t i = 0; i < 100; ++i) pair.client->send("head", numbered_frame(i));
    pair.client.stop();
    REQUIRE(pair.head.wait_for("down client/1"));
    CHECK(pair.head.numbers() == first_numbers(100));
    CHECK(pair.head.seen().events.back() == "down client/1");
  }

  TEST_CASE("the goodbye of a listening process reaches the peers that called it") {
    const TempDirectory dir;
    Station head(quick_options("head", dir.ipc("head.sock")));
    Station client(quick_options("client/1"));
    REQUIRE(client->connect("head", head->endpoint()).ok());
    REQUIRE(head.wait_for("up client/1"));
    for (std::uint64_t i = 0; i < 100; ++i) head->send("client/1", numbered_frame(i));
    head.stop();
    REQUIRE(client.wait_for("down head"));
    CHECK(client.numbers() == first_numbers(100));
  }

  TEST_CASE("a process that was restarted at its endpoint is up again, with a new link") {
    const TempDirectory dir;
    Station client(quick_options("client/1"));
    REQUIRE(client->connect("head", dir.ipc("head.sock")).ok());
    for (std::size_t life = 1; life <= 3; ++life) {
      Station head(quick_options("head", dir.ipc("head.sock")));
      REQUIRE(client.wait_for("up head", life));
      client->send("head", numbered_frame(life));
      REQUIRE(head.wait_frames(1));
      CHECK(head.numbers() == std::vector<std::uint64_t>{life});
      head.stop();
      REQUIRE(client.wait([&](const Station::Seen& seen) {
        return seen.count("down head") >= seen.count("up head");
      }));
    }
  }

  TEST_CASE("a restarted process that calls again gets its id back") {
    const TempDirectory dir;
    Station head(quick_options("head", dir.ipc("head.sock")));
    for (std::size_t life = 1; life <= 3; ++life) {
      Station node(quick_options("node/a"));
      REQUIRE(node->connect("head", head->endpoint()).ok());
      REQUIRE(head.wait_for("up node/a", life));
      head->send("node/a", numbered_frame(life));
      REQUIRE(node.wait_frames(1));
      CHECK(node.numbers() == std::vector<std::uint64_t>{life});
      node.stop();
      REQUIRE(head.wait_for("down node/a", life));
    }
  }

  TEST_CASE("a second process with an id in use is refused, and the first one is not disturbed") {
    const TempDirectory dir;
    Pair pair(dir.ipc("head.sock"), quick_options("head"));
    Station second(impatient_options("client/1"));
    REQUIRE(second->connect("head", pair.head->endpoint()).ok());
    second->send("head", numbered_frame(99));
    REQUIRE(second.wait_for("down head"));
    CHECK(pair.head->stats().refused_identity >= 1);
    pair.client->send("head", numbered_frame(1));
    REQUIRE(pair.head.wait_frames(1));
    CHECK(pair.head.numbers() == std::vector<std::uint64_t>{1});
    CHECK(pair.head.seen().count("down client/1") == 0);
    CHECK(second.seen().count("up head") == 0);
  }

  TEST_CASE("a link that is closed on purpose is reported to the peer only") {
    const TempDirectory dir;
    Pair pair(dir.ipc("head.sock"), quick_options("head"));
    pair.client->send("head", numbered_frame(1));
    pair.client->disconnect("head");
    REQUIRE(pair.head.wait_for("down client/1"));
    CHECK(pair.head.numbers() == std::vector<std::uint64_t>{1});
    CHECK(pair.client.seen().events == std::vector<std::string>{"up head"});
    pair.client->send("head", numbered_frame(2));
    CHECK(pair.client.wait_for("down head"));  // This is the answer to a message without a link.
  }

  TEST_CASE(
      "connecting again to the same endpoint changes nothing, to another one moves the link") {
    const TempDirectory dir;
    Pair pair(dir.ipc("head.sock"), quick_options("head"));
    Station moved(quick_options("head", dir.ipc("moved.sock")));
    REQUIRE(pair.client->connect("head", pair.head->endpoint()).ok());
    pair.client->send("head", numbered_frame(1));
    REQUIRE(pair.head.wait_frames(1));
    CHECK(pair.client.seen().events == std::vector<std::string>{"up head"});
    REQUIRE(pair.client->connect("head", moved->endpoint()).ok());
    pair.client->send("head", numbered_frame(2));
    REQUIRE(moved.wait_frames(1));
    CHECK(pair.head.wait_for("down client/1"));
    CHECK(pair.client.seen().events == std::vector<std::string>{"up head", "down head", "up head"});
  }

  TEST_CASE("a process that answers under another name than the expected one is refused") {
    const TempDirectory dir;
    Station other(quick_options("worker/2", dir.ipc("w.sock")));
    Station client(impatient_options("client/1"));
    REQUIRE(client->connect("worker/1", other->endpoint()).ok());
    client->send("worker/1", numbered_frame(1));
    REQUIRE(client.wait_for("down worker/1"));
    CHECK(client->stats().refused_identity >= 1);
    CHECK(other.seen().frames.empty());
  }

  TEST_CASE("any thread may send, and each thread's frames keep their order") {
    const TempDirectory dir;
    Pair pair(dir.ipc("head.sock"), quick_options("head"));
    constexpr std::uint64_t kThreads = 4, kEach = 500;
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < kEach; ++i)
          pair.client->send("head", numbered_frame(t * kEach + i));
      });
    for (std::thread& thread : threads) thread.join();
    REQUIRE(pair.head.wait_frames(kThreads * kEach));
    std::vector<std::uint64_t> next(kThreads, 0);
    for (const std::uint64_t number : pair.head.numbers()) {
      CHECK(number % kEach == next[number / kEach]);
      ++next[number / kEach];
    }
  }

  TEST_CASE("options and endpoints that cannot work are refused with a reason") {
    const TempDirectory dir;
    const auto start = [](TransportOptions options) {
      const auto ignore = [](const std::string&) {};
      return Transport::start(options, {.on_frame = [](const PeerId&, auto, const auto&) {},
                                        .on_peer_up = ignore,
                                        .on_peer_down = ignore,
                                        .log = ignore});
    };
    CHECK(start(quick_options("two words")).error().kind == ErrorKind::kUsage);
    CHECK(start(quick_options("head", "udp://x")).error().kind == ErrorKind::kUsage);
    TransportOptions hasty = quick_options("head");
    hasty.dead_after = hasty.heartbeat_interval;
    CHECK(start(hasty).error().kind == ErrorKind::kUsage);
    TransportOptions patient = quick_options("head");
    patient.dead_after = std::chrono::hours(2);
    CHECK(start(patient).error().kind == ErrorKind::kUsage);
    const Error no_keys = start(quick_options("head", "tcp://127.0.0.1:*")).error();
    CHECK(no_keys.kind == ErrorKind::kRefused);
    CHECK(no_keys.message.find("esctl keygen") != std::string::npos);

    Station head(quick_options("head", dir.ipc("head.sock")));
    CHECK(start(quick_options("head", dir.ipc("head.sock"))).error().kind == ErrorKind::kRefused);
    CHECK_FALSE(head->connect("head", dir.ipc("x.sock")).ok());  // Its own endpoint.
    CHECK_FALSE(head->connect("worker/1", "tcp://127.0.0.1:1").ok());
    CHECK_FALSE(head->connect("worker/1", "nonsense").ok());
    CHECK_FALSE(head->connect("bad id", dir.ipc("x.sock")).ok());
  }
}

}  // namespace
}  // namespace es::actors
