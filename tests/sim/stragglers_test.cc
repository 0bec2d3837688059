// A device of a job becomes slow: it is named, gives ESTs away, and gets them back when it has
// recovered. The bits are those of an undisturbed run.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/sim/sim_jobs.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

using actors::JobView;
using actors::WorkerView;
using std::chrono::milliseconds;
using std::chrono::seconds;

const DeviceId kDevice = {"n2", {"cpu-avx2"}, 0};

// 8 ESTs on 4 equal devices: a step takes two local steps of 300 ms, so each step gives one report.
constexpr actors::Instant kStepTime = milliseconds(300);

struct StragglerWorld {
  explicit StragglerWorld(std::uint64_t s, Version steps)
      : world({.seed = s, .nodes = {{"n1", "cpu-avx2:2"}, {"n2", "cpu-avx2:2"}}}),
        spec(job_spec(s, steps, 8)) {
    world.cluster().step_time["cpu-avx2"] = kStepTime;
    job = world.client().submit(spec).value();
  }

  JobView view() { return world.client().describe(job).value(); }
  WorkerView worker() {
    for (const WorkerView& w : view().workers)
      if (w.node == kDevice.node && w.device_index == kDevice.index) return w;
    return {};
  }
  std::uint32_t ranks() {
    const WorkerView w = worker();
    return w.rank_end - w.rank_begin;
  }
  bool wait(const std::function<bool()>& holds) {
    for (int i = 0; i < 1200 && !holds(); ++i) world.run_for(milliseconds(100));
    return holds();
  }
  void wait_for_step(Version step) {
    REQUIRE(wait([&] { return view().step >= step; }));
  }
  // The number of placements that were installed.
  std::uint64_t rounds() {
    const auto records = world.disk().load_all();
    for (const JobRecord& record : records.value())
      if (record.id == job) return record.generation.value;
    return 0;
  }
  // Seconds of a global step, averaged over some steps.
  double step_seconds(Version steps) {
    const auto begin = world.now();
    const Version first = view().step;
    wait_for_step(first + steps);
    return std::chrono::duration<double>(world.now() - begin).count() /
           static_cast<double>(view().step - first);
  }

  SimWorld world;
  JobSpec spec;
  JobId job;
};

TEST_SUITE("sim/stragglers") {
  TEST_CASE("the device, the ESTs and the speed of each worker are shown") {
    StragglerWorld f(seed("speeds"), 40);
    f.wait_for_step(5);
    const JobView view = f.view();
    REQUIRE(view.workers.size() == 4);
    for (const WorkerView& w : view.workers) {
      CHECK(w.local_step_seconds == doctest::Approx(0.3));
      CHECK(w.samples_per_second == doctest::Approx(f.spec.batch_size / 0.3));
      CHECK(w.slowness == 1);
      CHECK(w.est_seconds.size() == w.rank_end - w.rank_begin);
    }
    check_finished(f.world.client().wait_until_over(f.job), f.spec);
  }

  TEST_CASE("a slow device is named, loses ESTs, and gets them back when it has recovered") {
    const std::uint64_t base = seed("straggler");
    for (std::uint64_t s = base; s < base + 5; ++s) {
      CAPTURE(s);
      StragglerWorld f(s, 400);
      f.wait_for_step(10);
      REQUIRE(f.ranks() == 2);
      const double before = f.step_seconds(5);

      f.world.cluster().slower[kDevice] = 4;
      const Version slow_since = f.view().step;
      REQUIRE(f.wait([&] { return f.worker().slowness > 2; }));
      // The running step may still be a fast one. Then three reports follow.
      CHECK(f.view().step <= slow_since + 4);
      REQUIRE(f.wait([&] { return f.ranks() == 1; }));
      const Version relieved = f.view().step;
      f.wait_for_step(relieved + 2);
      // One local step of 1.2 s instead of two. The others have three of 0.3 s at most.
      CHECK(f.step_seconds(10) < 0.6 * 2.4);
      CHECK(f.step_seconds(10) < 2.5 * before);

      f.world.cluster().slower.clear();
      REQUIRE(f.wait([&] { return f.ranks() == 2; }));
      CHECK(f.worker().slowness == 1);
      f.wait_for_step(f.view().step + 2);
      CHECK(f.step_seconds(10) < 1.1 * before);
      check_finished(f.world.client().wait_until_over(f.job), f.spec);
      check_at_rest(f.world);
      CHECK(f.rounds() == 3);  // At the start, away, and back.
    }
  }

  TEST_CASE("noise moves no EST") {
    StragglerWorld f(seed("noise"), 300);
    check_finished(f.world.client().wait_until_over(f.job), f.spec);
    CHECK(f.rounds() == 1);
  }
}

}  // namespace
}  // namespace es::test
