#include "actors/head/cluster_scheduler/shell/durable_writes.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/actors/head/cluster_scheduler/shell/full_disk.h"

namespace es::actors {
namespace {

struct Bench {
  bool full = false;
  HeadStore store{std::make_unique<test::FullDisk>(full)};
  int wakes = 0;
  DurableWrites writes{store, [this] { ++wakes; }};
  std::vector<std::string> written;

  std::function<Status()> write(const std::string& name) {
    return [this, name]() -> Status {
      if (full) return failure("no space for " + name);
      written.push_back(name);
      return {};
    };
  }
};

using Names = std::vector<std::string>;

TEST_SUITE("cluster_scheduler/durable_writes") {
  TEST_CASE("a write that is possible is made at once") {
    Bench bench;
    bench.writes.when_possible(bench.write("a"));
    CHECK(bench.written == Names{"a"});
    CHECK(bench.writes.check_accepting().ok());
    CHECK(bench.writes.warning().empty());
    CHECK(bench.wakes == 0);
  }

  TEST_CASE("later writes queue behind one that waits, and their order is kept") {
    Bench bench;
    bench.full = true;
    bench.writes.when_possible(bench.write("a"));
    CHECK(bench.writes.warning() == "no space for a");
    bench.full = false;
    bench.writes.when_possible(bench.write("b"));
    CHECK(bench.written.empty());
    CHECK(bench.writes.try_again());
    CHECK(bench.written == Names{"a", "b"});
    CHECK(bench.writes.warning().empty());
  }

  TEST_CASE("while a write waits nothing is accepted, and one wake is on its way") {
    Bench bench;
    bench.full = true;
    bench.writes.failed("a job cannot write");
    bench.writes.failed("nor can another one");
    CHECK(bench.wakes == 1);
    const Status refusal = bench.writes.check_accepting();
    REQUIRE_FALSE(refusal.ok());
    CHECK(refusal.error().kind == ErrorKind::kRefused);
    CHECK(refusal.error().message == "nor can another one");
    CHECK_FALSE(bench.writes.try_again());
    CHECK(bench.wakes == 2);
    CHECK(bench.writes.warning().starts_with("the disk is full"));
    bench.full = false;
    CHECK(bench.writes.try_again());
    CHECK(bench.wakes == 2);
    CHECK(bench.writes.check_accepting().ok());
  }

  TEST_CASE("a full disk is noticed before anything is accepted") {
    Bench bench;
    bench.full = true;
    CHECK_FALSE(bench.writes.check_accepting().ok());
    CHECK(bench.wakes == 1);
  }

  TEST_CASE("a write that fails again stays the first one") {
    Bench bench;
    bench.full = true;
    bench.writes.when_possible(bench.write("a"));
    bench.writes.when_possible(bench.write("b"));
    CHECK_FALSE(bench.writes.try_again());
    bench.full = false;
    CHECK(bench.writes.try_again());
    CHECK(bench.written == Names{"a", "b"});
  }
}

}  // namespace
}  // namespace es::actors
