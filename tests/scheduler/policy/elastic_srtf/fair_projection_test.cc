#include "scheduler/policy/elastic_srtf/fair_projection.h"

#include <doctest/doctest.h>

#include "tests/scheduler/policy/random_views.h"
#include "tests/support/seed.h"

namespace es::scheduler {

TEST_SUITE("scheduler/policy/elastic-srtf/fair projection") {
  TEST_CASE("a task alone has the cluster, whatever its width is") {
    for (const double width : {0.01, 0.5, 1.0}) {
      const auto ends = project_shared_ends({{{.alone_s = 500, .width = width}}}, 1.5);
      CHECK(ends[0].ahead_s == doctest::Approx(500));
      CHECK(ends[0].job_s == doctest::Approx(500));
    }
  }

  TEST_CASE("wide tasks share the cluster, narrow ones do not need to") {
    const auto wide = project_shared_ends({{{100, 1}, {100, 1}}}, 1);
    CHECK(wide[0].ahead_s == doctest::Approx(200));
    CHECK(wide[0].job_s == doctest::Approx(400));
    // With one and a half shares it has three quarters of the cluster.
    const auto favoured = project_shared_ends({{{100, 1}, {100, 1}}}, 1.5);
    CHECK(favoured[0].ahead_s == doctest::Approx(100 / 0.75));
    const auto narrow = project_shared_ends({{{100, 0.5}, {100, 0.5}}}, 1);
    CHECK(narrow[1].ahead_s == doctest::Approx(100));
  }

  TEST_CASE("when others have ended a task has a larger share") {
    // Both have a half until the short one ends after 60 s (30 s and then a part of 36 s).
    const auto ends = project_shared_ends({{{30, 1}, {1000, 1}}}, 1);
    CHECK(ends[0].ahead_s == doctest::Approx(60));
    CHECK(ends[1].ahead_s == doctest::Approx(1030).epsilon(0.01));
    CHECK(ends[1].job_s == doctest::Approx(1030 + 60).epsilon(0.01));
  }

  TEST_CASE("a task that has ended, and one longer than all steps") {
    const auto ends = project_shared_ends({{{0, 1}, {1e9, 0.1}}}, 1.5);
    CHECK(ends[0].ahead_s == 0);
    CHECK(ends[1].ahead_s == doctest::Approx(1e9));
    CHECK(ends[1].job_s == doctest::Approx(1e9));
    CHECK(project_shared_ends({}, 1).empty());
  }

  TEST_CASE("no task ends before it would alone, and more shares end it earlier") {
    test::RandomViews random(test::seed("fair projection"));
    for (int i = 0; i < 300; ++i) {
      std::vector<SharingTask> tasks(random.draw(1, 40));
      for (SharingTask& task : tasks)
        task = {random.draw(0, 100000) / 10.0, random.draw(1, 100) / 100.0};
      const auto one = project_shared_ends(tasks, 1);
      const auto more = project_shared_ends(tasks, 2);
      for (std::size_t t = 0; t < tasks.size(); ++t) {
        CHECK(more[t].ahead_s >= tasks[t].alone_s * (1 - 1e-9));
        CHECK(one[t].ahead_s >= more[t].ahead_s * (1 - 1e-9));
        CHECK(one[t].job_s >= one[t].ahead_s * (1 - 1e-9));
      }
    }
  }
}

}  // namespace es::scheduler
