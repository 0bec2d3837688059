// The real head with nodes on which no process can start or work, or from which none reaches
// another node, and with programs that end everywhere. The jobs of others end with their bits, and
// what was set aside comes back when it is repaired.
#include <doctest/doctest.h>

#include <csignal>
#include <functional>
#include <map>

#include "actors/base/protocol/core/growing_pauses.h"
#include "tests/sim/sim_gateway.h"
#include "tests/sim/sim_jobs.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

using actors::ProcessExit;
using std::chrono::seconds;

const std::vector<ProcessExit> kEnds = {
    {.exit_code = actors::kNotStarted, .last_words = "run-dir: No space left on device"},
    {.exit_code = actors::kNodeUnusable, .last_words = "cannot listen"},
    {.exit_code = 1, .last_words = "no such file"},
    {.exit_code = -1, .signal = SIGKILL, .last_words = "", .out_of_memory = true},
    {.exit_code = -1, .signal = SIGSEGV, .last_words = ""},
};

// Everything that was set aside is used again at last.
void check_all_back(SimWorld& world) {
  world.run_for(2 * actors::kPauseLongest);
  CHECK(world.client().set_aside().empty());
}

}  // namespace

TEST_SUITE("sim/broken nodes") {
  TEST_CASE("a node on which no process can work fails no job, and is set aside") {
    for_each_seed("broken node", 10, [](std::uint64_t s) {
      SimWorld world({.seed = s, .nodes = {{"good", "cpu-avx2:1"}, {"bad", "cpu-avx2:4"}}});
      const ProcessExit& end = kEnds[s % kEnds.size()];
      world.cluster().ends_at_start["bad"] = end;
      std::map<JobId, JobSpec> jobs;
      for (int i = 0; i < 4; ++i) {
        const JobSpec spec = job_spec(s + static_cast<std::uint64_t>(i), 100);
        jobs[world.client().submit(spec).value()] = spec;
      }
      world.run_for(seconds(2));
      CHECK(world.client().set_aside() == std::set<std::string>{"bad"});
      for (const auto& [job, spec] : jobs)
        check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
      world.cluster().ends_at_start.clear();
      check_all_back(world);
    });
  }

  TEST_CASE("a job that trains goes on, without a pause, when it is given devices of such a node") {
    for_each_seed("broken joiner", 10, [](std::uint64_t s) {
      SimWorld world({.seed = s, .nodes = {{"bad", "cpu-avx2:3"}, {"good", "cpu-avx2:1"}}});
      world.lose_node("bad");
      world.run_for(seconds(4));
      const JobSpec spec = job_spec(s, 1500);
      const JobId job = world.client().submit(spec).value();
      world.run_for(seconds(3));
      world.cluster().ends_at_start["bad"] = kEnds[s % kEnds.size()];
      world.return_node("bad");
      const auto view = world.client().wait_until_over(job);
      check_finished(view, spec);
      CHECK(view.start_retries > 0);
      CHECK(actors::recoveries_of(view) == 0);
      check_at_rest(world);
    });
  }

  TEST_CASE("a program that ends everywhere fails its job alone, and no node is set aside") {
    for_each_seed("broken program", 10, [](std::uint64_t s) {
      std::map<std::string, std::string> nodes = {{"n1", "cpu-avx2:2"}};
      if (s % 2 == 0) nodes["n2"] = "cpu-avx2:2";
      SimWorld world({.seed = s, .nodes = nodes});
      JobSpec bad = job_spec(s, 50);
      bad.name = "bad";
      world.cluster().program_ends["bad"] = kEnds[2 + s % 3];
      const JobSpec good = job_spec(s, 300, 1);
      const JobId trains = world.client().submit(good).value();
      world.run_for(seconds(1));
      const auto failed = world.client().wait_until_over(world.client().submit(bad).value());
      CHECK(failed.state == "failed");
      INFO(failed.error);
      CHECK(failed.error.find("in the same way") != std::string::npos);
      CHECK(world.client().set_aside().empty());
      check_finished(world.client().wait_until_over(trains), good);
      check_at_rest(world);
    });
  }

  TEST_CASE("a job whose nodes have no link to each other runs on one of them, and later on both") {
    for_each_seed("no link", 10, [](std::uint64_t s) {
      SimWorld world({.seed = s, .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx2:2"}}});
      world.disturb(IsolateSite{"n1", true});
      const JobSpec spec = job_spec(s, 3000);
      const JobId job = world.client().submit(spec).value();
      for (int i = 0; i < 300 && world.client().describe(job)->step <= 500; ++i)
        world.run_for(seconds(1));
      CHECK(world.client().describe(job)->step > 500);
      world.disturb(IsolateSite{"n1", false});
      check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
      check_all_back(world);
    });
  }

  TEST_CASE("of three nodes the one without links is used alone, and the others together") {
    for_each_seed("one without links", 10, [](std::uint64_t s) {
      SimWorld world(
          {.seed = s, .nodes = {{"n1", "cpu-avx2:1"}, {"n2", "cpu-avx2:1"}, {"n3", "cpu-avx2:1"}}});
      world.disturb(IsolateSite{"n2", true});
      std::map<JobId, JobSpec> jobs;
      for (const std::uint64_t i : {0, 1}) {
        const JobSpec spec = job_spec(s + i, 400, i == 0 ? 3 : 1);
        jobs[world.client().submit(spec).value()] = spec;
      }
      for (const auto& [job, spec] : jobs)
        check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
    });
  }

  TEST_CASE("nodes that break and are repaired at any time fail no job") {
    for_each_seed("breaking nodes", 10, [](std::uint64_t s) {
      SimWorld world(
          {.seed = s, .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx2:2"}, {"n3", "cpu-avx2:2"}}});
      std::map<JobId, JobSpec> jobs;
      for (int i = 0; i < 4; ++i) {
        const JobSpec spec = job_spec(s + static_cast<std::uint64_t>(i), 600);
        jobs[world.client().submit(spec).value()] = spec;
      }
      for (int i = 0; i < 12; ++i) {
        // One node at a time: a job that fails in the same way on two nodes is at fault itself.
        const std::string node = "n" + std::to_string(1 + world.pick(3));
        if (world.pick(3) == 0)
          world.disturb(IsolateSite{node, true});
        else
          world.cluster().ends_at_start[node] = kEnds[world.pick(2)];
        const auto running = world.running();
        if (!running.empty()) world.crash_worker(running[world.pick(running.size())]);
        world.run_for(world.random_time(seconds(1), seconds(8)));
        world.cluster().ends_at_start.clear();
        world.disturb(IsolateSite{node, false});
      }
      for (const auto& [job, spec] : jobs)
        check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
      check_all_back(world);
    });
  }
}

}  // namespace es::test
