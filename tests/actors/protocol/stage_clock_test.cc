#include "actors/intra_job/stage_clock.h"

#include <doctest/doctest.h>

namespace es::actors::intra_job {
namespace {

using std::chrono::seconds;

TEST_SUITE("actors/intra_job/stage_clock") {
  TEST_CASE("training and pauses of two placements are told apart") {
    StageClock clock;
    clock.pause(seconds(1));  // before the first start there is no pause
    clock.go(seconds(10), 0, "a:2");
    clock.step();
    clock.step();
    clock.pause(seconds(30));
    clock.pause(seconds(31));  // the second member pauses
    clock.go(seconds(33), 1, "a:1");
    clock.step();
    const std::vector<StageReport> reports = clock.reports(seconds(40));
    REQUIRE(reports.size() == 2);
    CHECK(reports[0].placement == "a:2");
    CHECK(reports[0].steps == 2);
    CHECK(reports[0].training == seconds(20));
    CHECK(reports[0].rescale == seconds(0));
    CHECK(reports[1].steps == 1);
    CHECK(reports[1].training == seconds(7));
    CHECK(reports[1].rescale == seconds(3));
  }

  TEST_CASE("a lost worker that is replaced does not open a new report") {
    StageClock clock;
    clock.go(seconds(0), 0, "a:2");
    clock.pause(seconds(5));
    clock.go(seconds(6), 0, "a:2");
    clock.pause(seconds(10));
    const std::vector<StageReport> reports = clock.reports(seconds(20));
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].training == seconds(9));
    CHECK(reports[0].rescale == seconds(1));
  }

  TEST_CASE("equal placements of two stages are two reports") {
    StageClock clock;
    clock.go(seconds(0), 0, "a:2");
    clock.go(seconds(1), 1, "a:2");
    CHECK(clock.reports(seconds(2)).size() == 2);
  }
}

}  // namespace
}  // namespace es::actors::intra_job
