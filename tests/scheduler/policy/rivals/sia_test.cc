#include "scheduler/policy/rivals/sia.h"

#include <doctest/doctest.h>

#include "tests/scheduler/policy/rivals/small_views.h"

namespace es::scheduler {

TEST_SUITE("scheduler/policy/sia") {
  TEST_CASE("one job gets all that it can use, two get halves") {
    ClusterView view = test::small_view("gpu:4", 600);
    test::add_job(view, 4, 1000);
    CHECK(test::granted(SiaPolicy().decide(view), 0) == "gpu:4");
    test::add_job(view, 4, 1000);
    const Decisions two = SiaPolicy().decide(view);
    CHECK(test::granted(two, 0) == "gpu:2");
    CHECK(test::granted(two, 1) == "gpu:2");
  }

  TEST_CASE("costs decide whether a third job gets something") {
    // (2, 2, 0): 0.71 + 0.71 + 1.1 = 2.52; (2, 1, 1): 0.71 + 1 + 1 = 2.71; (4, 0, 0): 2.7.
    ClusterView view = test::small_view("gpu:4", 600);
    for (int i = 0; i < 3; ++i) test::add_job(view, 4, 1000);
    const Decisions decisions = SiaPolicy().decide(view);
    CHECK(test::granted(decisions, 0) == "gpu:2");
    CHECK(test::granted(decisions, 1) == "gpu:2");
    CHECK(test::granted(decisions, 2) == "");
    CHECK(decisions.again_at == Seconds(660));
  }

  TEST_CASE("the type is chosen by goodput") {
    // Alone on either type: cost of type fast at 2 devices: (2 * 3) ^ -0.5 = 0.41, slow at 2: 0.71.
    ClusterView view = test::small_view("fast:2+slow:2", 600);
    for (int i = 0; i < 2; ++i)
      test::add_job(view, 2, 1000, {{{"fast"}, i == 0 ? 1.2 : 3.0}, {{"slow"}, 1.0}});
    const Decisions decisions = SiaPolicy().decide(view);
    CHECK(test::granted(decisions, 0) == "slow:2");
    CHECK(test::granted(decisions, 1) == "fast:2");
  }

  TEST_CASE("a job that would pay too much for a restart keeps what it has") {
    ClusterView view = test::small_view("gpu:4", 6000);
    JobView& job = test::add_job(view, 4, 1000);
    test::hold(view, job, "gpu:2", 2);
    job.submitted = job.changed = Seconds(5000);
    job.work.attained_device_s = 2000;
    job.proposals = {{{"gpu"}, 2, 2.0}};
    // 4 devices: r * G = 1000 / (1000 + pause) * 4, against 2 of what it holds.
    job.rescale_pause = Seconds(900);
    CHECK(test::granted(SiaPolicy().decide(view), 0) == "gpu:2");
    view.jobs[0].rescale_pause = Seconds(1100);
    CHECK(test::granted(SiaPolicy().decide(view), 0) == "");
    // Ten changes of 50 s before: (1000 - 500) / 1050 * 4 = 1.9.
    view.jobs[0].rescale_pause = Seconds(50);
    CHECK(test::granted(SiaPolicy().decide(view), 0) == "gpu:2");
    view.jobs[0].work.changes = 10;
    CHECK(test::granted(SiaPolicy().decide(view), 0) == "");
    // It has computed for less than a change takes.
    view.jobs[0].work.attained_device_s = 49;
    CHECK(test::granted(SiaPolicy().decide(view), 0) == "gpu:2");
  }

  TEST_CASE("between rounds only idle devices are given") {
    ClusterView view = test::small_view("gpu:4", 630);
    test::hold(view, test::add_job(view, 4, 1000), "gpu:3", 2);
    test::add_job(view, 4, 1000);
    const Decisions decisions = SiaPolicy().decide(view);
    CHECK(decisions.shrinks.empty());
    CHECK(test::granted(decisions, 1) == "gpu:1");
  }
}

}  // namespace es::scheduler
