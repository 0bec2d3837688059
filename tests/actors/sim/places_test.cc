// Where the devices of jobs lie, and reservations, in simulated clusters.
#include <map>

#include "scheduler/policy/common/queue.h"
#include "tests/actors/sim/small_traces.h"

namespace es::actors::simulator {
namespace {

// Racks of two nodes with four devices each.
SimulationOptions racks_of_two_nodes(const std::string& policy) {
  SimulationOptions how = options(policy);
  how.world.devices_per_node = 4;
  how.world.nodes_per_rack = 2;
  return how;
}

// Jobs of 1 to 8 devices, which come and go.
Workload mixed_sizes() {
  std::vector<store::TraceJob> jobs;
  for (int i = 0; i < 60; ++i)
    jobs.push_back(job("j" + std::to_string(i), 40.0 * i, 1U << (i * 7 % 4),
                       (1U << (i * 7 % 4)) * (200.0 + i * 37 % 150)));
  return workload(std::move(jobs), "a:48");
}

}  // namespace

TEST_SUITE("actors/sim/places") {
  TEST_CASE("jobs lie in fewer racks and on fewer nodes if nodes say where they are") {
    const Workload work = mixed_sizes();
    for (const char* policy : {"elastic-srtf", "fifo-backfill", "srtf"}) {
      CAPTURE(policy);
      SimulationOptions how = racks_of_two_nodes(policy);
      const SimulationResult told = run(work, how);
      how.world.hides_places = true;
      const SimulationResult hidden = run(work, how);
      CHECK(told.unfinished == 0);
      CHECK(hidden.many_racks_device_s > 0);
      CHECK(told.many_racks_device_s < 0.5 * hidden.many_racks_device_s);
      CHECK(told.many_nodes_device_s <= hidden.many_nodes_device_s);
    }
  }

  TEST_CASE("a step takes longer for each further node and rack") {
    SimulationOptions how = racks_of_two_nodes("fifo-gang");
    how.world.node_sync_s = 0.02;
    how.world.rack_sync_s = 0.04;
    how.world.start_s = 0;
    const auto seconds_of = [&](std::uint32_t devices) {
      return run(workload({job("j", 0, devices, devices * 100.0)}, "a:24"), how).jobs[0].end_s;
    };
    CHECK(seconds_of(4) == doctest::Approx(100).epsilon(0.001));
    CHECK(seconds_of(8) == doctest::Approx(102).epsilon(0.001));
    CHECK(seconds_of(12) == doctest::Approx(100 * (1 + 2 * 0.02 + 0.04)).epsilon(0.001));
  }

  TEST_CASE("jobs lose no work on spot nodes whose end is announced") {
    SimulationOptions how = options("elastic-srtf");
    how.world.devices_per_node = 2;
    how.world.failure_hours = 0.5;
    how.world.repair_s = 200;
    how.world.spot_nodes = 2;
    const Workload work = mixed_sizes();
    const SimulationResult sudden = run(work, how);
    how.world.notice_s = 60;
    const SimulationResult announced = run(work, how);
    const auto lost_s = [](const SimulationResult& result) {
      double sum = 0;
      for (const JobResult& job : result.jobs) sum += job.lost_s;
      return sum;
    };
    for (const SimulationResult* result : {&sudden, &announced}) {
      CHECK(result->unfinished == 0);
      CHECK(result->refused == 0);
      CHECK(result->failures > 3);
    }
    CHECK(lost_s(sudden) > 0);
    CHECK(lost_s(announced) == 0);
  }

  TEST_CASE("a reservation gives a queue its devices from its begin to its end") {
    std::vector<store::TraceJob> jobs;
    // `batch` fills the cluster with long jobs before.
    for (int i = 0; i < 4; ++i) jobs.push_back(job("b" + std::to_string(i), 0, 1, 4000));
    for (int i = 0; i < 2; ++i) jobs.push_back(job("r" + std::to_string(i), 1000, 1, 500));
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].queue = i < 4 ? "batch" : "reserved";
    const Workload work = workload(std::move(jobs), "a:4");
    for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
      if (!policy.holds_queues || policy.name == "fifo-serial") continue;
      CAPTURE(policy.name);
      SimulationOptions how = options(std::string(policy.name));
      how.queues = *scheduler::completed_queues(
          {{.name = "batch", .guarantee = {}, .weight = 1}, {.name = "reserved", .guarantee = {}}});
      const auto ends = [&] {
        const SimulationResult result = run(work, how);
        CHECK(result.unfinished == 0);
        CHECK(result.refused == 0);
        return std::max(result.jobs[4].end_s, result.jobs[5].end_s);
      };
      // Without it, a queue of the weight 0 waits until others are done, except where the shortest
      // job comes first.
      how.world.claims = {{900, "a", 2, "night", 3000, "reserved"}};
      CHECK(ends() < 1000 + 500 + 60);
      // A reservation that has ended before guarantees nothing.
      how.world.claims = {{100, "a", 2, "night", 900, "reserved"}};
      if (policy.name != "srtf" && policy.name != "elastic-srtf") CHECK(ends() > 2000);
      // One of a queue that does not exist is refused.
      how.world.claims = {{900, "a", 2, "night", 3000, "nobody"}};
      CHECK(run(work, how).first_refusal.find("there is no such queue") != std::string::npos);
    }
  }
}

}  // namespace es::actors::simulator
