#include "scheduler/policy/rivals/gavel.h"

#include <doctest/doctest.h>

#include "scheduler/policy/rivals/gavel_shares.h"
#include "tests/scheduler/policy/rivals/small_views.h"

namespace es::scheduler {
namespace {

using doctest::Approx;
using Objective = GavelPolicy::Objective;

GavelJob one_device(std::vector<double> speeds) {
  Counts gangs(speeds.size(), 1);
  return {.speeds = std::move(speeds), .gangs = std::move(gangs)};
}

}  // namespace

TEST_SUITE("scheduler/policy/gavel") {
  TEST_CASE("the job that gains most by the fast device gets it, and nobody has less than equal") {
    // Job 0 is four times as fast on type 0, job 1 equally fast on both. With equal time each would
    // have the value 1; job 1 keeps it, and job 0 rises to 4 / 2.5.
    const std::vector<GavelJob> jobs{one_device({4, 1}), one_device({1, 1})};
    const TimeShares x = least_attained_shares(jobs, {1, 1});
    CHECK(x[0] == Approx(1));
    CHECK(x[3] == Approx(1));
  }

  TEST_CASE("three jobs on two devices have equal parts of what equal time would give") {
    // Job 0 uses type 0 for a part a of the time: 4 a / 2.5 = (2 - a) / 2, so a = 10 / 21.
    const std::vector<GavelJob> jobs{one_device({4, 1}), one_device({1, 1}), one_device({1, 1})};
    const TimeShares x = least_attained_shares(jobs, {1, 1});
    CHECK(x[0] == Approx(10.0 / 21).epsilon(1e-3));
    CHECK(x[1] == Approx(0));
    for (const std::size_t job : {1, 2})
      CHECK(x[2 * job] + x[2 * job + 1] == Approx(16.0 / 21).epsilon(1e-3));
  }

  TEST_CASE("a wide job has less time than narrow ones, as least attained service demands") {
    std::vector<GavelJob> jobs{one_device({1}), one_device({1}), one_device({1})};
    jobs[0].gangs = {4};
    const TimeShares x = least_attained_shares(jobs, {4});
    CHECK(x[0] == Approx(0.5));
    CHECK(x[1] == Approx(1));
    CHECK(x[2] == Approx(1));
  }

  TEST_CASE("more classes than one program holds are divided into parts that keep the capacity") {
    std::vector<GavelJob> jobs;
    for (int m = 0; m < 450; ++m) jobs.push_back(one_device({1.0 + m, 1.0}));
    const TimeShares x = least_attained_shares(jobs, {30, 60});
    double used[2] = {0, 0};
    for (std::size_t m = 0; m < jobs.size(); ++m)
      for (std::size_t t = 0; t < 2; ++t) used[t] += x[2 * m + t];
    CHECK(used[0] <= 30 + 1e-6);
    CHECK(used[1] <= 60 + 1e-6);
    CHECK(used[0] + used[1] == Approx(90));
  }

  TEST_CASE("finish-time fairness makes the largest rho as small as possible") {
    // rho_0 = 1 / x and rho_1 = 1 / (2 (1 - x)) are equal at x = 2/3.
    std::vector<GavelJob> jobs{one_device({1}), one_device({1})};
    for (GavelJob& job : jobs) job.remaining_steps = 100;
    jobs[0].isolated_s = 100;
    jobs[1].isolated_s = 200;
    const TimeShares x = finish_time_shares(jobs, {1});
    CHECK(x[0] == Approx(2.0 / 3).epsilon(2e-3));
    CHECK(x[1] == Approx(1.0 / 3).epsilon(2e-3));
    // With a choice of types: both types together are worth 3, and equal jobs get 1.5 each.
    for (GavelJob& job : jobs) {
      job.speeds = {2, 1};
      job.gangs = {1, 1};
      job.isolated_s = 100 / 1.5;
    }
    const TimeShares y = finish_time_shares(jobs, {1, 1});
    for (const std::size_t job : {0, 1})
      CHECK(2 * y[2 * job] + y[2 * job + 1] == Approx(1.5).epsilon(2e-3));
  }

  TEST_CASE("a round gives devices by shares over time had, and keeps them until the next one") {
    ClusterView view = test::small_view("gpu:1", 3600);
    JobView& runs = test::add_job(view, 1, 1e6);
    test::hold(view, runs, "gpu:1", 1);
    runs.submitted = Seconds(0);
    runs.changed = Seconds(0);
    runs.work.attained_by_type = {{{"gpu"}, 3000}};
    test::add_job(view, 1, 1e6).submitted = Seconds(0);
    GavelPolicy policy(Objective::kLeastAttained);
    const Decisions begin = policy.decide(view);
    CHECK(test::taken(begin, 0) == "gpu:1");
    CHECK(begin.again_at == Seconds(3960));
    view.now = Seconds(3700);
    const Decisions within = policy.decide(view);
    CHECK(within.shrinks.empty());
    CHECK(within.again_at == Seconds(3960));
  }

  TEST_CASE("within a round an idle device goes to the job that has had the least of its share") {
    ClusterView view = test::small_view("gpu:1", 3700);
    view.job_seconds = 7400;
    for (const double done : {500.0, 100.0}) {
      JobView& job = test::add_job(view, 1, 1e6 - done);
      job.work.total_steps = 1e6;
      job.submitted = Seconds(0);
    }
    for (const Objective objective : {Objective::kLeastAttained, Objective::kFinishTime}) {
      const Decisions decisions = GavelPolicy(objective).decide(view);
      CHECK(test::granted(decisions, 0) == "");
      CHECK(test::granted(decisions, 1) == "gpu:1");
    }
  }
}

}  // namespace es::scheduler
