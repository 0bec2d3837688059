#include "scheduler/policy/elastic_srtf/fair_deadlines.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/scheduler/policy/random_views.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

// Whether all are in time, by trying it.
bool are_in_time(std::vector<FairTask> tasks, double now_s, double stretch) {
  const auto by_s = [&](const FairTask& task) { return task.submit_s + stretch * task.fair_s; };
  std::ranges::sort(tasks, {}, [&](const FairTask& t) { return std::pair(by_s(t), t.number); });
  double work_s = 0;
  return std::ranges::all_of(tasks, [&](const FairTask& task) {
    work_s += task.work_s;
    return now_s + std::max(work_s, task.alone_s) <= by_s(task);
  });
}

// The definition of the stretch: a bisection that tries each one that it comes to.
double stretch_by_trying(const std::vector<FairTask>& tasks, double now_s, double least) {
  double low = least, high = least;
  while (!are_in_time(tasks, now_s, high)) low = std::exchange(high, 2 * high);
  while (high - low > 1e-9 * low) {
    const double middle = (low + high) / 2;
    (are_in_time(tasks, now_s, middle) ? high : low) = middle;
  }
  return high;
}

std::vector<FairTask> random_tasks(test::RandomViews& random, std::uint32_t count) {
  std::vector<FairTask> tasks(count);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const double alone_s = random.draw(1, 10000) / 10.0;
    tasks[t] = {.number = t,
                .submit_s = static_cast<double>(random.draw(0, 1000)),
                .fair_s = alone_s * random.draw(1, 50),
                .alone_s = alone_s,
                .work_s = alone_s * random.draw(1, 100) / 100};
  }
  return tasks;
}

}  // namespace

TEST_SUITE("scheduler/policy/elastic-srtf/fair deadlines") {
  TEST_CASE("while all can be in time the stretch is the smallest one, and jobs can wait") {
    const auto found = fair_deadlines(
        {{.number = 0, .submit_s = 0, .fair_s = 100, .alone_s = 50, .work_s = 20}}, 10, 1);
    REQUIRE(found.size() == 1);
    CHECK(found[0].deadline_s == 100);
    CHECK(found[0].own_slack_s == 40);
    CHECK(found[0].slack_s == 40);
  }

  TEST_CASE("jobs that cannot all be in time are late by the same factor") {
    // Each needs the whole cluster for 100 s, so the last one ends after 300 s.
    const FairTask task{.fair_s = 100, .alone_s = 100, .work_s = 100};
    const auto found = fair_deadlines({task, task, task}, 0, 1);
    for (const FairDeadline& of : found) {
      CHECK(of.deadline_s == doctest::Approx(300).epsilon(0.01));
      CHECK(of.own_slack_s == doctest::Approx(200).epsilon(0.02));
      CHECK(of.slack_s <= 0.01 * 300);
    }
  }

  TEST_CASE("a job that has time must not wait if others with later deadlines have none") {
    const auto found = fair_deadlines({{.number = 0, .fair_s = 100, .alone_s = 10, .work_s = 10},
                                       {.number = 1, .fair_s = 200, .alone_s = 190, .work_s = 190}},
                                      0, 1);
    CHECK(found[0].own_slack_s == doctest::Approx(90));
    CHECK(found[0].slack_s == doctest::Approx(0));
    CHECK(found[1].own_slack_s == doctest::Approx(10));
    CHECK(found[1].slack_s == doctest::Approx(0));
  }

  TEST_CASE("no job of any set misses its deadline, and with a smaller stretch one would") {
    test::RandomViews random(test::seed("fair deadlines"));
    for (int i = 0; i < 300; ++i) {
      const auto tasks = random_tasks(random, random.draw(1, 40));
      const auto found = fair_deadlines(tasks, 1000, 1);
      const double stretch = (found[0].deadline_s - tasks[0].submit_s) / tasks[0].fair_s;
      double least_s = found[0].slack_s;
      for (std::size_t t = 0; t < tasks.size(); ++t) {
        CHECK(found[t].deadline_s ==
              doctest::Approx(tasks[t].submit_s + stretch * tasks[t].fair_s));
        CHECK(found[t].slack_s <= found[t].own_slack_s);
        CHECK(found[t].slack_s >= -1e-6);
        least_s = std::min(least_s, found[t].slack_s / tasks[t].fair_s);
      }
      CHECK(stretch >= 1 - 1e-9);
      if (stretch > 1 + 1e-9) CHECK(least_s <= 1e-6 * stretch);
    }
  }

  TEST_CASE("the stretch is the one that a search by trying finds") {
    test::RandomViews random(test::seed("fair deadlines, by trying"));
    for (int i = 0; i < 300; ++i) {
      const auto tasks = random_tasks(random, random.draw(1, 300));
      const double least = random.draw(5, 20) / 10.0;
      const double stretch = stretch_by_trying(tasks, 1000, least);
      const auto found = fair_deadlines(tasks, 1000, least);
      for (std::size_t t = 0; t < tasks.size(); ++t)
        CHECK((found[t].deadline_s - tasks[t].submit_s) / tasks[t].fair_s ==
              doctest::Approx(stretch).epsilon(1e-6));
    }
  }
}

}  // namespace es::scheduler
