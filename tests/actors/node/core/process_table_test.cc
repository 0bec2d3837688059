#include "actors/node/core/process_table.h"

#include <doctest/doctest.h>

using namespace es;
using namespace es::actors;
using Start = ProcessTable::Start;
using Kill = ProcessTable::Kill;

namespace {

constexpr Incarnation kOne{1}, kTwo{2};

}  // namespace

TEST_SUITE("actors/node/process_table") {
  TEST_CASE("a process is started once, and is gone when it has ended") {
    ProcessTable table;
    CHECK(table.start("job", kOne) == Start::kNow);
    CHECK(table.start("job", kOne) == Start::kKnown);
    CHECK(table.start("other", kTwo) == Start::kNow);
    CHECK(table.incarnations() == std::vector<Incarnation>{kOne, kTwo});
    CHECK_FALSE(table.started(kOne, 4711));
    CHECK(table.pid(kOne) == 4711);
    CHECK(table.ended(kOne) == "job");
    CHECK_FALSE(table.ended(kOne));
    CHECK(table.incarnations() == std::vector<Incarnation>{kTwo});
  }

  TEST_CASE("a process that could not be started may be started again") {
    ProcessTable table;
    CHECK(table.start("job", kOne) == Start::kNow);
    table.not_started(kOne);
    CHECK_FALSE(table.contains(kOne));
    CHECK(table.start("job", kOne) == Start::kNow);
  }

  TEST_CASE("a kill waits for the process id, and finds no process that has ended") {
    ProcessTable table;
    CHECK(table.kill(kOne) == Kill::kUnknown);
    table.start("job", kOne);
    CHECK(table.kill(kOne) == Kill::kLater);
    CHECK(table.started(kOne, 4711));
    CHECK(table.kill(kOne) == Kill::kNow);
    table.ended(kOne);
    CHECK(table.kill(kOne) == Kill::kUnknown);
  }

  TEST_CASE("a node that drains starts nothing and has drained when its last process has ended") {
    ProcessTable table;
    table.start("job", kOne);
    CHECK_FALSE(table.drained());
    table.drain();
    CHECK(table.draining());
    CHECK_FALSE(table.drained());
    CHECK(table.start("job", kOne) == Start::kKnown);
    CHECK(table.start("job", kTwo) == Start::kRefused);
    CHECK_FALSE(table.contains(kTwo));
    table.ended(kOne);
    CHECK(table.drained());
  }
}
