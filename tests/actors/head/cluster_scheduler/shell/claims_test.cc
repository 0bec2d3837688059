#include "actors/head/cluster_scheduler/shell/claims.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "proto/messages.h"
#include "tests/actors/head/cluster_scheduler/shell/decisions_bench.h"
#include "tests/actors/head/cluster_scheduler/shell/full_disk.h"

namespace es::actors {
namespace {

struct Bench {
  bool full = false;
  HeadStore store{std::make_unique<test::FullDisk>(full)};
  DurableWrites writes{store, [] {}};
  std::vector<scheduler::Queue> queues;
  test::DecisionsBench head;
  Claims claims{store, writes, head.decisions, queues, head.clock()};

  Bench() {
    head.decisions.take_now(cluster::NodeJoined{.node = "n", .devices = *parse_device_set("a:4")});
  }
  std::vector<store::ClaimRecord> journal() { return store.claims().load_all().value(); }
};

template <class Schema, class Fill>
Inbound request(Fill&& fill) {
  return {.from = "client/1", .frame = Msg<Schema>::build({.request = 1}, fill).frame()};
}

Inbound claim(const std::string& name, const std::string& type, std::uint32_t count) {
  return request<wire::ClaimDevices>([&](wire::ClaimDevices::Builder b) {
    b.setName(name);
    b.setDeviceType(type);
    b.setCount(count);
  });
}

Inbound reservation(const std::string& name, std::uint64_t from, std::uint64_t until,
                    const std::string& queue = "", const std::string& tenant = "") {
  return request<wire::ReserveDevices>([&](wire::ReserveDevices::Builder b) {
    b.setName(name);
    b.setDeviceType("a");
    b.setCount(2);
    b.setFromUnixMs(from);
    b.setUntilUnixMs(until);
    b.setQueue(queue);
    b.setTenant(tenant);
  });
}

Inbound release(const std::string& name) {
  return request<wire::ReleaseClaim>([&](wire::ReleaseClaim::Builder b) { b.setName(name); });
}

TEST_SUITE("cluster_scheduler/claims") {
  TEST_CASE("a claim is in the journal and has its devices when the request is answered") {
    Bench bench;
    REQUIRE(bench.claims.claim(claim("c", "a", 3)).ok());
    CHECK(bench.journal() == std::vector<store::ClaimRecord>{{"c", {"a"}, 3}});
    REQUIRE(bench.head.decisions.core().claims().size() == 1);
    CHECK(bench.head.decisions.core().claims().front().devices == 3);
  }

  TEST_CASE("a request without a type changes the number of devices, and not the rest") {
    Bench bench;
    REQUIRE(bench.claims.reserve(reservation("r", 1'500'000, 2'000'000)).ok());
    REQUIRE(bench.claims.claim(claim("r", "", 1)).ok());
    CHECK(bench.journal() ==
          std::vector<store::ClaimRecord>{{"r", {"a"}, 1, 1'500'000, 2'000'000}});
    CHECK(bench.claims.time_of("r").until_unix_ms == 2'000'000);
    const Status unknown = bench.claims.claim(claim("other", "", 1));
    REQUIRE_FALSE(unknown.ok());
    CHECK(unknown.error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a wrong claim changes nothing") {
    Bench bench;
    for (const Inbound& wrong : {claim("", "a", 1), claim("a b", "a", 1), claim("c", "a", 0),
                                 claim(std::string(65, 'c'), "a", 1), claim("c", "a", 5)})
      CHECK_FALSE(bench.claims.claim(wrong).ok());
    CHECK(bench.journal().empty());
    CHECK(bench.head.decisions.core().claims().empty());
  }

  TEST_CASE("a claim that cannot be written is refused and not served") {
    Bench bench;
    bench.full = true;
    CHECK_FALSE(bench.claims.claim(claim("c", "a", 3)).ok());
    CHECK(bench.head.decisions.core().claims().empty());
    CHECK(bench.writes.warning().starts_with("the disk is full"));
  }

  TEST_CASE("a reservation begins now at the earliest, and must end later") {
    Bench bench;
    REQUIRE(bench.claims.reserve(reservation("r", 5, 1'010'000)).ok());
    CHECK(bench.claims.time_of("r").from_unix_ms == 1'000'000);
    const Status ended = bench.claims.reserve(reservation("s", 5, 1'000'000));
    REQUIRE_FALSE(ended.ok());
    CHECK(ended.error().kind == ErrorKind::kUsage);
  }

  TEST_CASE("a reservation is for the queue of a tenant, or for a queue, and not for both") {
    Bench bench;
    bench.queues = {{.name = "red", .guarantee = {}, .tenants = {"red"}}};
    CHECK_FALSE(bench.claims.reserve(reservation("r", 0, 2'000'000, "red", "red")).ok());
    CHECK_FALSE(bench.claims.reserve(reservation("r", 0, 2'000'000, "", "blue")).ok());
    CHECK(bench.journal().empty());
  }

  TEST_CASE("a claim that is released leaves the journal first") {
    Bench bench;
    REQUIRE(bench.claims.claim(claim("c", "a", 3)).ok());
    bench.full = true;
    CHECK_FALSE(bench.claims.release(release("c")).ok());
    CHECK(bench.head.decisions.core().claims().size() == 1);
    bench.full = false;
    REQUIRE(bench.writes.try_again());
    CHECK(bench.claims.release(release("c")).ok());
    CHECK(bench.journal().empty());
    CHECK(bench.head.decisions.core().claims().empty());
    CHECK_FALSE(bench.claims.release(release("c")).ok());
  }

  TEST_CASE("a reservation that has ended leaves the journal when that can be written") {
    Bench bench;
    REQUIRE(bench.claims.reserve(reservation("r", 0, 1'010'000)).ok());
    bench.full = true;
    bench.claims.ended({"r"});
    CHECK(bench.claims.time_of("r").until_unix_ms == 0);
    bench.full = false;
    CHECK(bench.journal().size() == 1);
    REQUIRE(bench.writes.try_again());
    CHECK(bench.journal().empty());
  }

  TEST_CASE("the next head has the claims of the journal, at the same dates") {
    Bench bench;
    REQUIRE(bench.claims.claim(claim("c", "a", 1)).ok());
    REQUIRE(bench.claims.reserve(reservation("r", 1'100'000, 1'200'000)).ok());
    test::DecisionsBench next;
    next.now_s = 7;
    next.unix_ms = 1'150'000;
    Claims restored(bench.store, bench.writes, next.decisions, bench.queues, next.clock());
    REQUIRE(restored.restore().ok());
    next.decisions.take_now(cluster::NodeJoined{.node = "n", .devices = *parse_device_set("a:4")});
    const auto claims = next.decisions.core().claims();
    REQUIRE(claims.size() == 2);
    CHECK(claims[0].devices == 1);
    CHECK(claims[1].begun);
    CHECK(claims[1].devices == 2);
    CHECK(restored.time_of("r").from_unix_ms == 1'100'000);
  }
}

}  // namespace
}  // namespace es::actors
