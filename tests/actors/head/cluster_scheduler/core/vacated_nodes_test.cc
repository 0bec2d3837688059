#include "actors/head/cluster_scheduler/core/vacated_nodes.h"

#include <doctest/doctest.h>

using es::actors::VacatedNodes;

TEST_SUITE("actors/head/cluster_scheduler/core/vacated_nodes") {
  TEST_CASE("a node is due from its time on, and a later time moves it") {
    VacatedNodes nodes;
    nodes.vacate("a", 5);
    CHECK(nodes.next_s(0) == 5);
    CHECK(nodes.due(4).empty());
    nodes.vacate("a", 8);
    CHECK(nodes.due(5).empty());
    CHECK(nodes.due(8) == std::vector<std::string>{"a"});
    CHECK(nodes.next_s(8) == es::scheduler::kNever.count());
  }

  TEST_CASE("whether a node was emptied is forgotten when its daemon goes away") {
    VacatedNodes nodes;
    CHECK_FALSE(nodes.stay("a").has_value());
    nodes.vacate("a", 1);
    nodes.emptied("a");
    nodes.vacate("a", 2);
    CHECK(nodes.stay("a") == true);
    nodes.vacate("a", 1);
    nodes.emptied("a");
    nodes.forget_emptied("a");
    CHECK(nodes.stay("a") == false);
    CHECK_FALSE(nodes.stay("a").has_value());
  }
}
