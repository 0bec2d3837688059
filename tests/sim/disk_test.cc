// The head's disk accepts no writes for some time because it is full, read-only or broken. The head
// then accepts no requests, jobs train on, and in the end the state is the same as without the
// fault.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "tests/sim/final_check.h"
#include "tests/sim/sim_jobs.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

using namespace actors;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kReason =
    "the simulated disk is full; no request is accepted until it can be written";

SimWorldOptions two_small_nodes(std::uint64_t s) {
  return {.seed = s,
          .nodes = {{"n1", "cpu-avx2:2+cpu-avx512:1"}, {"n2", "cpu-avx2:2+cpu-avx512:1"}}};
}

JobSpec watched_job(std::uint64_t s, Version steps) {
  JobSpec spec = job_spec(s, steps);
  spec.level = DeterminismLevel::kD2;
  spec.eval_every = 10;
  spec.batch_size = 2;
  spec.data.samples = 64;
  return spec;
}

std::uint64_t post_claim(SimClient& client) {
  return client.post<wire::ClaimDevices>("", [](wire::ClaimDevices::Builder b) {
    b.setName("serving");
    b.setDeviceType("cpu-avx512");
    b.setCount(1);
  });
}

std::uint64_t post_release(SimClient& client) {
  return client.post<wire::ReleaseClaim>(
      "", [](wire::ReleaseClaim::Builder b) { b.setName("serving"); });
}

std::uint64_t post_pause(SimClient& client, const JobId& job) {
  return client.post<wire::PauseJob>(job, [](wire::PauseJob::Builder) {});
}

std::uint64_t post_resume(SimClient& client, const JobId& job) {
  return client.post<wire::ResumeJob>(job, [](wire::ResumeJob::Builder) {});
}

// One history. Requests that are refused because of the disk are repeated until the head accepts
// them. The disk is repaired some time after it first failed.
class DiskHistory {
 public:
  DiskHistory(std::uint64_t seed, std::uint32_t fails_at)
      : world_(two_small_nodes(seed)),
        first_(watched_job(seed, 120)),
        second_(watched_job(seed + 1, 60)) {
    world_.fill_disk(fails_at);
  }

  // Empty, or a description of the error.
  std::string run() {
    SimClient& client = world_.client();
    const JobId first = submit(first_);
    world_.run_for(milliseconds(300));
    insist([&] { return client.wait(post_claim(client)); });
    const JobId second = submit(second_);
    insist([&] { return client.wait(client.post_scale(first, "cpu-avx2:2")); });
    world_.run_for(milliseconds(200));
    kill_one();
    world_.run_for(milliseconds(100));
    insist([&] {
      const auto taken = client.wait_checkpoint(
          client.post_checkpoint(first, "disk/" + std::to_string(++checkpoints_)));
      return taken ? Status() : Status(taken.error());
    });
    insist([&] { return client.wait(post_pause(client, first)); });
    insist([&] { return client.wait(post_resume(client, first)); });
    insist([&] { return client.wait(post_release(client)); });
    world_.run_for(milliseconds(400));
    kill_one();
    mend();
    std::map<std::string, int> remarks;
    const std::string wrong = final_check(world_, {{first, first_}, {second, second_}}, remarks);
    if (!wrong.empty()) return wrong;
    return remarks.empty() ? "" : "a job gave up";
  }

  std::uint64_t writes() const { return world_.disk_trap().writes; }
  bool was_full() const { return world_.disk_trap().failed > 0; }

 private:
  JobId submit(const JobSpec& spec) {
    JobId job;
    insist([&] {
      const auto accepted = world_.client().submit(spec);
      if (accepted) job = *accepted;
      return accepted ? Status() : Status(accepted.error());
    });
    return job;
  }

  // An accepted change that could not be made durable at once is made later. Then it is in force,
  // and a repeated request reports so. A claim that was refused does not exist.
  static bool is_in_force(const std::string& why) {
    for (const char* text : {"the job is paused", "the job is not paused", "the job has ended",
                             "has replaced this one"})
      if (why.find(text) != std::string::npos) return true;
    return false;
  }

  void insist(const std::function<Status()>& command) {
    for (int attempts = 0; attempts < 30; ++attempts) {
      const Status done = command();
      if (done.ok() || is_in_force(done.error().message)) return;
      const std::string why = done.error().message;
      REQUIRE_MESSAGE(why.find(kReason) != std::string::npos, why);
      world_.run_for(world_.random_time(milliseconds(1), seconds(3)));
      if (attempts >= 2) mend();
    }
    FAIL("refused for ever");
  }

  void mend() {
    world_.mend_disk();
    world_.run_for(milliseconds(1100));  // The head tries once a second.
  }

  void kill_one() {
    const auto running = world_.running();
    if (!running.empty()) world_.crash_worker(running[world_.pick(running.size())]);
  }

  SimWorld world_;
  JobSpec first_, second_;
  int checkpoints_ = 0;
};

TEST_SUITE("sim/disk") {
  TEST_CASE(
      "while the disk is full jobs train on, nothing is accepted, and every client gets the "
      "reason") {
    SimWorld world(two_small_nodes(seed("full disk")));
    SimClient& client = world.client();
    const JobSpec spec = watched_job(7, 2000);
    const JobId job = client.submit(spec).value();
    world.run_for(seconds(1));
    const Version before = client.describe(job)->step;
    world.fill_disk(1);
    world.run_for(seconds(2));
    const JobView during = client.describe(job).value();
    CHECK(during.step > before + 10);
    CHECK(during.warning ==
          std::string(kReason) + "; the job continues to train on the devices that it has");
    for (const Status& answer :
         {client.wait(client.post_scale(job, "cpu-avx2:1")), client.wait(post_pause(client, job)),
          client.wait(client.post_cancel(job)), client.wait(post_claim(client)),
          Status(client.submit(spec).error())}) {
      REQUIRE_FALSE(answer.ok());
      CHECK(answer.error().kind == ErrorKind::kRefused);
      CHECK(answer.error().message == kReason);
    }
    const Version on_disk = world.disk().ledger().last(job).value()->version;
    CHECK(on_disk < during.step);
    world.mend_disk();
    world.run_for(seconds(2));
    CHECK(client.describe(job)->warning.empty());
    CHECK(world.disk().ledger().last(job).value()->version > during.step);
    check_finished(client.wait_until_over(job), spec);
    check_at_rest(world);
  }

  TEST_CASE("a head that is killed while its disk is full has lost nothing that its jobs need") {
    const std::uint64_t base = seed("killed on a full disk");
    for (std::uint64_t s = base; s < base + 20; ++s) {
      CAPTURE(s);
      SimWorld world(two_small_nodes(s));
      const JobSpec spec = watched_job(s, 150);
      const JobId job = world.client().submit(spec).value();
      world.run_for(world.random_time(milliseconds(1), seconds(1)));
      world.fill_disk(1);
      world.run_for(world.random_time(milliseconds(1), seconds(2)));
      world.stop_head();
      world.mend_disk();
      world.start_head();
      world.run_for(seconds(1));
      check_finished(world.client().wait_until_over(job), spec);
      check_at_rest(world);
    }
  }

  TEST_CASE("the disk fails at any of the writes of a history, and the end is the same") {
    const std::uint64_t base = seed("every write");
    DiskHistory undisturbed(base, 0);
    REQUIRE(undisturbed.run() == "");
    const std::uint64_t writes = undisturbed.writes();
    REQUIRE(writes > 100);
    for (std::uint64_t n = 1; n <= writes; ++n) {
      CAPTURE(n);
      DiskHistory history(base, static_cast<std::uint32_t>(n));
      REQUIRE(history.run() == "");
    }
    MESSAGE("writes: " << writes);
  }
}

}  // namespace
}  // namespace es::test
