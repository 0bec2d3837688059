// The real head and undisturbed simulated processes: which job gets which devices, and that the
// bits stay the same.
#include <doctest/doctest.h>

#include <set>

#include "tests/sim/sim_jobs.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

using actors::JobView;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A small busy cluster with two elastic jobs, of which one is scaled and one is cancelled.
std::pair<Digest, std::uint64_t> history_of(std::uint64_t seed) {
  SimWorld world({.seed = seed, .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx2:1"}}});
  SimClient& client = world.client();
  const JobId first = client.submit(job_spec(1, 40)).value();
  const JobId second = client.submit(job_spec(2, 40)).value();
  world.run_for(seconds(1));
  CHECK(client.wait(client.post_scale(first, "cpu-avx2:1")).ok());
  CHECK(client.wait(client.post_cancel(second)).ok());
  check_finished(client.wait_until_over(first), job_spec(1, 40));
  check_at_rest(world);
  return {world.history().digest(), world.history().count()};
}

std::size_t devices_of(SimWorld& world, const JobId& job) {
  std::size_t count = 0;
  for (const auto& [device, owner] : world.client().owners()) count += owner == job ? 1 : 0;
  return count;
}

bool runs_on(SimWorld& world, const JobId& job, const std::string& placement) {
  const auto view = world.client().describe(job);
  return view.ok() && view->state == "running" && view->placement == placement;
}

// Asks every 50 ms.
void wait_for_placement(SimWorld& world, const JobId& job, const std::string& placement) {
  for (int i = 0; i < 400 && !runs_on(world, job, placement); ++i) world.run_for(milliseconds(50));
  REQUIRE(runs_on(world, job, placement));
}

TEST_SUITE("sim/scheduling") {
  TEST_CASE("one seed gives one history, and another seed another one") {
    const std::uint64_t base = seed("history");
    const auto first = history_of(base);
    CHECK(first.second > 1000);
    CHECK(history_of(base) == first);
    CHECK(history_of(base + 1).first != first.first);
  }

  TEST_CASE("a staged job goes through exactly its stages, and its bits are those of a fixed run") {
    const std::uint64_t base = seed("stages");
    for (std::uint64_t s = base; s < base + 10; ++s) {
      CAPTURE(s);
      SimWorld world({.seed = s, .nodes = {{"n1", "cpu-avx2:4+cpu-avx512:2"}}});
      const JobSpec spec =
          staged_job(s, "cpu-avx2:4@5,cpu-avx512:2@3,cpu-avx2:1+cpu-avx512:1@4,cpu-avx512:1@2");
      const JobView view = world.client().wait_until_over(world.client().submit(spec).value());
      check_finished(view, spec);
      REQUIRE(view.stages.size() == spec.stages.size());
      for (std::size_t i = 0; i < spec.stages.size(); ++i) {
        CHECK(view.stages[i].placement == spec.stages[i].devices.text());
        CHECK(view.stages[i].steps == spec.stages[i].steps);
      }
      check_at_rest(world);
    }
  }

  TEST_CASE("two elastic jobs share the devices, and one grows when the other ends") {
    const std::uint64_t base = seed("sharing");
    for (std::uint64_t s = base; s < base + 10; ++s) {
      CAPTURE(s);
      // The default policy gives all devices to the short job.
      SimWorld world({.seed = s,
                      .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx2:2"}},
                      .policy = "easyscale"});
      SimClient& client = world.client();
      const JobSpec long_job = job_spec(s, 200), short_job = job_spec(s + 1, 40);
      const JobId a = client.submit(long_job).value();
      wait_for_placement(world, a, "cpu-avx2:4");
      const JobId b = client.submit(short_job).value();
      world.run_for(seconds(1));
      CHECK(devices_of(world, a) >= 1);
      CHECK(devices_of(world, b) >= 1);
      CHECK(devices_of(world, a) + devices_of(world, b) == 4);
      check_finished(client.wait_until_over(b), short_job);
      wait_for_placement(world, a, "cpu-avx2:4");
      check_finished(client.wait_until_over(a), long_job);
      check_at_rest(world);
    }
  }

  TEST_CASE("explicit scaling out and in changes the devices and no bit") {
    const std::uint64_t base = seed("scale");
    for (std::uint64_t s = base; s < base + 10; ++s) {
      CAPTURE(s);
      SimWorld world({.seed = s, .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx2:2"}}});
      SimClient& client = world.client();
      const JobSpec spec = job_spec(s, 400);
      const JobId job = client.submit(spec).value();
      std::set<std::string> placements;
      for (const char* devices : {"cpu-avx2:1", "cpu-avx2:3", "cpu-avx2:2"}) {
        world.run_for(world.random_time(milliseconds(1), seconds(1)));
        const Status scaled = client.wait(client.post_scale(job, devices));
        REQUIRE_MESSAGE(scaled.ok(), scaled.error().message);
        wait_for_placement(world, job, devices);
      }
      CHECK(client.wait(client.post_scale(job, "")).ok());
      wait_for_placement(world, job, "cpu-avx2:4");
      check_finished(client.wait_until_over(job), spec);
      check_at_rest(world);
    }
  }

  TEST_CASE("devices that can never exist are refused with the reason, and nothing is held") {
    SimWorld world({.seed = seed("refused"), .nodes = {{"n1", "cpu-avx2:2+cpu-avx512:2"}}});
    SimClient& client = world.client();
    const auto staged = client.submit(staged_job(1, "cpu-avx2:2@3,cpu-avx2:3@3"));
    REQUIRE(!staged.ok());
    CHECK(staged.error().kind == ErrorKind::kRefused);
    CHECK(staged.error().message.find("needs cpu-avx2:3, the cluster has") != std::string::npos);

    JobSpec of_one_type = job_spec(2, 10);
    of_one_type.resources.min_devices = 3;
    const JobView hopeless = client.wait_until_over(client.submit(of_one_type).value());
    CHECK(hopeless.state == "failed");
    CHECK(hopeless.error.find("min_devices = 3 devices of one type") != std::string::npos);
    check_at_rest(world);

    const JobSpec spec = job_spec(3, 60);
    const JobId job = client.submit(spec).value();
    wait_for_placement(world, job, "cpu-avx512:2");
    const Status scaled = client.wait(client.post_scale(job, "cpu-avx512:3"));
    REQUIRE(!scaled.ok());
    CHECK(scaled.error().kind == ErrorKind::kRefused);
    CHECK(scaled.error().message.find("the cluster has cpu-avx512:2") != std::string::npos);
    // Below D2 the job stays on the type on which it began.
    const Status other = client.wait(client.post_scale(job, "cpu-avx2:2"));
    REQUIRE(!other.ok());
    CHECK(other.error().message.find("allowed are devices of cpu-avx512") != std::string::npos);
    CHECK(!client.wait(client.post_scale(job, "cpu-avx512:5")).ok());
    CHECK(!client.wait(client.post_scale("nobody-7", "cpu-avx2:1")).ok());
    check_finished(client.wait_until_over(job), spec);
    check_at_rest(world);
  }

  TEST_CASE("a job whose next stage has become impossible waits until its devices are back") {
    SimWorld world({.seed = seed("impossible stage"),
                    .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx512:2"}}});
    SimClient& client = world.client();
    const JobSpec spec = staged_job(1, "cpu-avx2:2@300,cpu-avx2:1@20,cpu-avx512:2@20");
    const JobId job = client.submit(spec).value();
    wait_for_placement(world, job, "cpu-avx2:2");
    world.lose_node("n2");
    const auto waits = [&] {
      for (const std::string& line : client.log(job))
        if (line.find("the cluster has cpu-avx512:0; the job waits") != std::string::npos)
          return true;
      return false;
    };
    for (int i = 0; i < 200 && !waits(); ++i) world.run_for(milliseconds(100));
    CHECK(waits());
    world.run_for(seconds(20));
    world.return_node("n2");
    check_finished(client.wait_until_over(job), spec);
    check_at_rest(world);
  }

  TEST_CASE("twenty jobs queue and all of them finish in bounded time") {
    const std::uint64_t base = seed("queue");
    SimWorld world({.seed = base, .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx512:2"}}});
    SimClient& client = world.client();
    std::map<JobId, JobSpec> jobs;
    for (std::uint64_t i = 0; i < 20; ++i) {
      JobSpec spec = job_spec(base + i, 10 + i % 4);
      spec.resources.min_devices = 1 + static_cast<std::uint32_t>(i % 2);
      jobs[client.submit(spec).value()] = spec;
    }
    CHECK(jobs.size() == 20);
    for (const auto& [job, spec] : jobs) check_finished(client.wait_until_over(job), spec);
    // 20 jobs of at most 13 steps of 4 local steps of 10 ms are 10 s of work on one device.
    CHECK(world.now() < seconds(60));
    check_at_rest(world);
  }

  // The world checks after every decision that no device is idle beside a job that fits.
  TEST_CASE("a job whose smallest set computes less than half of the time starts when it fits") {
    const std::uint64_t base = seed("inefficient");
    for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
      CAPTURE(policy.name);
      SimWorld world({.seed = base,
                      .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx2:2"}},
                      .policy = std::string(policy.name)});
      // Two processes make a step five times as long, and four of them nine times.
      world.cluster().drag = [](std::size_t processes) { return 1.0 + 2.0 * double(processes); };
      SimClient& client = world.client();
      JobSpec first = job_spec(base, 400), later = job_spec(base + 1, 20);
      first.resources.min_devices = later.resources.min_devices = 4;
      const JobId a = client.submit(first).value();
      for (int i = 0; i < 600 && client.describe(a).value().step < 100; ++i)
        world.run_for(seconds(1));
      std::map<JobId, JobSpec> jobs;
      for (std::uint64_t i = 0; i < 3; ++i) {
        later.seed = base + 1 + i;
        jobs[client.submit(later).value()] = later;
      }
      world.run_for(seconds(1));
      CHECK(client.wait(client.post_cancel(a)).ok());
      for (const auto& [job, spec] : jobs) check_finished(client.wait_until_over(job), spec);
      check_at_rest(world);
    }
  }

  TEST_CASE("a trace that no worker answers ends, and the job does not notice") {
    SimWorld world({.seed = seed("trace"), .nodes = {{"n1", "cpu-avx2:2"}}});
    SimClient& client = world.client();
    const JobSpec spec = job_spec(1, 40);
    const JobId job = client.submit(spec).value();
    const auto trace = [&](bool wait) {
      return client.post<wire::TraceJob>(job, [&](wire::TraceJob::Builder b) {
        b.setSteps(5);
        b.setWait(wait);
      });
    };
    // It waits until the job trains; meanwhile another one is refused.
    const std::uint64_t first = trace(true);
    const Status second = client.wait(trace(true));
    CHECK(second.error().message == "the job is being traced already; try again when that is over");
    const Status ended = client.wait_trace(first);
    CHECK_MESSAGE(ended.ok(), ended.error().message);
    check_finished(client.wait_until_over(job), spec);
    const Status late = client.wait(trace(true));
    CHECK(late.error().message == "the job has ended, so there are no steps to trace");
    check_at_rest(world);
  }

  TEST_CASE("a checkpoint on request holds the bits of its version") {
    const std::uint64_t base = seed("checkpoint");
    for (std::uint64_t s = base; s < base + 10; ++s) {
      CAPTURE(s);
      SimWorld world({.seed = s});
      SimClient& client = world.client();
      const JobSpec spec = job_spec(s, 80);
      const JobId job = client.submit(spec).value();
      world.run_for(world.random_time(milliseconds(1), seconds(1)));
      const auto taken = client.wait_checkpoint(client.post_checkpoint(job, "disk/one"));
      REQUIRE_MESSAGE(taken.ok(), taken.error().message);
      CHECK(taken->path == "disk/one");
      const ToyVersion expected = reference_version(toy_job(spec), taken->version);
      CHECK(world.cluster().disk_of("").at("disk/one") == expected);
      CHECK(taken->params_digest == digests_of(expected).params.hex());
      CHECK(taken->state_digest == digests_of(expected).state.hex());
      // The path exists.
      CHECK(!client.wait_checkpoint(client.post_checkpoint(job, "disk/one")).ok());
      const JobView view = client.wait_until_over(job);
      CHECK(view.checkpoint == "disk/one");
      check_finished(view, spec);
      check_at_rest(world);
    }
  }
}

}  // namespace
}  // namespace es::test
