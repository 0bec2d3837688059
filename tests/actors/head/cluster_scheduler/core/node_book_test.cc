#include "actors/head/cluster_scheduler/core/node_book.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

namespace es::actors {
namespace {

using Workers = std::set<Incarnation>;

NodeArrival arrival(const std::string& name, std::vector<Incarnation> workers = {}) {
  return {.name = name, .devices = *parse_device_set("a:2"), .workers = std::move(workers)};
}

std::vector<std::string> ready(NodeBook& book) {
  std::vector<std::string> names;
  for (const NodeArrival& node : book.take_ready()) names.push_back(node.name);
  return names;
}

using Names = std::vector<std::string>;

TEST_SUITE("cluster_scheduler/node_book") {
  TEST_CASE("a node without workers is ready at once") {
    NodeBook book;
    CHECK_FALSE(book.has_said_hello("n"));
    CHECK(book.hello(arrival("n")).empty());
    CHECK(book.has_said_hello("n"));
    CHECK(ready(book) == Names{"n"});
    CHECK(ready(book).empty());
  }

  TEST_CASE("workers of an earlier head that the journal does not have are strays") {
    NodeBook book;
    book.begin_with({10});
    book.await_worker({4}, "job", {"n", {"a"}, 0});
    CHECK(book.hello(arrival("n", {{3}, {4}, {5}, {10}})) == Workers{{3}, {5}});
    CHECK(ready(book).empty());
    CHECK_FALSE(book.reaped("n", {3}));
    CHECK_FALSE(book.reaped("n", {3}));
    CHECK_FALSE(book.reaped("other", {5}));
    CHECK(book.reaped("n", {5}));
    CHECK(ready(book) == Names{"n"});
    CHECK_FALSE(book.reaped("n", {5}));
  }

  TEST_CASE("all workers of a node that was lost are strays, once") {
    NodeBook book;
    book.begin_with({1});
    CHECK(book.hello(arrival("n", {{7}})).empty());
    CHECK(book.part("n") == NodeBook::Parting::kLost);
    CHECK(book.hello(arrival("n", {{7}})) == Workers{{7}});
    CHECK(book.hello(arrival("n", {{7}})).empty());
  }

  TEST_CASE("a node that is lost is not ready any more") {
    NodeBook book;
    book.begin_with({10});
    (void)book.hello(arrival("n"));
    (void)book.hello(arrival("m", {{1}}));
    CHECK(book.part("n") == NodeBook::Parting::kLost);
    CHECK(book.part("m") == NodeBook::Parting::kLost);
    CHECK_FALSE(book.reaped("m", {1}));
    CHECK(ready(book).empty());
    CHECK(book.part("unknown") == NodeBook::Parting::kUnknown);
  }

  TEST_CASE("after a restart the nodes of the journal are awaited, or until the wait ends") {
    NodeBook book;
    book.begin_with({10});
    CHECK_FALSE(book.awaits_nodes());
    book.await_worker({1}, "job", {"n", {"a"}, 0});
    book.await_worker({2}, "job", {"m", {"a"}, 1});
    (void)book.hello(arrival("other"));
    (void)book.hello(arrival("n", {{1}}));
    CHECK(book.awaits_nodes());
    SUBCASE("they come") {
      (void)book.hello(arrival("m", {{9}}));
      CHECK(book.awaits_nodes());
      CHECK(book.reaped("m", {9}));
      CHECK_FALSE(book.awaits_nodes());
      CHECK(ready(book) == Names{"other", "n", "m"});
    }
    SUBCASE("one does not come") {
      book.stop_awaiting();
      CHECK_FALSE(book.awaits_nodes());
      CHECK(ready(book) == Names{"other", "n"});
    }
  }

  TEST_CASE("a node joins with its place and the devices of its known workers") {
    NodeBook book;
    book.begin_with({10});
    book.await_worker({1}, "job", {"n", {"a"}, 1});
    book.set_place("n", {.rack = "r"});
    const cluster::NodeJoined joined = book.joined(arrival("n", {{1}, {12}}));
    CHECK(joined.node == "n");
    CHECK(joined.place.rack == "r");
    REQUIRE(joined.kept.size() == 1);
    CHECK(joined.kept.front().first == "job");
    CHECK(joined.kept.front().second == DeviceId{"n", {"a"}, 1});
    CHECK(book.part("n") == NodeBook::Parting::kUnknown);
    CHECK(book.joined(arrival("n")).place.rack.empty());
  }

  TEST_CASE("a node that drains is present until it leaves, and a hello ends that") {
    NodeBook book;
    const DevicePool::NodeView lost{.name = "n"};
    (void)book.hello(arrival("n"));
    CHECK(book.drain("n"));
    CHECK_FALSE(book.drain("n"));
    CHECK(book.is_draining("n"));
    CHECK(book.is_present(lost));
    CHECK(book.part("n") == NodeBook::Parting::kLeft);
    CHECK_FALSE(book.is_present(lost));
    CHECK(book.is_present({.name = "n", .alive = true}));
    CHECK(book.drain("n"));
    (void)book.hello(arrival("n"));
    CHECK_FALSE(book.is_draining("n"));
  }

  TEST_CASE("a node that jobs have left is present while its link is") {
    NodeBook book;
    const DevicePool::NodeView empty{.name = "n"};
    book.vacate("n", 100, 5000);
    CHECK_FALSE(book.is_present(empty));
    (void)book.hello(arrival("n"));
    CHECK(book.is_present(empty));
    (void)book.part("n");
    CHECK_FALSE(book.is_present(empty));
  }

  TEST_CASE("a node is gone when its announced end has passed") {
    NodeBook book;
    book.vacate("n", 100, 5000);
    book.vacate("stays", 0, 0);
    CHECK_FALSE(book.is_gone("n", 99));
    CHECK(book.is_gone("n", 100));
    CHECK_FALSE(book.is_gone("stays", 1e9));
    CHECK_FALSE(book.is_gone("unknown", 1e9));
    CHECK(book.gone_unix_ms("n") == 5000);
    CHECK(book.gone_unix_ms("stays") == 0);
    book.stop_vacating("n");
    CHECK_FALSE(book.is_vacated("n"));
    CHECK(book.gone_unix_ms("n") == std::nullopt);
  }

  TEST_CASE("half of a notice is for leaving, and half a minute at most") {
    CHECK(leave_time_s(1000, 20) == 1010);
    CHECK(leave_time_s(1000, 60) == 1030);
    CHECK(leave_time_s(1000, 600) == 1570);
    CHECK(leave_time_s(1000, 0) == 1000);
  }
}

}  // namespace
}  // namespace es::actors
