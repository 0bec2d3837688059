#include "actors/views/cluster_checks.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace es::actors;
using Verdict = Finding::Verdict;

namespace {

std::vector<std::string> complaints(const ClusterAnswer& answer) {
  std::vector<std::string> texts;
  for (const Finding& f : check_cluster(answer))
    if (f.verdict != Verdict::kFine) texts.push_back(f.area + ": " + f.text);
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_SUITE("actors/views/cluster_checks") {
  TEST_CASE("a cluster that works has no complaints") {
    CHECK(complaints({.nodes = {{.name = "n1", .alive = true, .clock_ahead_ms = 3}},
                      .clock_ahead_ms = -1500}) == Texts{});
  }

  TEST_CASE("clocks that differ are named with the direction") {
    CHECK(complaints({.clock_ahead_ms = 7500}) ==
          Texts{"clock: The clock of the head is 7.5 s ahead of that of this machine."});
    CHECK(complaints({.clock_ahead_ms = 7500, .round_trip_ms = 6000}) == Texts{});
    CHECK(complaints({.nodes = {{.name = "n1", .alive = true, .clock_ahead_ms = -4000}}}) ==
          Texts{"clock: The clock of node n1 is 4.0 s behind that of the head."});
  }

  TEST_CASE("nodes, devices and the head's disk") {
    NodeView lost{.name = "n1"}, draining{.name = "n2", .alive = true, .draining = true};
    NodeView suspect{.name = "n3", .alive = true};
    suspect.devices = {{.type = "cpu-avx2", .index = 4, .job = {}, .suspect = "computes wrongly"}};
    suspect.checkpoint_problem = "no room";
    CHECK(complaints({.nodes = {lost, draining, suspect}, .warning = "the disk is full"}) ==
          Texts{"head: The head has a problem: the disk is full.", "nodes: Node n1 is lost.",
                "nodes: Node n2 is about to end.",
                "nodes: Jobs cannot be saved on node n3: no room.",
                "nodes: Device n3/cpu-avx2:4 is suspect: computes wrongly."});
    NodeView aside{.name = "n4", .alive = true};
    aside.devices = {{.type = "cpu-avx2", .index = 0, .job = {}, .suspect = "ended"}};
    aside.devices[0].suspect_until_unix_ms = 9000;
    aside.cut_from = {"n5"};
    CHECK(
        complaints({.nodes = {aside}}) ==
        Texts{"nodes: Device n4/cpu-avx2:0 is set aside: ended.",
              "nodes: Workers on the nodes n4 and n5 cannot reach each other; no job uses both."});
  }
}
