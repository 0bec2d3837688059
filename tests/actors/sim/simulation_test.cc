// Small traces whose outcome can be computed by hand, and rules that hold for every trace.
#include "actors/sim/shell/simulation.h"

#include <doctest/doctest.h>

#include <random>

#include "actors/sim/report/report.h"
#include "tests/actors/sim/small_traces.h"
#include "tests/support/seed.h"

namespace es::actors::simulator {
namespace {

// Jobs that were there held all devices.
void check_nothing_held_after_the_end(const SimulationResult& result) {
  double by_jobs = 0, all = 0;
  for (const JobResult& job : result.jobs) by_jobs += job.device_s;
  for (const double device_s : result.held_device_s) all += device_s;
  CHECK(all == doctest::Approx(by_jobs).epsilon(1e-6));
}

void check_all_ended(const SimulationResult& result, const Workload& work) {
  CHECK(result.unfinished == 0);
  CHECK(result.refused == 0);
  for (std::size_t i = 0; i < result.jobs.size(); ++i) {
    const JobResult& job = result.jobs[i];
    CAPTURE(i);
    CHECK(job.first_step_s >= job.submit_s + 20 - 1e-6);
    CHECK(job.end_s > job.first_step_s);
    // The job has done at most the work that its devices can do.
    const double local_steps =
        static_cast<double>(work.jobs[i].spec.steps) * work.jobs[i].spec.max_p;
    CHECK(job.device_s >= local_steps - 1e-6);
  }
  check_nothing_held_after_the_end(result);
  for (const Sample& sample : result.samples) {
    for (std::size_t t = 0; t < result.types.size(); ++t) {
      REQUIRE(sample.held[t] <= work.cluster.count_of(result.types[t]));
      REQUIRE(sample.computing[t] <= sample.held[t]);
    }
  }
}

}  // namespace

TEST_SUITE("actors/sim") {
  TEST_CASE("one job alone takes the time of its start and its steps") {
    const Workload work = workload({job("j", 10, 4, 400)}, "a:4");
    for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
      CAPTURE(policy.name);
      const SimulationResult result = run(work, options(std::string(policy.name)));
      REQUIRE(result.unfinished == 0);
      CHECK(result.jobs[0].submit_s == doctest::Approx(10));
      CHECK(result.jobs[0].first_step_s >= 30 - 1e-6);
      // 100 global steps of one second on four devices. The policy easyscale begins with one device
      // and adds more.
      CHECK(result.jobs[0].end_s >= 130 - 1e-6);
      CHECK(result.jobs[0].end_s <= 150);
    }
  }

  TEST_CASE("one job at a time: the second waits for the first") {
    const Workload work = workload({job("j", 0, 2, 200), job("k", 0, 2, 200)}, "a:4");
    const SimulationResult result = run(work, options("fifo-serial"));
    CHECK(result.jobs[0].end_s == doctest::Approx(120));
    CHECK(result.jobs[1].end_s == doctest::Approx(240));
    CHECK(result.jobs[1].waiting_s == doctest::Approx(120));
    const Report report = make_report(work, result, 20);
    CHECK(report.avg_jct_s == doctest::Approx(180));
    CHECK(report.makespan_s == doctest::Approx(240));
    // On four devices both could end after 120 s.
    CHECK(report.avg_jct_bound_s == doctest::Approx(120));
    CHECK(report.makespan_bound_s == doctest::Approx(120));
    CHECK(report.devices_held_mean == doctest::Approx(2));
    CHECK(report.devices_computing_mean == doctest::Approx(2 * 200.0 / 240));
    // Each of the two could have had two devices all the time, so rho is 1 and 2.
    CHECK(report.worst_rho == doctest::Approx(2));
  }

  TEST_CASE("a claim takes devices at once, and training uses them again after its end") {
    const Workload work = workload({job("j", 0, 4, 4000)}, "a:4");
    SimulationOptions how = options("elastic-srtf");
    how.world.claims = {{100, "a", 2, "serving"}, {400, "a", 0, "serving"}};
    const SimulationResult result = run(work, how);
    CHECK(result.unfinished == 0);
    CHECK(result.refused == 0);
    CHECK(result.jobs[0].rescales >= 2);
    CHECK(result.jobs[0].scale_ins == 1);
    for (const Sample& sample : result.samples)
      if (sample.time_s > 110 && sample.time_s < 400) CHECK(sample.held[0] <= 2);
    CHECK(result.samples[result.samples.size() - 2].held[0] == 4);
    // 300 s with half of the devices cost 150 s. Two changes cost 10 s and one step each.
    CHECK(result.jobs[0].end_s > 1020 + 150);
    CHECK(result.jobs[0].end_s < 1020 + 150 + 40);
  }

  TEST_CASE("for every policy a cluster of which most is claimed is a small cluster") {
    std::mt19937_64 random(test::seed("simulated claims"));
    std::vector<store::TraceJob> jobs;
    for (int i = 0; i < 12; ++i)
      jobs.push_back(job("j" + std::to_string(i), 1 + static_cast<double>(random() % 300),
                         1 + random() % 16, 200 + static_cast<double>(random() % 20000)));
    const Workload claimed = workload(jobs, "a:100"), small = workload(jobs, "a:16");
    for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
      CAPTURE(policy.name);
      SimulationOptions how = options(std::string(policy.name), 1);
      const SimulationResult expected = run(small, how);
      how.world.claims = {{0, "a", 84, "serving"}};
      const SimulationResult result = run(claimed, how);
      CHECK(result.refused == 0);
      for (std::size_t i = 0; i < jobs.size(); ++i)
        CHECK(result.jobs[i].end_s == doctest::Approx(expected.jobs[i].end_s));
    }
  }

  TEST_CASE("a change in the first step, whose end is no whole nanosecond, lets the job end") {
    store::JobTrace trace;
    trace.jobs = {job("j", 0, 2, 2000)};
    trace.jobs[0].model = "m";
    store::StepTimes times;
    times.seconds[{"m", "a"}] = 0.035410821231294506;
    const Workload work = make_workload(trace, times, devices("a:2"), {}).value();
    SimulationOptions how = options("elastic-srtf");
    how.world.claims = {{20.01, "a", 1, "serving"}, {30, "a", 0, "serving"}};
    const SimulationResult result = run(work, how);
    CHECK(result.unfinished == 0);
    CHECK(result.jobs[0].rescales > 0);
    check_nothing_held_after_the_end(result);
  }

  // 8 ESTs of 1 s: a step takes 1 s + 7 * 2 s on eight devices, 4 s + 2 s on two, 8 s on one.
  TEST_CASE("a job learns what communication costs, and so does the next job of its kind") {
    const Workload work =
        workload({job("first", 0, 8, 8 * 1000.0), job("second", 20'000, 8, 8 * 1000.0)}, "a:8");
    for (const char* policy : {"elastic-srtf", "easyscale", "max-min-fair"}) {
      CAPTURE(policy);
      SimulationOptions how = options(policy);
      how.world.sync_s = 2;
      const SimulationResult result = run(work, how);
      // Some steps on eight devices, and a change.
      CHECK(result.jobs[0].end_s > 6020);
      CHECK(result.jobs[0].end_s < 6020 + 150);
      CHECK(result.jobs[0].scale_ins == 1);
      if (policy != std::string("elastic-srtf")) continue;
      CHECK(result.jobs[1].end_s - result.jobs[1].submit_s == doctest::Approx(6020));
      CHECK(result.jobs[1].rescales == 0);
    }
  }

  TEST_CASE("a suspension has another cost than a change that leaves the job a device") {
    const Workload work = workload({job("long", 0, 1, 3000), job("short", 1000, 1, 100)}, "a:1");
    SimulationOptions how = options("srtf", 5);
    const double before = run(work, how).jobs[0].end_s;
    how.world.suspend_s = 50;
    const SimulationResult result = run(work, how);
    CHECK(result.jobs[0].rescales > 0);
    CHECK(result.jobs[0].end_s == doctest::Approx(before + 45));
  }

  TEST_CASE("every policy ends every job and gives no device twice") {
    const std::uint64_t seed = test::seed("simulated traces");
    for (std::uint64_t round = 0; round < 3; ++round) {
      const Workload work = random_workload(seed + round, 40);
      for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
        CAPTURE(policy.name);
        CAPTURE(round);
        check_all_ended(run(work, options(std::string(policy.name))), work);
      }
    }
  }

  TEST_CASE("the same options give the same history, another seed another one") {
    const std::uint64_t seed = test::seed("simulated histories");
    const Workload work = random_workload(seed, 30);
    const SimulationOptions how = options("elastic-srtf");
    const SimulationResult first = run(work, how);
    CHECK(run(work, how).history_hash == first.history_hash);
    CHECK(run(random_workload(seed + 1, 30), how).history_hash != first.history_hash);
    SimulationOptions failing = how;
    failing.world.failure_hours = 1;
    failing.world.seed = 1;
    const std::uint64_t one = run(work, failing).history_hash;
    failing.world.seed = 2;
    CHECK(run(work, failing).history_hash != one);
  }

  TEST_CASE("where step times state a cost per sample, jobs with larger mini-batches are slower") {
    store::JobTrace trace;
    trace.jobs = {job("j", 0, 1, 10), job("k", 0, 1, 10)};
    trace.jobs[0].model = trace.jobs[1].model = "bert";
    trace.jobs[1].batch_size = 11;
    store::StepTimes times;
    times.seconds[{"bert", "a"}] = 1;
    times.seconds_per_sample[{"bert", "a"}] = 0.5;
    const Workload work = make_workload(trace, times, devices("a:1"), {}).value();
    CHECK(work.jobs[0].capabilities.at({"a"}) == doctest::Approx(1 / 1.5));
    CHECK(work.jobs[1].capabilities.at({"a"}) == doctest::Approx(1 / 6.5));
    CHECK(work.jobs[0].model_key != work.jobs[1].model_key);
  }

  TEST_CASE("an error names a model without a speed or without a known amount of work") {
    store::JobTrace trace;
    trace.jobs = {job("j", 0, 1, 10)};
    trace.jobs[0].model = "bert";
    const auto no_speed = make_workload(trace, {}, devices("a:1"), {});
    REQUIRE(!no_speed);
    CHECK(no_speed.error().message.find("job j: model bert") != std::string::npos);
    store::StepTimes times;
    times.seconds[{"bert", "a"}] = 1;
    trace.jobs[0].local_steps = 0;
    const auto no_work = make_workload(trace, times, devices("a:1"), {});
    REQUIRE(!no_work);
    CHECK(no_work.error().message.find("samples_total") != std::string::npos);
  }
}

}  // namespace es::actors::simulator
