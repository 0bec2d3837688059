// What policies know about jobs (--estimate-error, --unknown-lengths, --lying-users,
// --learn-speeds).
#include "actors/sim/core/knowledge.h"

#include <cmath>

#include "scheduler/policy/registry.h"
#include "tests/actors/sim/small_traces.h"
#include "tests/support/seed.h"

namespace es::actors::simulator {
namespace {

scheduler::JobView job_view(std::uint64_t number, double total, double remaining) {
  scheduler::JobView view;
  view.id = "j";
  view.number = number;
  view.capabilities = {{{"a"}, 2.0}, {{"b"}, 4.0}};
  view.work.total_steps = total;
  view.work.remaining_steps = remaining;
  return view;
}

// The mean and the standard deviation of log(supposed / true length) over many jobs.
std::pair<double, double> spread_of_lengths(const Knowledge& knowledge) {
  double sum = 0, squares = 0;
  constexpr int kJobs = 4000;
  for (int i = 0; i < kJobs; ++i) {
    const double x =
        std::log(known_part(job_view(i, 1000, 1000), knowledge).work.total_steps / 1000);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kJobs;
  return {mean, std::sqrt(squares / kJobs - mean * mean)};
}

}  // namespace

TEST_SUITE("actors/sim/knowledge") {
  TEST_CASE("errors of estimates have the logarithmic normal distribution that was asked for") {
    const std::uint64_t seed = test::seed("knowledge");
    const auto [mean, deviation] = spread_of_lengths({.estimate_error = 0.5, .seed = seed});
    CHECK(mean == doctest::Approx(0).epsilon(0.05));
    CHECK(deviation == doctest::Approx(0.5).epsilon(0.1));
    const Knowledge knowledge{.estimate_error = 0.5, .seed = seed};
    const auto known = known_part(job_view(7, 1000, 1000), knowledge);
    const auto again = known_part(job_view(7, 1000, 1000), knowledge);
    CHECK(known.capabilities == again.capabilities);
    CHECK(known.capabilities.at({"a"}) * 2 != known.capabilities.at({"b"}));
  }

  TEST_CASE("what a job has done is known, and a job that is longer than supposed needs more") {
    const Knowledge liars{.lying_users = 1};
    const auto early = known_part(job_view(1, 1000, 950), liars);
    CHECK(early.work.remaining_steps == doctest::Approx(50));
    CHECK(early.work.total_steps == doctest::Approx(100));
    const auto late = known_part(job_view(1, 1000, 500), liars);
    CHECK(late.work.remaining_steps == doctest::Approx(50));
    CHECK(late.work.total_steps == doctest::Approx(550));
  }

  TEST_CASE("of jobs that stop early the policy knows the allowed length") {
    for (int i = 0; i < 100; ++i) {
      const double total =
          known_part(job_view(i, 1000, 1000), {.unknown_lengths = true}).work.total_steps;
      CHECK(total >= 1000);
      CHECK(total <= 5000 + 1e-6);
    }
    scheduler::JobView endless = job_view(1, scheduler::kUnknownLength, scheduler::kUnknownLength);
    CHECK(known_part(endless, {.estimate_error = 1}).work.remaining_steps ==
          scheduler::kUnknownLength);
  }

  TEST_CASE("every policy ends every job, whatever it is told, and tells the same history again") {
    const Workload work = random_workload(test::seed("knowledge of policies"), 30);
    for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
      CAPTURE(policy.name);
      const SimulationResult exact = run(work, options(std::string(policy.name)));
      for (int kind = 0; kind < 4; ++kind) {
        CAPTURE(kind);
        SimulationOptions how = options(std::string(policy.name));
        how.knowledge.estimate_error = kind == 0 ? 1 : 0;
        how.knowledge.unknown_lengths = kind == 1;
        how.knowledge.lying_users = kind == 2 ? 0.5 : 0;
        how.world.learns_speeds = kind == 3;
        const SimulationResult result = run(work, how);
        CHECK(result.unfinished == 0);
        CHECK(run(work, how).history_hash == result.history_hash);
      }
      CHECK(exact.unfinished == 0);
    }
  }

  TEST_CASE("srtf serves a job first whose user lies about its length") {
    // Both want the whole cluster. The long job pretends to be the shorter one.
    Workload work = workload({job("long", 0, 4, 4000), job("short", 0, 4, 2000)}, "a:4");
    SimulationOptions how = options("srtf", 0);
    CHECK(run(work, how).jobs[0].end_s > run(work, how).jobs[1].end_s);
    std::uint64_t seed = 0;
    // A seed with which only the first job lies.
    const auto lies = [&](std::uint64_t number) {
      const Knowledge k{.lying_users = 0.5, .seed = seed};
      return known_part(job_view(number, 1000, 1000), k).work.total_steps < 1000;
    };
    while (!lies(0) || lies(1)) ++seed;
    how.knowledge = {.lying_users = 0.5, .seed = seed};
    const SimulationResult result = run(work, how);
    CHECK(result.jobs[0].first_step_s < result.jobs[1].first_step_s);
  }

  TEST_CASE("a job that waits is judged by the speed that a similar job has measured since") {
    // The second job is submitted before the first one has measured anything, the third one after.
    store::JobTrace trace;
    trace.jobs = {job("first", 0, 1, 3000), job("short", 1, 1, 600), job("long", 200, 1, 3000)};
    for (store::TraceJob& one : trace.jobs) {
      one.model = "m";
      one.suspendable = false;
    }
    store::StepTimes times;
    times.seconds = {{{"m", "a"}, 0.1}};
    const Workload work = make_workload(trace, times, devices("a:1"), {}).value();
    for (const char* policy : {"elastic-srtf", "srtf"}) {
      CAPTURE(policy);
      SimulationOptions how = options(policy);
      how.policy_options.fairness =
          0;  // so that the time for which a job has waited does not count
      how.world.learns_speeds = true;
      const SimulationResult result = run(work, how);
      CHECK(result.jobs[1].first_step_s < result.jobs[2].first_step_s);
    }
  }

  TEST_CASE("speeds that are learned by running lead to the faster type in the end") {
    // The policy does not know that type b is three times as fast.
    store::JobTrace trace;
    for (int i = 0; i < 6; ++i) {
      store::TraceJob one = job("j" + std::to_string(i), 2000.0 * i, 2, 4000);
      one.model = "m";
      trace.jobs.push_back(one);
    }
    store::StepTimes times;
    times.seconds = {{{"m", "a"}, 3.0}, {{"m", "b"}, 1.0}};
    const Workload work = make_workload(trace, times, devices("a:2+b:2"), {}).value();
    SimulationOptions how = options("elastic-srtf");
    const SimulationResult known = run(work, how);
    how.world.learns_speeds = true;
    const SimulationResult learned = run(work, how);
    CHECK(learned.unfinished == 0);
    const auto total = [](const SimulationResult& result) {
      double sum = 0;
      for (const JobResult& one : result.jobs) sum += one.end_s - one.submit_s;
      return sum;
    };
    CHECK(total(learned) >= total(known));
    MESSAGE("mean completion time with learned speeds over that with known ones: ",
            total(learned) / total(known));
  }
}

}  // namespace es::actors::simulator
