// The real head with nodes whose daemons are told to end, also while the head is away. They end
// within their time of grace, and the bits of the jobs stay the same.
#include <doctest/doctest.h>

#include "tests/sim/sim_jobs.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kDrainRuns = 20;
constexpr seconds kGrace{30};

bool has_ended(SimWorld& world, const std::string& node) {
  return world.cluster().ended_daemons.contains(node);
}

}  // namespace

TEST_SUITE("sim/drain") {
  TEST_CASE("a node that is told to end around a restart of the head ends within its grace") {
    const std::uint64_t base = seed("drain");
    for (std::uint64_t s = base; s < base + kDrainRuns; ++s) {
      CAPTURE(s);
      INFO("replay with ES_SEED=" << s);
      SimWorld world(
          {.seed = s, .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx2:2"}, {"n3", "cpu-avx2:1"}}});
      std::map<JobId, JobSpec> jobs;
      for (std::uint64_t i = 0; i < 2; ++i) {
        const JobSpec spec = job_spec(s + i, 4000);
        jobs[world.client().submit(spec).value()] = spec;
      }
      world.run_for(world.random_time(milliseconds(500), seconds(3)));
      // The next head waits for this node for some seconds, and holds the others back.
      world.lose_node("n3");
      const bool before = world.pick(2) == 0;
      if (before) world.end_daemon("n2");
      world.run_for(world.random_time(milliseconds(1), milliseconds(300)));
      world.stop_head();
      world.run_for(world.random_time(milliseconds(1), seconds(1)));
      if (!before) world.end_daemon("n2");
      world.start_head();
      world.run_for(world.random_time(seconds(1), seconds(10)));
      world.return_node("n3");
      CHECK(world.run_until([&] { return has_ended(world, "n2"); }, kGrace));
      // A start may have been on its way when the node said so.
      CHECK(world.cluster().refused_starts <= 4);
      world.return_node("n2");
      for (const auto& [job, spec] : jobs)
        check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
    }
  }
}

}  // namespace es::test
