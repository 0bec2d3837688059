#include "scheduler/policy/gang.h"

#include <doctest/doctest.h>

#include "scheduler/policy/registry.h"
#include "tests/scheduler/study/world.h"

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

// When each job was first given devices, on four of them, with changes free of charge.
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

  TEST_CASE("a gang is of the type that was asked for, else of the fastest") {
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
  }
}

}  // namespace es::study
