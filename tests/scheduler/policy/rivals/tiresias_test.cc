#include "scheduler/policy/rivals/tiresias.h"

#include <doctest/doctest.h>

#include "tests/scheduler/policy/rivals/small_views.h"

namespace es::scheduler {
namespace {

// A job of two devices that has run for this long on both of the cluster's, and a new one.
ClusterView two_jobs(double ran_s) {
  ClusterView view = test::small_view("gpu:2", 5000);
  JobView& runs = test::add_job(view, 2, 1e6);
  runs.submitted = runs.changed = Seconds(5000 - ran_s);
  runs.work.attained_device_s = 2 * ran_s;
  test::hold(view, runs, "gpu:2", 2);
  test::add_job(view, 2, 1e6);
  return view;
}

}  // namespace

TEST_SUITE("scheduler/policy/tiresias") {
  TEST_CASE("a job leaves the first queue after 3,250 device-seconds, and then a new one runs") {
    const Decisions before = TiresiasPolicy().decide(two_jobs(1600));
    CHECK(before.shrinks.empty());
    // 50 device-seconds are left, at two devices.
    CHECK(before.again_at == Seconds(5025));
    CHECK(test::taken(TiresiasPolicy().decide(two_jobs(1625)), 0) == "gpu:2");
  }

  TEST_CASE("a job that has left the first queue but for a rounding error has left it") {
    const Decisions decisions = TiresiasPolicy().decide(two_jobs(1625 - 1e-9));
    CHECK(test::taken(decisions, 0) == "gpu:2");
    CHECK(decisions.again_at > Seconds(5000.1));
  }

  TEST_CASE("of jobs of one queue those that have started come first") {
    ClusterView view = two_jobs(10);
    std::swap(view.jobs[0].number, view.jobs[1].number);  // the new one was submitted earlier
    CHECK(TiresiasPolicy().decide(view).shrinks.empty());
  }

  TEST_CASE("a job that has waited eight times as long as it has run is promoted") {
    ClusterView view = two_jobs(100);
    // Of the second queue, with 2,000 s on two devices.
    view.jobs[1].started = true;
    view.jobs[1].number = 0;
    view.jobs[0].number = 1;
    view.jobs[1].work.attained_device_s = 4000;
    view.jobs[1].submitted = Seconds(5000 - 9 * 2000 + 1);
    CHECK(TiresiasPolicy().decide(view).shrinks.empty());
    view.jobs[1].submitted = Seconds(5000 - 9 * 2000);
    CHECK(test::taken(TiresiasPolicy().decide(view), 0) == "gpu:2");
  }

  TEST_CASE("a promoted job has the service of a new one before it is suspended again") {
    // It had run for 2,000 s on two devices and waited for 16,000 s when it began again.
    const auto began_before = [](double seconds) {
      ClusterView view = two_jobs(seconds);
      view.jobs[0].submitted = Seconds(5000 - seconds - 18000);
      view.jobs[0].started = true;
      view.jobs[0].work.attained_device_s = 4000 + 2 * seconds;
      return view;
    };
    const Decisions decisions = TiresiasPolicy().decide(began_before(1600));
    CHECK(decisions.shrinks.empty());
    CHECK(decisions.again_at == Seconds(5025));
    CHECK(test::taken(TiresiasPolicy().decide(began_before(1625)), 0) == "gpu:2");
    ClusterView too_soon = began_before(1600);
    too_soon.jobs[0].submitted += Seconds(1);
    CHECK(test::taken(TiresiasPolicy().decide(too_soon), 0) == "gpu:2");
  }

  TEST_CASE("a job takes another type if its own one is not left") {
    ClusterView view = test::small_view("fast:2+slow:2", 5000);
    for (int i = 0; i < 2; ++i) test::add_job(view, 2, 1e6, {{{"fast"}, 2.0}, {{"slow"}, 1.0}});
    const Decisions decisions = TiresiasPolicy().decide(view);
    CHECK(test::granted(decisions, 0) == "fast:2");
    CHECK(test::granted(decisions, 1) == "slow:2");
  }
}

}  // namespace es::scheduler
