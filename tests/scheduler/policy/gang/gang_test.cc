#include "scheduler/policy/gang/gang.h"

#include <doctest/doctest.h>

#include <map>

#include "scheduler/policy/registry.h"
#include "tests/scheduler/policy/random_views.h"
#include "tests/scheduler/study/world.h"
#include "tests/support/seed.h"

namespace es::study {
namespace {

Job job(const char* id, double submit_s, std::uint32_t max_p, double alone_s) {
  Job job;
  job.id = id;
  job.submit_s = submit_s;
  job.max_p = max_p;
  job.steps = alone_s * max_p;
  job.capabilities[{"gpu"}] = 1;
  return job;
}

// When each job was first given devices, on four devices and without a cost of changes.
std::vector<double> starts(const char* policy, std::vector<Job> jobs) {
  Trace trace{"test", *parse_device_set("gpu:4"), std::move(jobs)};
  Rules rules;
  rules.start_s = rules.rescale_s = 0;
  std::vector<double> times;
  for (const JobResult& j : run(trace, **scheduler::make_policy(policy), rules).jobs)
    times.push_back(j.start_s);
  return times;
}

using Times = std::vector<double>;

constexpr scheduler::GangRules kSrtf{scheduler::GangRules::Order::kRemainingTime,
                                     scheduler::GangRules::Blocking::kNone, true};

// Jobs for which srtf decides without looking at all of them.
void make_simple(scheduler::ClusterView& view) {
  view.queues.clear();
  for (scheduler::JobView& job : view.jobs) {
    job.pinned.reset();
    job.may_suspend = true;
    if (!job.types.empty()) job.types.resize(1);
  }
}

// Devices by slot, for a decision in any order.
std::map<std::size_t, std::string> by_slot(const std::vector<scheduler::Change>& changes) {
  std::map<std::size_t, std::string> result;
  for (const scheduler::Change& c : changes) result[c.slot] = c.devices.text();
  return result;
}

}  // namespace

TEST_SUITE("scheduler/policy/gang") {
  const std::vector<Job> kJobs = {job("a", 0, 2, 100), job("b", 1, 4, 50), job("c", 2, 2, 10)};

  TEST_CASE("fifo-serial runs one job at a time") {
    CHECK(starts("fifo-serial", kJobs) == Times{0, 100, 150});
  }

  TEST_CASE("fifo-gang waits behind the first job that does not fit") {
    CHECK(starts("fifo-gang", kJobs) == Times{0, 100, 150});
    CHECK(starts("fifo-gang", {kJobs[0], kJobs[2]}) == Times{0, 2});
  }

  TEST_CASE("fifo-backfill passes over a job that does not fit") {
    CHECK(starts("fifo-backfill", kJobs) == Times{0, 100, 2});
  }

  TEST_CASE("srtf suspends a longer job for a shorter one") {
    CHECK(starts("srtf", kJobs) == Times{0, 1, 2});
    CHECK(starts("srtf", {job("a", 0, 4, 100), job("b", 10, 4, 20)}) == Times{0, 10});
  }

  TEST_CASE("las suspends a job when it leaves its queue") {
    // Four devices: the first queue ends after 900 s.
    CHECK(starts("las", {job("a", 0, 4, 2000), job("b", 10, 4, 20)}) == Times{0, 900});
  }

  TEST_CASE("a gang has the requested type, or the fastest one") {
    scheduler::ClusterView view;
    view.total = view.free = *parse_device_set("fast:4+slow:4");
    scheduler::JobView j;
    j.id = "j";
    j.max_devices = j.max_p = 2;
    j.types = {{"fast"}, {"slow"}};
    j.capabilities = {{{"fast"}, 2.0}, {{"slow"}, 1.0}};
    view.jobs = {j};
    const auto granted = [&] {
      return (*scheduler::make_policy("fifo-gang"))->decide(view).grants.at(0).devices.text();
    };
    CHECK(granted() == "fast:2");
    view.jobs[0].gang_type = {"slow"};
    CHECK(granted() == "slow:2");
    view.jobs[0].refusals = {{*parse_device_set("slow:1"), {{"slow"}}, {}}};
    CHECK(granted() == "slow:1");
  }

  TEST_CASE("a job whose type is taken runs on another type that it may use") {
    for (const char* policy : {"fifo-gang", "fifo-backfill", "srtf", "las"}) {
      CAPTURE(policy);
      scheduler::ClusterView view;
      view.total = view.free = *parse_device_set("fast:2+slow:2");
      for (std::uint64_t number : {0, 1}) {
        scheduler::JobView j;
        j.id = number == 0 ? "a" : "b";
        j.number = number;
        j.max_devices = j.max_p = 2;
        j.types = {{"fast"}, {"slow"}};
        j.capabilities = {{{"fast"}, 2.0}, {{"slow"}, 1.0}};
        view.jobs.push_back(j);
      }
      const scheduler::Decisions decisions = (*scheduler::make_policy(policy))->decide(view);
      REQUIRE(decisions.grants.size() == 2);
      CHECK(by_slot(decisions.grants)[0] == "fast:2");
      CHECK(by_slot(decisions.grants)[1] == "slow:2");
    }
  }

  TEST_CASE("srtf with its index decides the same as by a full scan") {
    constexpr auto kFullScan = scheduler::ScanMode::kFullScan;
    test::RandomViews random(test::seed("srtf kept"));
    std::size_t grants = 0, shrinks = 0;
    for (int walk = 0; walk < 200; ++walk) {
      scheduler::GangPolicy policy(kSrtf);
      scheduler::ClusterView view = random.view(walk % 2 == 0 ? 14 : 100);
      for (int step = 0; step < 60; ++step) {
        if (walk % 4 > 0) make_simple(view);
        const scheduler::Decisions kept = policy.decide(view);
        const scheduler::Decisions all = scheduler::GangPolicy(kSrtf, kFullScan).decide(view);
        CHECK(by_slot(kept.grants) == by_slot(all.grants));
        CHECK(by_slot(kept.shrinks) == by_slot(all.shrinks));
        grants += kept.grants.size();
        shrinks += kept.shrinks.size();
        random.advance(view, kept);
      }
    }
    CHECK(grants > 1000);
    CHECK(shrinks > 1000);
  }
}

}  // namespace es::study
