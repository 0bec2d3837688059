// Jobs that are over are removed, by a client or because the head keeps only some of them. A head
// that dies meanwhile leaves the whole job or nothing of it.
#include <doctest/doctest.h>

#include <set>

#include "tests/sim/sim_jobs.h"

namespace es::test {
namespace {

using namespace actors;
using std::chrono::hours;
using std::chrono::seconds;

std::uint64_t post_remove(SimClient& client, const JobId& job) {
  return client.post<wire::RemoveJob>(job, [](wire::RemoveJob::Builder) {});
}

JobId finished_job(SimWorld& world, std::uint64_t seed, Version steps = 6) {
  JobSpec spec = job_spec(seed, steps);
  spec.eval_every = 2;
  const auto job = world.client().submit(spec);
  REQUIRE(job.ok());
  check_finished(world.client().wait_until_over(*job), spec);
  return *job;
}

// How many kinds of records the disk has of this job: its record, ledger, evaluations and end.
int kinds_on_disk(const SimWorld& world, const JobId& job) {
  HeadStore disk = world.disk();
  return int(disk.load(job)->has_value()) + int(disk.ledger().last(job)->has_value()) +
         int(!disk.history().evaluations(job)->empty()) + int(disk.history().end(job)->has_value());
}

std::set<JobId> listed(SimWorld& world, std::uint64_t ended_within_ms = 0) {
  std::set<JobId> ids;
  for (const JobView& job : world.client().jobs(ended_within_ms)) ids.insert(job.id);
  return ids;
}

}  // namespace

TEST_SUITE("sim/removal") {
  TEST_CASE("nothing is left of a job that is removed, and the others are as before") {
    SimWorld world({.seed = 1});
    const JobId gone = finished_job(world, 1), stays = finished_job(world, 2);
    CHECK(kinds_on_disk(world, gone) == 4);
    REQUIRE(world.client().wait(post_remove(world.client(), gone)).ok());
    const auto check = [&] {
      CHECK(kinds_on_disk(world, gone) == 0);
      CHECK(kinds_on_disk(world, stays) == 4);
      CHECK(world.client().describe(gone).error().kind == ErrorKind::kNotFound);
      CHECK(world.client().describe(stays)->state == "finished");
      CHECK(listed(world) == std::set<JobId>{stays});
    };
    check();
    CHECK(world.client().wait(post_remove(world.client(), gone)).error().kind ==
          ErrorKind::kNotFound);
    world.stop_head();
    world.start_head();
    world.run_for(seconds(1));
    check();
    // A job of an earlier head is removed like any other.
    REQUIRE(world.client().wait(post_remove(world.client(), stays)).ok());
    CHECK(listed(world).empty());
    check_at_rest(world);
  }

  TEST_CASE("a job that is not over is not removed") {
    SimWorld world({.seed = 2});
    const auto job = world.client().submit(job_spec(1, 1'000'000));
    REQUIRE(job.ok());
    world.run_for(seconds(1));
    const Status refused = world.client().wait(post_remove(world.client(), *job));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kRefused);
    CHECK(refused.error().message.find("running") != std::string::npos);
    CHECK(world.client().describe(*job)->state == "running");
    // The answer to a cancellation may be faster than the end of the job in the head.
    REQUIRE(world.client().wait(world.client().post_cancel(*job)).ok());
    REQUIRE(world.client().wait(post_remove(world.client(), *job)).ok());
    CHECK(kinds_on_disk(world, *job) == 0);
    check_at_rest(world);
  }

  TEST_CASE("a head that dies at any write of a removal leaves the whole job or nothing of it") {
    bool completed = false;
    for (std::uint32_t nth = 1; !completed; ++nth) {
      CAPTURE(nth);
      SimWorld world({.seed = nth});
      const JobId job = finished_job(world, nth);
      world.trap_disk(nth);
      const std::uint64_t request = post_remove(world.client(), job);
      world.run_for(seconds(1));
      completed = world.client().answered(request);
      world.stop_head();
      world.start_head();
      world.run_for(seconds(1));
      const int kinds = kinds_on_disk(world, job);
      CHECK(kinds == (completed ? 0 : 4));
      CHECK(listed(world).size() == (completed ? 0U : 1U));
      // The removal can be repeated.
      const Status again = world.client().wait(post_remove(world.client(), job));
      CHECK(again.ok() != completed);
      CHECK(kinds_on_disk(world, job) == 0);
      REQUIRE(nth < 20);
    }
  }

  TEST_CASE("while the disk accepts no writes nothing is removed") {
    SimWorld world({.seed = 3});
    const JobId job = finished_job(world, 1);
    world.fill_disk(1);
    CHECK(world.client().wait(post_remove(world.client(), job)).error().kind ==
          ErrorKind::kRefused);
    CHECK(kinds_on_disk(world, job) == 4);
    world.mend_disk();
    world.run_for(seconds(3));
    CHECK(world.client().wait(post_remove(world.client(), job)).ok());
  }

  TEST_CASE("a head keeps the newest jobs that are over, up to its number") {
    SimWorld world({.seed = 4, .retention = {.jobs = 2}, .has_date = true});
    std::vector<JobId> jobs;
    for (std::uint64_t i = 0; i < 4; ++i) {
      jobs.push_back(finished_job(world, i));
      world.run_for(seconds(1));
    }
    CHECK(listed(world) == std::set<JobId>{jobs[2], jobs[3]});
    CHECK(kinds_on_disk(world, jobs[1]) == 0);
    CHECK(kinds_on_disk(world, jobs[2]) == 4);
  }

  TEST_CASE("a head keeps jobs that are over for a time, and a list may leave out old ones") {
    SimWorld world({.seed = 5, .retention = {.age = hours(3)}, .has_date = true});
    const JobId first = finished_job(world, 1);
    world.run_for(hours(2));
    const JobId second = finished_job(world, 2);
    CHECK(listed(world) == std::set<JobId>{first, second});
    CHECK(listed(world, 3'600'000) == std::set<JobId>{second});
    world.run_for(hours(1) + seconds(90));
    CHECK(listed(world) == std::set<JobId>{second});
    // The date of the end outlives the head.
    world.stop_head();
    world.run_for(hours(3));
    world.start_head();
    world.run_for(seconds(10));
    CHECK(listed(world).empty());
    CHECK(kinds_on_disk(world, second) == 0);
  }

  TEST_CASE("by default everything is kept") {
    SimWorld world({.seed = 6, .has_date = true});
    const JobId job = finished_job(world, 1);
    world.run_for(hours(48));
    CHECK(listed(world) == std::set<JobId>{job});
    CHECK(listed(world, 24 * 3'600'000).empty());
  }
}

}  // namespace es::test
