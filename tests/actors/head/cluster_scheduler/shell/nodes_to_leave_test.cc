#include "actors/head/cluster_scheduler/shell/nodes_to_leave.h"

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
  test::DecisionsBench head;
  NodeBook book;
  NodesToLeave to_leave{store, writes, head.decisions, book, head.clock()};

  Bench() {
    head.decisions.take_now(cluster::NodeJoined{.node = "n", .devices = *parse_device_set("a:1")});
  }
  std::vector<store::VacatedNode> journal() { return store.vacated().load_all().value(); }
};

Inbound vacate(const std::string& node, double seconds, bool cancel = false) {
  const auto message = Msg<wire::VacateNode>::build({.request = 1}, [&](auto b) {
    b.setNode(node);
    b.setSeconds(seconds);
    b.setCancel(cancel);
  });
  return {.from = "client/1", .frame = message.frame()};
}

ErrorKind kind_of(const Status& status) {
  REQUIRE_FALSE(status.ok());
  return status.error().kind;
}

TEST_SUITE("cluster_scheduler/nodes_to_leave") {
  TEST_CASE("a notice is journaled with its date, until it is cancelled") {
    Bench bench;
    REQUIRE(bench.to_leave.vacate(vacate("n", 60)).ok());
    CHECK(bench.journal() == std::vector<store::VacatedNode>{{"n", 1'060'000}});
    CHECK(bench.book.gone_unix_ms("n") == 1'060'000);
    REQUIRE(bench.to_leave.vacate(vacate("n", 0, true)).ok());
    CHECK(bench.journal().empty());
    CHECK_FALSE(bench.book.is_vacated("n"));
  }

  TEST_CASE("jobs leave a node without a date at once") {
    Bench bench;
    const int asked = bench.head.asked;
    REQUIRE(bench.to_leave.vacate(vacate("n", 0)).ok());
    CHECK(bench.book.gone_unix_ms("n") == 0);
    CHECK(bench.head.asked == asked + 1);
    CHECK(bench.head.decisions.core().existing_devices().empty());
  }

  TEST_CASE("wrong requests change nothing") {
    Bench bench;
    CHECK(kind_of(bench.to_leave.vacate(vacate("other", 0))) == ErrorKind::kNotFound);
    CHECK(kind_of(bench.to_leave.vacate(vacate("n", -1))) == ErrorKind::kUsage);
    CHECK(kind_of(bench.to_leave.vacate(vacate("n", 1e8))) == ErrorKind::kUsage);
    CHECK(kind_of(bench.to_leave.vacate(vacate("n", 0, true))) == ErrorKind::kRefused);
    bench.full = true;
    CHECK(kind_of(bench.to_leave.vacate(vacate("n", 0))) == ErrorKind::kRefused);
    CHECK_FALSE(bench.book.is_vacated("n"));
  }

  TEST_CASE("a node that comes back after its announced end is a new one") {
    Bench bench;
    REQUIRE(bench.to_leave.vacate(vacate("n", 60)).ok());
    bench.head.now_s += 59;
    bench.to_leave.forget_gone("n");
    CHECK(bench.book.is_vacated("n"));
    bench.head.now_s += 1;
    bench.to_leave.forget_gone("n");
    CHECK_FALSE(bench.book.is_vacated("n"));
    CHECK(bench.journal().empty());
  }

  TEST_CASE("a notice that waits to be erased is kept if the node has to be left again") {
    Bench bench;
    REQUIRE(bench.to_leave.vacate(vacate("n", 60)).ok());
    bench.head.now_s += 60;
    bench.full = true;
    bench.to_leave.forget_gone("n");
    bench.book.vacate("n", 0, 0);
    bench.full = false;
    REQUIRE(bench.writes.try_again());
    CHECK(bench.journal().size() == 1);
  }

  TEST_CASE("the next head knows the notices that have not passed") {
    Bench bench;
    REQUIRE(bench.store.vacated().save({"gone", 999'999}).ok());
    REQUIRE(bench.store.vacated().save({"later", 1'030'000}).ok());
    REQUIRE(bench.store.vacated().save({"stays", 0}).ok());
    REQUIRE(bench.to_leave.restore().ok());
    CHECK_FALSE(bench.book.is_vacated("gone"));
    CHECK(bench.book.gone_unix_ms("later") == 1'030'000);
    CHECK_FALSE(bench.book.is_gone("later", 129.5));
    CHECK(bench.book.is_gone("later", 130));
    CHECK(bench.book.gone_unix_ms("stays") == 0);
    CHECK(bench.journal().size() == 2);
  }
}

}  // namespace
}  // namespace es::actors
