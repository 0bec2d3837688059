#include "actors/head/intra_job/core/stage_schedule.h"

#include <doctest/doctest.h>

namespace es::actors::intra_job {
namespace {

TEST_SUITE("actors/head/intra_job/stage_schedule") {
  TEST_CASE("a boundary belongs to the stage that begins there") {
    const StageSchedule schedule(parse_stages("cpu-avx2:2@20,cpu-avx2:1@10").value(), 100);
    CHECK(schedule.stage_at(100) == 0);
    CHECK(schedule.stage_at(119) == 0);
    CHECK(schedule.stage_at(120) == 1);
    CHECK(schedule.stage_at(500) == 1);
    CHECK(schedule.begin(1) == 120);
    CHECK(schedule.end(0) == 120);
    CHECK_FALSE(schedule.end(1).has_value());
  }

  TEST_CASE("the demand of a stage has room for the next one, type by type") {
    const StageSchedule schedule(
        parse_stages("cpu-avx512:4@20,cpu-avx2:2@20,cpu-scalar:1+cpu-avx2:1@20").value(), 0);
    CHECK(schedule.demand(0).text() == "cpu-avx2:2+cpu-avx512:4");
    CHECK(schedule.demand(1).text() == "cpu-avx2:2+cpu-scalar:1");
    CHECK(schedule.demand(2).text() == "cpu-avx2:1+cpu-scalar:1");
  }

  TEST_CASE("a job without stages has an empty schedule") {
    CHECK(StageSchedule({}, 0).empty());
  }
}

}  // namespace
}  // namespace es::actors::intra_job
