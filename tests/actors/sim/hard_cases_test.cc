// Small traces on which policies have left devices idle, broken a guarantee, or starved a job.
#include <tuple>

#include "tests/actors/sim/small_traces.h"

namespace es::actors::simulator {
namespace {

SimulationOptions with_costs(const std::string& policy, double start_s, double rescale_s) {
  SimulationOptions how = options(policy, rescale_s);
  how.world.start_s = start_s;
  return how;
}

store::StepTimes step_times(double fast_s, double slow_s) {
  store::StepTimes times;
  times.seconds = {{{"m", "fast"}, fast_s}, {{"m", "slow"}, slow_s}};
  return times;
}

}  // namespace

TEST_SUITE("actors/sim/hard cases") {
  TEST_CASE("a job on one fast and four slow devices moves to fast ones that become idle") {
    store::JobTrace trace;
    trace.jobs = {job("a", 0, 5, 20'000), job("b", 100, 5, 100'000)};
    for (store::TraceJob& one : trace.jobs) one.model = "m";
    const Workload work =
        make_workload(trace, step_times(0.25, 0.55), devices("fast:6+slow:10"), {}).value();
    // a ends after 1,002 s. On five fast devices all of b takes 5,001 s.
    for (const std::string policy : {"elastic-srtf", "easyscale", "max-min-fair", "sia"}) {
      CAPTURE(policy);
      CHECK(run(work, with_costs(policy, 1, 1)).jobs[1].end_s < 6'000);
    }
  }

  TEST_CASE("a queue has its guarantee beside jobs of another one that may not be suspended") {
    store::JobTrace trace;
    for (const auto& [id, submit_s, steps, queue] :
         {std::tuple{"u0", 0, 5000, "batch"}, std::tuple{"u1", 0, 5000, "batch"},
          std::tuple{"h0", 50, 5000, "batch"}, std::tuple{"h1", 50, 5000, "batch"},
          std::tuple{"s0", 100, 500, "service"}, std::tuple{"s1", 100, 500, "service"}}) {
      trace.jobs.push_back(job(id, submit_s, 1, steps));
      trace.jobs.back().queue = queue;
      trace.jobs.back().suspendable = id[0] != 'u';
      trace.jobs.back().priority = id[0] == 'h' ? 5 : 0;
    }
    const Workload work = make_workload(trace, {}, devices("gpu:4"), {}).value();
    for (const std::string policy : {"elastic-srtf", "fifo-backfill", "fifo-gang", "srtf", "las"}) {
      CAPTURE(policy);
      SimulationOptions how = with_costs(policy, 10, 5);
      how.queues = *scheduler::completed_queues({{.name = "service", .guarantee = devices("gpu:2")},
                                                 {.name = "batch", .guarantee = devices("gpu:2")}});
      const SimulationResult result = run(work, how);
      for (const std::size_t s : {4, 5}) CHECK(result.jobs[s].first_step_s < 120);
    }
  }

  TEST_CASE("a job gives its device up although its step takes longer than a head waits") {
    store::JobTrace trace;
    trace.jobs = {job("slow", 0, 1, 1'000), job("urgent", 100, 1, 10)};
    trace.jobs[0].model = trace.jobs[1].model = "m";
    trace.jobs[1].priority = 1;
    const Workload work = make_workload(trace, step_times(30, 30), devices("fast:1"), {}).value();
    for (const std::string policy : {"elastic-srtf", "srtf", "las"}) {
      CAPTURE(policy);
      CHECK(run(work, with_costs(policy, 1, 1)).jobs[1].end_s < 500);
    }
  }

  TEST_CASE("a short job that waits becomes late, however long it has waited") {
    store::JobTrace trace;
    for (const char* id : {"l0", "l1", "l2", "l3"}) trace.jobs.push_back(job(id, 0, 1, 40'000));
    trace.jobs.push_back(job("short", 100, 1, 1'000));
    for (store::TraceJob& one : trace.jobs) one.model = "m";
    const Workload work =
        make_workload(trace, step_times(0.25, 1), devices("fast:2+slow:1"), {}).value();
    // Alone it takes 250 s.
    for (const std::string policy : {"themis", "gavel-ftf", "elastic-srtf", "max-min-fair"}) {
      CAPTURE(policy);
      CHECK(run(work, with_costs(policy, 1, 1)).jobs[4].end_s < 2'500);
    }
  }
}

}  // namespace es::actors::simulator
