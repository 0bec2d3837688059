#include "scheduler/policy/rivals/themis.h"

#include <doctest/doctest.h>

#include "tests/scheduler/policy/rivals/small_views.h"

namespace es::scheduler {

TEST_SUITE("scheduler/policy/themis") {
  TEST_CASE("bidders pay, and what they pay goes to the others") {
    // Of ten jobs two bid. V(n) grows with n, so (2, 2) is the best allocation. Without the other
    // one each would have 4, so each pays half: c = 2 / 4. The third job gets what is left.
    ClusterView view = test::small_view("gpu:4", 1200);
    for (int i = 0; i < 10; ++i) test::add_job(view, 4, 1000);
    const Decisions decisions = ThemisPolicy().decide(view);
    CHECK(test::granted(decisions, 0) == "gpu:1");
    CHECK(test::granted(decisions, 1) == "gpu:1");
    CHECK(test::granted(decisions, 2) == "gpu:2");
    CHECK(decisions.grants.size() == 3);
    CHECK(decisions.again_at == Seconds(2400));
  }

  TEST_CASE("a single bidder pays nothing") {
    ClusterView view = test::small_view("gpu:4", 1200);
    for (int i = 0; i < 3; ++i) test::add_job(view, 4, 1000);
    const Decisions decisions = ThemisPolicy().decide(view);
    CHECK(test::granted(decisions, 0) == "gpu:4");
    CHECK(decisions.grants.size() == 1);
  }

  TEST_CASE("when leases end, the job with the worst finish-time fairness comes first") {
    ClusterView view = test::small_view("gpu:2", 12000);
    view.job_seconds = 24000;
    JobView& runs = test::add_job(view, 2, 1000);
    test::hold(view, runs, "gpu:2", 2);
    runs.submitted = runs.changed = Seconds(0);
    test::add_job(view, 2, 1000).submitted = Seconds(0);
    CHECK(test::taken(ThemisPolicy().decide(view), 0) == "gpu:2");
    view.now = Seconds(12100);  // within the lease
    CHECK(ThemisPolicy().decide(view).shrinks.empty());
  }
}

}  // namespace es::scheduler
