// The rules of the fair end on single decisions, and its limits.
#include "scheduler/policy/elastic_srtf/fair_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "scheduler/policy/elastic_srtf/elastic_srtf.h"
#include "tests/scheduler/policy/random_views.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

constexpr double kNow = 100000;

// A job of one device, submitted `age_s` ago beside `others` jobs on average.
JobView job(std::size_t number, double age_s, double others, double total_s, double left_s) {
  JobView job;
  job.id = "j" + std::to_string(number);
  job.number = number;
  job.submitted = Seconds(kNow - age_s);
  job.max_p = job.max_devices = 1;
  job.types = {{"gpu"}};
  job.capabilities = {{{"gpu"}, 1.0}};
  job.work.total_steps = total_s;
  job.work.remaining_steps = left_s;
  job.work.as_of = Seconds(kNow);
  job.job_seconds_at_submit = 1e6 - age_s * (1 + others);
  return job;
}

void run_on_one(JobView& job, double since_s) {
  job.held = *parse_device_set("gpu:1");
  job.started = true;
  job.work.steps_per_s = 1;
  job.changed = Seconds(kNow - since_s);
}

ClusterView view_of(std::vector<JobView> jobs, std::uint32_t devices, std::uint32_t free) {
  ClusterView view;
  view.now = Seconds(kNow);
  view.job_seconds = 1e6;
  view.total.add({"gpu"}, devices);
  if (free > 0) view.free.add({"gpu"}, free);
  view.jobs = std::move(jobs);
  return view;
}

std::vector<std::size_t> granted(const Decisions& decisions) {
  std::vector<std::size_t> slots;
  for (const Change& change : decisions.grants) slots.push_back(change.slot);
  return slots;
}

// By slot, which is renamed first.
std::vector<std::pair<std::size_t, std::string>> sorted(
    const std::vector<Change>& changes, const std::vector<std::size_t>& new_slot_of) {
  std::vector<std::pair<std::size_t, std::string>> result;
  for (const Change& change : changes)
    result.emplace_back(new_slot_of.empty() ? change.slot : new_slot_of[change.slot],
                        change.devices.text());
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

TEST_SUITE("scheduler/policy/elastic-srtf/fair order") {
  TEST_CASE("at the end of a crowd a job is late although many have shared the cluster with it") {
    // Of ten devices one is free, job 2 holds one, and the others are out of use. Job 0 has waited
    // 2,000 s among 39 others and needs 4,000 s. With a share of 40 jobs it would take 16,000 s,
    // but until its end there will have been 15 on average, with which it would take 5,920 s. Job 1
    // has not waited, and needs less.
    std::vector<JobView> jobs = {job(0, 2000, 39, 4000, 4000), job(1, 0, 1, 500, 500),
                                 job(2, 10, 1, 9000, 8990)};
    run_on_one(jobs[2], 10);
    const ClusterView view = view_of(std::move(jobs), 10, 1);
    CHECK(granted(ElasticSrtf(0.5).decide(view)) == std::vector<std::size_t>{1});
    CHECK(granted(ElasticSrtf(1).decide(view)) == std::vector<std::size_t>{0});
  }

  TEST_CASE("a job keeps its devices until another one is later by a turn") {
    // Both need 20,000 s alone and have shared one device from the same moment on, so 2 % of their
    // fair times are 800 s.
    for (const double ahead_s : {200.0, 3000.0}) {
      CAPTURE(ahead_s);
      std::vector<JobView> jobs = {job(0, 25000, 1, 20000, 10000 - ahead_s / 2),
                                   job(1, 25000, 1, 20000, 10000 + ahead_s / 2)};
      run_on_one(jobs[0], 3000);
      jobs[1].started = true;
      const Decisions decisions = ElasticSrtf(1).decide(view_of(std::move(jobs), 1, 0));
      CHECK(decisions.shrinks.size() == (ahead_s > 800 ? 1 : 0));
    }
  }

  TEST_CASE("expensive changes make turns longer") {
    for (const double pause_s : {1.0, 600.0}) {
      CAPTURE(pause_s);
      std::vector<JobView> jobs = {job(0, 25000, 1, 20000, 8500), job(1, 25000, 1, 20000, 11500)};
      run_on_one(jobs[0], 3000);
      jobs[1].started = true;
      for (JobView& j : jobs) j.rescale_pause = j.suspend_pause = Seconds(pause_s);
      const Decisions decisions = ElasticSrtf(1).decide(view_of(std::move(jobs), 1, 0));
      CHECK(decisions.shrinks.size() == (pause_s < 100 ? 1 : 0));
    }
  }

  TEST_CASE("the policy asks to be asked again when a waiting job becomes late") {
    // It would end 500 + 10 s after its submission, beside a fair share of 1,000 s.
    std::vector<JobView> jobs = {job(0, 9000, 0, 9010, 10), job(1, 10, 1, 500, 500)};
    run_on_one(jobs[0], 9000);
    const Decisions decisions = ElasticSrtf(1).decide(view_of(std::move(jobs), 1, 0));
    CHECK(decisions.shrinks.empty());
    CHECK(decisions.again_at > Seconds(kNow));
    CHECK(decisions.again_at < Seconds(kNow + 600));
  }

  TEST_CASE("jobs that may not be suspended and higher priorities keep their place") {
    std::vector<JobView> jobs = {job(0, 10, 1, 20000, 19990), job(1, 20000, 1, 20000, 20000)};
    run_on_one(jobs[0], 10);
    CHECK(ElasticSrtf(1).decide(view_of(jobs, 1, 0)).shrinks.size() == 1);
    jobs[0].may_suspend = false;
    CHECK(ElasticSrtf(1).decide(view_of(jobs, 1, 0)).shrinks.empty());
    jobs[0].may_suspend = true;
    jobs[0].priority = 1;
    CHECK(ElasticSrtf(1).decide(view_of(jobs, 1, 0)).shrinks.empty());
  }

  TEST_CASE("a job begins on a slow type only when waiting has become worse") {
    // With 10,000 s on the slow type instead of 1,000 s it would be late for good.
    for (const double age_s : {10.0, 20000.0}) {
      CAPTURE(age_s);
      std::vector<JobView> jobs = {job(0, 30000, 0, 90000, 60000), job(1, age_s, 1, 1000, 1000)};
      run_on_one(jobs[0], 30000);
      jobs[0].may_suspend = false;
      jobs[1].types = {{"gpu"}, {"slow"}};
      jobs[1].capabilities[{"slow"}] = 0.1;
      ClusterView view = view_of(std::move(jobs), 1, 0);
      view.total.add({"slow"}, 1);
      view.free.add({"slow"}, 1);
      CHECK(ElasticSrtf(1).decide(view).grants.size() == (age_s > 1000 ? 1 : 0));
    }
  }

  TEST_CASE("every decision keeps the rules, and slots are only names") {
    test::RandomViews random(test::seed("fair order"));
    std::size_t changes = 0;
    for (int w = 0; w < 60; ++w) {
      ElasticSrtf policy(1);
      ClusterView view = random.view(w % 2 == 0 ? 14 : 120);
      for (int s = 0; s < 40; ++s) {
        const Decisions decisions = policy.decide(view);
        const Status status = check_decisions(view, decisions);
        CHECK_MESSAGE(status.ok(), status.error().message);
        std::vector<std::size_t> new_slot_of;
        const ClusterView other = random.shuffled(view, new_slot_of);
        Decisions again = ElasticSrtf(1).decide(other);
        CHECK(decisions.again_at == again.again_at);
        CHECK(sorted(decisions.grants, new_slot_of) == sorted(again.grants, {}));
        CHECK(sorted(decisions.shrinks, new_slot_of) == sorted(again.shrinks, {}));
        changes += decisions.grants.size() + decisions.shrinks.size();
        random.advance(view, decisions);
      }
    }
    CHECK(changes > 500);
  }

  TEST_CASE("more jobs than can be projected are served as before") {
    std::vector<JobView> jobs;
    for (std::size_t i = 0; i < kFairJobsMax - 1; ++i)
      jobs.push_back(job(i, 2000, 5000, 4000, 4000 + static_cast<double>(i)));
    // Only with the number of jobs until now it is late.
    jobs.push_back(job(jobs.size(), 3000, 0, 4000, 4000));
    const std::size_t last = jobs.size() - 1;
    CHECK(granted(ElasticSrtf(1).decide(view_of(jobs, 1, 1))).size() == 1);
    jobs.push_back(job(jobs.size(), 2000, 5000, 4000, 9000));
    CHECK(granted(ElasticSrtf(1).decide(view_of(jobs, 1, 1))) == std::vector<std::size_t>{last});
  }
}

}  // namespace es::scheduler
