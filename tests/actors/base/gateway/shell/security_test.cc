#include <doctest/doctest.h>

#include <zmq.hpp>

#include "actors/base/gateway/core/control_frame.h"
#include "tests/actors/base/gateway/shell/station.h"

namespace es::actors {
namespace {

using test::impatient_options;
using test::numbered_frame;
using test::quick_options;
using test::Station;

// Keys without a role, which may do what a machine may.
access::AuthorizedKeys machines(const std::vector<CurveKeys>& keys) {
  access::AuthorizedKeys authorized;
  for (const CurveKeys& key : keys)
    authorized[key.public_key] = {"machine",
                                  access::Identity{"machine", access::Role::kOperate, ""}, true};
  return authorized;
}

// A cluster whose head authorizes only the keys of `client`.
struct Cluster {
  CurveKeys server = generate_keys();
  CurveKeys client = generate_keys();
  Station head{[this] {
    TransportOptions options = quick_options("head", "tcp://127.0.0.1:*");
    options.keys = ClusterKeys{.server = server,
                               .server_public = server.public_key,
                               .client = generate_keys(),
                               .authorized = machines({client})};
    return options;
  }()};

  TransportOptions client_options(const PeerId& self, const CurveKeys& own,
                                  const std::string& server_public) const {
    TransportOptions options = quick_options(self);
    options.keys =
        ClusterKeys{.server = {}, .server_public = server_public, .client = own, .authorized = {}};
    return options;
  }

  // The head still serves a client with an authorized key.
  void check_serves(const PeerId& id) {
    Station honest(client_options(id, client, server.public_key));
    REQUIRE(honest->connect("head", head->endpoint()).ok());
    honest->send("head", numbered_frame(1));
    CHECK(head.wait_for("frame " + id + " 1"));
    head->send(id, numbered_frame(2));
    CHECK(honest.wait_for("frame head 2"));
  }
};

bool logged(const Station::Seen& seen, const std::string& text) {
  for (const std::string& line : seen.log)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

TEST_SUITE("actors/base/gateway/security") {
  TEST_CASE("a client with an authorized key is accepted") {
    Cluster().check_serves("client/1");
  }

  TEST_CASE("a key that is not authorized is refused, counted and logged on both sides") {
    Cluster cluster;
    const CurveKeys stranger = generate_keys();
    Station client(cluster.client_options("client/1", stranger, cluster.server.public_key));
    REQUIRE(client->connect("head", cluster.head->endpoint()).ok());
    client->send("head", numbered_frame(1));
    CHECK(client.wait_for("down head"));
    CHECK(cluster.head.wait(
        [&](const Station::Seen& seen) { return logged(seen, stranger.public_key); }));
    CHECK(client.wait([](const Station::Seen& seen) { return logged(seen, "was refused"); }));
    CHECK(cluster.head->stats().refused_key >= 1);
    CHECK(cluster.head.seen().events.empty());
    cluster.check_serves("client/2");
  }

  TEST_CASE("a client without any key is refused and counted") {
    Cluster cluster;
    TransportOptions options = impatient_options("client/1");
    options.insecure_loopback = true;
    Station client(options);
    REQUIRE(client->connect("head", cluster.head->endpoint()).ok());
    client->send("head", numbered_frame(1));
    CHECK(client.wait_for("down head"));
    CHECK(cluster.head.wait_stats(
        [](const TransportStats& stats) { return stats.refused_handshake >= 1; }));
    CHECK(cluster.head.seen().events.empty());
    CHECK(logged(cluster.head.seen(), "handshake failed"));
    cluster.check_serves("client/2");
  }

  TEST_CASE("a client that expects another server key is refused and counted") {
    Cluster cluster;
    TransportOptions options =
        cluster.client_options("client/1", cluster.client, generate_keys().public_key);
    options.dead_after = impatient_options("client/1").dead_after;
    Station client(options);
    REQUIRE(client->connect("head", cluster.head->endpoint()).ok());
    client->send("head", numbered_frame(1));
    CHECK(client.wait_for("down head"));
    CHECK(cluster.head.wait_stats(
        [](const TransportStats& stats) { return stats.refused_handshake >= 1; }));
    CHECK(cluster.head.seen().events.empty());
    cluster.check_serves("client/2");
  }

  TEST_CASE("the key pair that ZeroMQ's manual prints is refused, even when it is authorized") {
    Cluster cluster;
    const CurveKeys manual{.public_key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
                           .secret_key = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"};
    cluster.head->authorize(machines({manual, cluster.client}));
    Station client(cluster.client_options("client/1", manual, cluster.server.public_key));
    REQUIRE(client->connect("head", cluster.head->endpoint()).ok());
    CHECK(client.wait_for("down head"));
    CHECK(cluster.head->stats().refused_key >= 1);
    cluster.check_serves("client/2");
  }

  TEST_CASE("a revoked key loses its connection and is refused until it is authorized again") {
    Cluster cluster;
    Station client(cluster.client_options("client/1", cluster.client, cluster.server.public_key));
    REQUIRE(client->connect("head", cluster.head->endpoint()).ok());
    REQUIRE(cluster.head.wait_for("up client/1"));
    REQUIRE(client.wait_for("up head"));
    cluster.head->authorize({});
    CHECK(cluster.head.wait_for("down client/1"));
    CHECK(client.wait_for("down head"));
    CHECK(cluster.head.wait_stats(
        [](const TransportStats& stats) { return stats.refused_key >= 1; }));
    CHECK(cluster.head.seen().count("up client/1") == 1);
    cluster.head->authorize(machines({cluster.client}));
    CHECK(cluster.head.wait_for("up client/1", 2));
  }

  TEST_CASE("the key of a client cannot be a node, nor the other way round") {
    Cluster cluster;
    const CurveKeys node = generate_keys();
    const access::Identity alice{"alice", access::Role::kAdmin, ""};
    cluster.head->authorize({{cluster.client.public_key, {"alice", alice, false}},
                             {node.public_key, {"second", {}, true}}});
    const struct {
      PeerId id;
      const CurveKeys& key;
      bool admitted;
    } kCases[] = {{"client/1", cluster.client, true},  {"node/second", cluster.client, false},
                  {"worker/1", cluster.client, false}, {"client/2", node, false},
                  {"node/second", node, true},         {"worker/2", node, true}};
    for (const auto& c : kCases) {
      CAPTURE(c.id);
      Station peer(cluster.client_options(c.id, c.key, cluster.server.public_key));
      REQUIRE(peer->connect("head", cluster.head->endpoint()).ok());
      if (!c.admitted) {
        CHECK(peer.wait([](const Station::Seen& seen) { return logged(seen, "refused this"); }));
        continue;
      }
      peer->send("head", numbered_frame(7));
      REQUIRE(cluster.head.wait_for("frame " + c.id + " 7"));
      const access::Sender sender = cluster.head.seen().senders.at(c.id);
      CHECK(sender.owner->name == (&c.key == &node ? "second" : "alice"));
      CHECK(sender.address == "127.0.0.1");
    }
    CHECK(cluster.head->stats().refused_identity >= 3);
  }

  TEST_CASE("a connection follows the role of its key") {
    Cluster cluster;
    Station client(cluster.client_options("client/1", cluster.client, cluster.server.public_key));
    REQUIRE(client->connect("head", cluster.head->endpoint()).ok());
    REQUIRE(client.wait_for("up head"));
    const access::Identity alice{"alice", access::Role::kView, ""};
    cluster.head->authorize({{cluster.client.public_key, {"alice", alice, false}}});
    // The order of the two threads is not known, so the client sends until a frame shows the role.
    for (std::uint64_t number = 1;; ++number) {
      client->send("head", numbered_frame(number));
      REQUIRE(cluster.head.wait_for("frame client/1 " + std::to_string(number)));
      if (cluster.head.seen().senders.at("client/1").owner->name == "alice") break;
    }
    // A key that is no client's any more loses the connections of its clients.
    cluster.head->authorize({{cluster.client.public_key, {"second", {}, true}}});
    CHECK(cluster.head.wait_for("down client/1"));
  }

  TEST_CASE("the new key of a node takes its name over when the old key is revoked, not before") {
    Cluster cluster;
    const CurveKeys renewed = generate_keys();
    cluster.head->authorize(machines({cluster.client, renewed}));
    Station node(cluster.client_options("node/a", cluster.client, cluster.server.public_key));
    REQUIRE(node->connect("head", cluster.head->endpoint()).ok());
    REQUIRE(cluster.head.wait_for("up node/a"));
    Station next(cluster.client_options("node/a", renewed, cluster.server.public_key));
    REQUIRE(next->connect("head", cluster.head->endpoint()).ok());
    CHECK(cluster.head.wait_stats(
        [](const TransportStats& stats) { return stats.refused_identity > 0; }));
    CHECK(cluster.head.seen().count("up node/a") == 1);
    cluster.head->authorize(machines({renewed}));
    CHECK(next.wait_for("up head"));
    // The node may know of the connection before the head has seen it.
    CHECK(
        cluster.head.wait([](const Station::Seen& seen) { return seen.count("up node/a") == 2; }));
  }

  TEST_CASE("an authorized key cannot take the id of another key, present or recently left") {
    Cluster cluster;
    const CurveKeys thief = generate_keys();
    cluster.head->authorize(machines({cluster.client, thief}));
    Station node(cluster.client_options("node/a", cluster.client, cluster.server.public_key));
    REQUIRE(node->connect("head", cluster.head->endpoint()).ok());
    REQUIRE(cluster.head.wait_for("up node/a"));

    // The thief also uses the id as its ZeroMQ routing id.
    zmq::context_t context;
    zmq::socket_t raw(context, zmq::socket_type::dealer);
    raw.set(zmq::sockopt::linger, 0);
    raw.set(zmq::sockopt::routing_id, "node/a");
    raw.set(zmq::sockopt::curve_serverkey, cluster.server.public_key);
    raw.set(zmq::sockopt::curve_publickey, thief.public_key);
    raw.set(zmq::sockopt::curve_secretkey, thief.secret_key);
    raw.set(zmq::sockopt::rcvtimeo, 60000);
    raw.connect(cluster.head->endpoint());
    const auto claim_is_refused = [&] {
      raw.send(zmq::buffer(encode_control({.kind = ControlKind::kBeat, .from = "node/a"})),
               zmq::send_flags::none);
      zmq::message_t answer;
      if (!raw.recv(answer)) return false;
      const auto control = decode_control(answer.data(), answer.size());
      return control && control->kind == ControlKind::kBye;
    };
    CHECK(claim_is_refused());
    CHECK(cluster.head->stats().refused_identity == 1);
    cluster.head->send("node/a", numbered_frame(5));
    CHECK(node.wait_for("frame head 5"));
    node.stop();
    REQUIRE(cluster.head.wait_for("down node/a"));
    CHECK(claim_is_refused());
    CHECK(cluster.head.seen().count("up node/a") == 1);
    // Under its own name the thief is accepted, and it may not change the name afterwards.
    raw.send(zmq::buffer(encode_control({.kind = ControlKind::kBeat, .from = "node/b"})),
             zmq::send_flags::none);
    REQUIRE(cluster.head.wait_for("up node/b"));
    raw.send(zmq::buffer(encode_control({.kind = ControlKind::kBeat, .from = "node/a"})),
             zmq::send_flags::none);
    CHECK(cluster.head.wait_stats(
        [](const TransportStats& stats) { return stats.refused_identity == 3; }));
    CHECK(cluster.head.seen().count("up node/a") == 1);
  }
}

}  // namespace
}  // namespace es::actors
