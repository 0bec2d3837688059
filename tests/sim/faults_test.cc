// The real head while processes, machines, links and the head itself fail at random times. In every
// case a job ends with the bits of an undisturbed run, or it is cancelled and holds nothing.
#include <doctest/doctest.h>

#include <functional>
#include <map>

#include "tests/sim/sim_jobs.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

using actors::JobView;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Every second job has stages of different types, and every second one of each kind sharded state.
JobSpec some_job(std::uint64_t s, std::uint64_t length = 1) {
  const std::string n = std::to_string(20 * length);
  JobSpec spec = job_spec(s, 80 * length);
  if (s % 2 == 1)
    spec =
        staged_job(s, "cpu-avx2:2@" + n + ",cpu-avx512:2@" + n + ",cpu-avx2:1+cpu-avx512:1@" + n);
  if (s % 4 < 2) spec.shard.state = "on";
  return spec;
}

SimWorldOptions two_nodes(std::uint64_t s) {
  return {.seed = s,
          .nodes = {{"n1", "cpu-avx2:2+cpu-avx512:2"}, {"n2", "cpu-avx2:2+cpu-avx512:2"}}};
}

TEST_SUITE("sim/faults") {
  TEST_CASE("a worker that dies at any time costs time and no bit") {
    for_each_seed("crash", 30, [](std::uint64_t s) {
      SimWorld world(two_nodes(s));
      const JobSpec spec = some_job(s);
      const JobId job = world.client().submit(spec).value();
      for (int i = 0; i < 2; ++i) {
        world.run_for(world.random_time(milliseconds(100), seconds(1)));
        const auto running = world.running();
        if (!running.empty()) world.crash_worker(running[world.pick(running.size())]);
      }
      check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
    });
  }

  TEST_CASE("a job recovers from a lost machine on the machines that are left") {
    for_each_seed("lost node", 30, [](std::uint64_t s) {
      SimWorld world(two_nodes(s));
      const JobSpec spec = some_job(s);
      const JobId job = world.client().submit(spec).value();
      world.run_for(world.random_time(milliseconds(100), seconds(1)));
      world.lose_node(world.pick(2) == 0 ? "n1" : "n2");
      check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
    });
  }

  TEST_CASE("a machine that was lost and comes back serves again") {
    for_each_seed("returning node", 30, [](std::uint64_t s) {
      SimWorld world({.seed = s, .nodes = {{"n1", "cpu-avx2:2"}}});
      const JobSpec spec = job_spec(s, 60);
      const JobId job = world.client().submit(spec).value();
      world.run_for(world.random_time(milliseconds(100), seconds(1)));
      world.lose_node("n1");
      world.run_for(world.random_time(milliseconds(1), seconds(10)));
      world.return_node("n1");
      check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
    });
  }

  TEST_CASE(
      "processes on a machine that was cut off are ended when the machine is reachable again") {
    for_each_seed("cut node", 30, [](std::uint64_t s) {
      SimWorld world(two_nodes(s));
      const JobSpec spec = some_job(s);
      const JobId job = world.client().submit(spec).value();
      world.run_for(world.random_time(milliseconds(100), seconds(1)));
      const std::string node = world.pick(2) == 0 ? "n1" : "n2";
      world.cut_node(node);
      world.run_for(world.random_time(milliseconds(10), seconds(10)));
      world.heal_node(node);
      check_finished(world.client().wait_until_over(job), spec);
      world.run_for(seconds(10));
      check_at_rest(world);
    });
  }

  TEST_CASE("a job that is cancelled at any time releases everything") {
    for_each_seed("cancel", 30, [](std::uint64_t s) {
      SimWorld world(two_nodes(s));
      const JobSpec spec = some_job(s, 3);
      const JobId job = world.client().submit(spec).value();
      world.run_for(world.random_time(milliseconds(1), seconds(2)));
      const Status cancelled = world.client().wait(world.client().post_cancel(job));
      REQUIRE_MESSAGE(cancelled.ok(), cancelled.error().message);
      CHECK(world.client().wait_until_over(job).state == "cancelled");
      check_at_rest(world);
      CHECK(!world.client().wait(world.client().post_cancel(job)).ok());
    });
  }

  TEST_CASE("a job continues after a restart of the head, with the same bits") {
    for_each_seed("head restart", 30, [](std::uint64_t s) {
      SimWorld world(two_nodes(s));
      const JobSpec spec = some_job(s);
      const JobId job = world.client().submit(spec).value();
      world.run_for(world.random_time(milliseconds(1), seconds(1)));
      world.stop_head();
      world.run_for(world.random_time(milliseconds(1), milliseconds(500)));
      world.start_head();
      world.run_for(seconds(1));
      check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
    });
  }

  TEST_CASE("three jobs survive two restarts of the head, each on devices of its own") {
    for_each_seed("restarts with several jobs", 30, [](std::uint64_t s) {
      SimWorld world(two_nodes(s));
      std::map<JobId, JobSpec> jobs;
      for (const JobSpec& spec : {job_spec(s, 200), some_job(s + 1), job_spec(s + 2, 150)})
        jobs[world.client().submit(spec).value()] = spec;
      for (int i = 0; i < 2; ++i) {
        world.run_for(world.random_time(milliseconds(1), milliseconds(700)));
        world.stop_head();
        world.run_for(world.random_time(milliseconds(1), milliseconds(200)));
        world.start_head();
      }
      world.run_for(seconds(1));
      for (const auto& [job, spec] : jobs)
        check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
    });
  }

  TEST_CASE("a crash, a cut and a lost machine together change no bit") {
    for_each_seed("everything", 30, [](std::uint64_t s) {
      SimWorldOptions options = two_nodes(s);
      options.nodes["n3"] = "cpu-avx2:2+cpu-avx512:2";
      SimWorld world(options);
      std::map<JobId, JobSpec> jobs;
      for (const JobSpec& spec : {some_job(s), some_job(s + 1)})
        jobs[world.client().submit(spec).value()] = spec;
      world.run_for(world.random_time(milliseconds(100), seconds(1)));
      const auto running = world.running();
      if (!running.empty()) world.crash_worker(running[world.pick(running.size())]);
      world.cut_node("n1");
      world.run_for(world.random_time(milliseconds(1), seconds(5)));
      world.lose_node("n2");
      world.run_for(world.random_time(milliseconds(1), seconds(5)));
      world.heal_node("n1");
      world.return_node("n2");
      for (const auto& [job, spec] : jobs)
        check_finished(world.client().wait_until_over(job), spec);
      world.run_for(seconds(10));
      check_at_rest(world);
    });
  }
}

}  // namespace
}  // namespace es::test
