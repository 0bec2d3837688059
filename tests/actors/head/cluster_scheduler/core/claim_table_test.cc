#include "actors/head/cluster_scheduler/core/claim_table.h"

#include <doctest/doctest.h>

using namespace es;
using namespace es::actors;

namespace {

const DeviceType kType{"cpu-avx2"};

struct Table {
  cluster::Limits limits;
  DevicePool pool;
  ClaimTable claims{limits, pool};

  explicit Table(std::uint32_t devices) {
    DeviceSet set;
    set.add(kType, devices);
    pool.join("n", set);
  }
  std::size_t held(const std::string& claim) const { return pool.held(claim_owner(claim)).size(); }
};

}  // namespace

TEST_SUITE("actors/head/cluster_scheduler/core/claim_table") {
  TEST_CASE("a claim gets what is free, and says what it lacks until jobs give it") {
    Table table(3);
    table.pool.grant("job", kType, 2);
    REQUIRE(table.claims.make({.name = "web", .type = kType, .count = 2}));
    CHECK_FALSE(table.claims.make({.name = "web", .type = kType, .count = 2}));
    CHECK(table.claims.serve(0) == std::map<DeviceType, std::uint32_t>{{kType, 1}});
    CHECK(table.held("web") == 1);
    CHECK(table.claims.missing(0).count_of(kType) == 1);
    CHECK(table.claims.taken(0).count_of(kType) == 2);
    CHECK(table.claims.views(0).front().missing == 1);
    table.pool.release_all("job");
    CHECK(table.claims.serve(0).empty());
    CHECK(table.held("web") == 2);
    REQUIRE(table.claims.resize({"web", 1}));
    CHECK(table.held("web") == 1);
    REQUIRE(table.claims.end({"web"}));
    CHECK_FALSE(table.claims.end({"web"}));
    CHECK(table.pool.free_devices().count_of(kType) == 3);
  }

  TEST_CASE("in a cluster that may grow a claim may be larger than the cluster, within its quota") {
    Table table(2);
    const cluster::ClaimMade web{.name = "web", .type = kType, .count = 3};
    CHECK_FALSE(table.claims.check(web).ok());
    table.limits.may_grow = true;
    CHECK(table.claims.check(web).ok());
    REQUIRE(table.claims.make(web));
    CHECK(table.claims.serve(0) == std::map<DeviceType, std::uint32_t>{{kType, 1}});
    table.limits.claims = DeviceSet{{{kType, 3}}};
    CHECK_FALSE(table.claims.check(cluster::ClaimResized{"web", 4}).ok());
    DeviceSet one;
    one.add(kType, 1);
    table.pool.join("o", one);
    CHECK(table.claims.serve(0).empty());
    CHECK(table.held("web") == 3);
  }

  TEST_CASE("a reservation takes devices from its begin to its end") {
    Table table(2);
    REQUIRE(table.claims.make(
        {.name = "night", .type = kType, .count = 2, .begin_s = 10, .end_s = 20}));
    CHECK(table.claims.next_s(0) == 10);
    CHECK(table.claims.serve(9).empty());
    CHECK(table.held("night") == 0);
    CHECK_FALSE(table.claims.views(9).front().begun);
    (void)table.claims.serve(10);
    CHECK(table.held("night") == 2);
    CHECK(table.claims.next_s(10) == 20);
    table.claims.end_until(20);
    CHECK(table.held("night") == 0);
    CHECK(table.claims.take_ended() == std::vector<std::string>{"night"});
    CHECK(table.claims.take_ended().empty());
  }

  TEST_CASE("the guarantees of queues change only when a reservation for a queue begins or ends") {
    Table table(2);
    table.limits.queues = {{.name = "a", .guarantee = {}}};
    REQUIRE(table.claims.renew_guarantees(0));
    REQUIRE(table.claims.make(
        {.name = "r", .type = kType, .count = 1, .begin_s = 5, .end_s = 9, .queue = "a"}));
    CHECK_FALSE(table.claims.renew_guarantees(4));
    const auto begun = table.claims.renew_guarantees(5);
    REQUIRE(begun);
    CHECK(begun->front().guarantee.count_of(kType) == 1);
    CHECK_FALSE(table.claims.renew_guarantees(6));
    table.claims.end_until(9);
    CHECK(table.claims.renew_guarantees(9)->front().guarantee.empty());
  }
}
