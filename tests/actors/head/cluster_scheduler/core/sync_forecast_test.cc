#include "actors/head/cluster_scheduler/core/sync_forecast.h"

#include <doctest/doctest.h>

using namespace es;
using namespace es::actors;

namespace {

// A job on two devices since the time 0, with one step in a second.
scheduler::JobView job_of(std::uint64_t number) {
  scheduler::JobView view;
  view.id = "job" + std::to_string(number);
  view.number = number;
  view.held.add({"cpu-avx2"}, 2);
  view.changed = scheduler::Seconds(0);
  view.work.steps_per_s = 1;
  return view;
}

}  // namespace

TEST_SUITE("actors/head/cluster_scheduler/core/sync_forecast") {
  TEST_CASE("what others lose is expected of a job until it has measured it") {
    SyncForecast forecast(true);
    for (std::uint64_t number = 1; number <= scheduler::SyncPrior::kJobsMin; ++number)
      forecast.learn(number, 2);
    CHECK(forecast.take_changed());
    CHECK_FALSE(forecast.take_changed());
    scheduler::JobView job = job_of(9);
    forecast.expect(job, false);
    CHECK(job.expected_sync_s == 2);
    const double at_s = forecast.measured_by().of(9);
    CHECK(forecast.measured_by().due(at_s) == std::vector<std::uint64_t>{9});
    CHECK_FALSE(forecast.loses_nothing(job, at_s - 1));
    CHECK(forecast.loses_nothing(job, at_s));
    forecast.expect(job, true);
    CHECK(job.expected_sync_s == 0);
    CHECK(forecast.measured_by().next_s() == scheduler::kNever.count());
  }

  TEST_CASE("nothing is expected if no policy asks for it") {
    SyncForecast forecast(false);
    for (std::uint64_t number = 1; number <= 5; ++number) forecast.learn(number, 2);
    CHECK_FALSE(forecast.take_changed());
    scheduler::JobView job = job_of(9);
    forecast.expect(job, false);
    CHECK(job.expected_sync_s == 0);
  }
}
