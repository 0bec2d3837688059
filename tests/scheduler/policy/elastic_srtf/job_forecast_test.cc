#include "scheduler/policy/elastic_srtf/job_forecast.h"

#include <doctest/doctest.h>

#include "scheduler/policy/elastic_srtf/backlog.h"
#include "tests/scheduler/policy/rivals/small_views.h"

namespace es::scheduler {
namespace {

// A waiting job of 8 ESTs with 1 s steps on 16 devices, and 800 global steps to do.
ClusterView one_job() {
  ClusterView view = test::small_view("gpu:16", 0);
  test::add_job(view, 8, 6400);
  return view;
}

JobForecast forecast(const ClusterView& view, const TableRules& rules) {
  ClusterTable table(rules);
  table.update(view);
  return forecast_of(table, table.rows()[0]);
}

}  // namespace

TEST_SUITE("scheduler/policy/elastic-srtf/job_forecast") {
  TEST_CASE("without communication a job needs the same work in a crowded cluster") {
    const JobForecast job = forecast(one_job(), {});
    CHECK(job.alone_s == doctest::Approx(800));
    CHECK(job.width == doctest::Approx(0.5));
    CHECK(job.crowded_part == 1);
    CHECK(job.crowded_work_s(0) == doctest::Approx(400));
  }

  TEST_CASE("a job is as fast as the devices that it may have, also if it may mix types") {
    for (const bool mixes : {false, true}) {
      CAPTURE(mixes);
      ClusterView view = one_job();
      view.jobs[0].mix_types = mixes;
      view.jobs[0].max_devices = 2;
      const JobForecast job = forecast(view, {});
      CHECK(job.alone_s == doctest::Approx(3200));
      CHECK(job.width == doctest::Approx(0.125));
    }
  }

  TEST_CASE("a job that communicates counts with fewer devices than its best ones") {
    ClusterView view = one_job();
    // 2 s compute and 1.5 s communicate with 4 devices, 1 s and 3.5 s with 8.
    view.jobs[0].sync = SyncCurve({{2, 0.5}});
    const JobForecast job = forecast(view, {});
    CHECK(job.alone_s == doctest::Approx(800 * 3.5));
    CHECK(job.width == doctest::Approx(0.25));
    CHECK(job.crowded_part == doctest::Approx(2 / 3.5 / kEfficient));
    CHECK(job.crowded_work_s(0) == doctest::Approx(800 * 2 * 0.25 / kEfficient));
    Backlog backlog;
    backlog.add(Backlog::part_of(job, 0), 1);
    CHECK(backlog.seconds_at(0) == doctest::Approx(job.crowded_work_s(0)));
  }

  TEST_CASE("what a job is expected to lose counts only if the policy asks for it") {
    ClusterView view = one_job();
    view.jobs[0].expected_sync_s = 0.5;
    CHECK(forecast(view, {}).alone_s == doctest::Approx(800));
    CHECK(forecast(view, {.expects_sync = true}).alone_s == doctest::Approx(800 * 3.5));
    // Its own measurement replaces it.
    view.jobs[0].sync = SyncCurve({{2, 0.1}});
    CHECK(forecast(view, {.expects_sync = true}).alone_s == doctest::Approx(800 * 1.7));
  }

  TEST_CASE("a change costs at least what the policy says") {
    ClusterView view = one_job();
    view.jobs[0].rescale_pause = view.jobs[0].suspend_pause = Seconds(0);
    ClusterTable table({.pause_min_s = 1});
    table.update(view);
    CHECK(table.rows()[0].rescale_s == 1);
    CHECK(table.rows()[0].suspend_s == 1);
  }
}

}  // namespace es::scheduler
