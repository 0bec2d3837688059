// Devices that are set aside: what jobs are given and what the policy sees meanwhile.
#include <doctest/doctest.h>

#include <memory>

#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "scheduler/policy/greedy/greedy.h"

namespace es::actors {
namespace {

using namespace cluster;
using namespace protocol;
using Fault = DeviceFailed::Fault;

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

struct Cluster {
  void on(const Event& event) {
    core.on(event, now_s);
    core.check_invariants();
  }
  void admit(const JobId& job, std::uint32_t min_devices = 1, std::uint32_t max_p = 8) {
    on(JobAdmitted{.job = job, .resources = {.min_devices = min_devices}, .max_p = max_p});
  }
  void wants(const JobId& job, const char* exact) {
    on(FromJob{job, Demand{.exact = devices(exact)}});
  }
  // The job wants as many devices of type a as there are.
  void grows(const JobId& job, std::uint64_t sequence) {
    on(FromJob{job, Demand{.proposals = {{{"a"}, 8, 2.0}}, .sequence = sequence}});
  }
  // A try on this device has failed, and its process was reaped.
  void fails(const JobId& job, const DeviceId& device, Fault fault, const std::string& other = "") {
    on(FromJob{job, DeviceFailed{device, "why", fault, other}});
    on(FromJob{job, DeviceReleased{device}});
  }
  std::set<std::string> nodes_of(const JobId& job) const {
    std::set<std::string> nodes;
    for (const DeviceId& device : core.held(job)) nodes.insert(device.node);
    return nodes;
  }

  double now_s = 0;
  ClusterCore core{std::make_unique<scheduler::GreedyPolicy>()};
};

DeviceId device(const std::string& node, std::uint32_t index = 0) {
  return {node, {"a"}, index};
}

using Nodes = std::set<std::string>;

}  // namespace

TEST_SUITE("actors/head/cluster_scheduler/cluster_faults") {
  TEST_CASE("jobs on which a broken node was tried run elsewhere, and the node is tried again") {
    Cluster c;
    c.on(NodeJoined{"bad", devices("a:2")});
    c.admit("j");
    c.wants("j", "a:1");
    c.admit("k");
    c.wants("k", "a:1");
    c.fails("j", device("bad", 0), Fault::kNode);
    c.fails("k", device("bad", 1), Fault::kNode);
    CHECK(c.core.held("j").empty());
    CHECK(c.core.existing_devices() == devices("a:2"));  // No demand is refused meanwhile.
    CHECK(c.core.decide_again_s() == 2);
    c.on(NodeJoined{"good", devices("a:1")});
    CHECK(c.nodes_of("j") == Nodes{"good"});
    c.now_s = 2;
    c.core.decide(c.now_s);
    CHECK(c.nodes_of("k") == Nodes{"bad"});
    c.fails("k", device("bad", 0), Fault::kNode);
    CHECK(c.core.held("k").empty());  // The whole node, at once, and for twice the time.
    CHECK(c.core.decide_again_s() == 6);
  }

  TEST_CASE("an operator, and a daemon that is started again, bring a node back at once") {
    for (const bool restarts : {true, false}) {
      Cluster c;
      c.on(NodeJoined{"n", devices("a:2")});
      c.admit("j");
      c.wants("j", "a:1");
      c.fails("j", device("n", 0), Fault::kNode);
      CHECK(c.core.held("j") == std::set{device("n", 1)});
      c.fails("j", device("n", 1), Fault::kNode);
      CHECK(c.core.held("j").empty());
      CHECK(c.core.is_set_aside(device("n", 1)));
      if (restarts) {
        c.on(NodeLost{"n"});
        c.on(NodeJoined{"n", devices("a:2")});
      } else {
        c.on(DeviceCleared{device("n", 0)});
      }
      CHECK(c.core.held("j").size() == 1);
      CHECK_FALSE(c.core.is_set_aside(device("n", 1)));
    }
  }

  TEST_CASE("a job that fails on one node is tried on another one before it is tried there again") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:3")});
    c.admit("j");
    c.wants("j", "a:1");
    c.on(NodeJoined{"m", devices("a:1")});
    c.admit("k");
    c.fails("j", device("n", 0), Fault::kUnknown);
    CHECK(c.nodes_of("j") == Nodes{"m"});
    c.wants("k", "a:2");  // Others use the node meanwhile, all but one device.
    CHECK(c.core.held("k") == std::set{device("n", 1), device("n", 2)});
    c.fails("j", device("m", 0), Fault::kUnknown);
    c.on(FromJob{"j", JobEnded{}});
    CHECK_FALSE(c.core.is_set_aside(device("n", 0)));
    CHECK_FALSE(c.core.is_set_aside(device("m", 0)));
  }

  TEST_CASE("a job with one node is tried there again at once") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:1")});
    c.admit("j");
    c.wants("j", "a:1");
    c.fails("j", device("n", 0), Fault::kUnknown);
    CHECK(c.core.held("j").size() == 1);
  }

  TEST_CASE("while a job waits for a node where it was not tried, others get the free devices") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    c.on(NodeJoined{"m", devices("a:1")});
    c.admit("j");
    c.wants("j", "a:1");
    c.admit("k");
    c.admit("l");
    const std::string other = c.nodes_of("j") == Nodes{"n"} ? "m" : "n";
    REQUIRE(other == "m");
    c.wants("k", "a:2");
    REQUIRE(c.core.held("k").size() == 2);  // The other device of n, and m.
    c.fails("j", device("n", 0), Fault::kUnknown);
    CHECK(c.core.held("j").empty());
    c.now_s = 100;
    c.wants("l", "a:1");
    CHECK(c.nodes_of("l") == Nodes{"n"});
    c.on(FromJob{"k", JobEnded{}});
    CHECK(c.nodes_of("j") == Nodes{"m"});
  }

  TEST_CASE("a job that cannot span two nodes is placed on one, and on both after a while") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    c.on(NodeJoined{"m", devices("a:2")});
    c.admit("j");
    c.wants("j", "a:4");
    REQUIRE(c.nodes_of("j") == Nodes{"m", "n"});
    c.on(FromJob{"j", DeviceFailed{device("n"), "no link", Fault::kLink, "m"}});
    for (const std::uint32_t index : {0, 1}) c.on(FromJob{"j", DeviceReleased{device("n", index)}});
    CHECK(c.nodes_of("j") == Nodes{"m"});
    CHECK(c.core.cut_from("n").at(0).first == "m");
    // A job that would need both waits, and takes nothing from one that does not.
    c.admit("both", 4);
    c.grows("both", 0);
    CHECK(c.core.held("both").empty());
    c.admit("k");
    c.wants("k", "a:2");
    CHECK(c.nodes_of("k") == Nodes{"n"});
    c.on(FromJob{"k", JobEnded{}});
    c.on(FromJob{"both", JobEnded{}});
    c.now_s = 25;
    c.core.decide(c.now_s);
    CHECK(c.nodes_of("j") == Nodes{"m", "n"});
  }

  TEST_CASE("an elastic job begins on one of two nodes that have no link") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    c.on(NodeJoined{"m", devices("a:2")});
    c.admit("j");
    c.wants("j", "a:4");
    c.on(FromJob{"j", DeviceFailed{device("n"), "no link", Fault::kLink, "m"}});
    c.on(FromJob{"j", JobEnded{}});
    c.admit("k");
    c.grows("k", 0);
    CHECK(c.nodes_of("k").size() == 1);
  }
}

}  // namespace es::actors
