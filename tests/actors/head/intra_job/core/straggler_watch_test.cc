#include "actors/head/intra_job/core/straggler_watch.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/seed.h"

namespace es::actors::intra_job {
namespace {

using Change = StragglerWatch::Change;

const DeviceId kA = {"n1", {"a"}, 0}, kB = {"n1", {"a"}, 1}, kC = {"n2", {"a"}, 0};
const DeviceId kOther = {"n2", {"b"}, 0};

// A job whose global steps take long enough for one report each.
struct Job {
  std::vector<DeviceId> members;
  std::map<DeviceId, double> seconds;  // Seconds of a local step.
  StragglerWatch watch;
  std::map<DeviceId, Change> last_change;

  explicit Job(std::vector<DeviceId> devices) : members(std::move(devices)) {
    for (const DeviceId& device : members) seconds[device] = 0.5;
    step();  // The time of the first step of a process is not counted.
  }
  void step() {
    for (const DeviceId& device : members) {
      const auto report = watch.add({device, Incarnation{1}, 2, seconds[device]}, members);
      last_change[device] = report ? report->change : Change::kNone;
    }
  }
  // The number of global steps until the device is named or cleared; 0 means not within 20.
  int steps_until(const DeviceId& device, Change change) {
    for (int i = 1; i <= 20; ++i) {
      step();
      if (last_change[device] == change) return i;
    }
    return 0;
  }
};

TEST_SUITE("actors/head/intra_job/straggler_watch") {
  TEST_CASE("a device that becomes four times slower is named by its third report, then cleared") {
    Job job({kA, kB, kC});
    for (int i = 0; i < 5; ++i) job.step();
    job.seconds[kB] = 2.0;
    CHECK(job.steps_until(kB, Change::kNamed) == 3);
    CHECK(job.watch.factor(kB) == doctest::Approx(4));
    CHECK(job.watch.factor(kA) == 1);
    CHECK(job.watch.seconds(kB) == 2.0);
    job.seconds[kB] = 0.5;
    CHECK(job.steps_until(kB, Change::kCleared) == 3);
    CHECK(job.watch.factor(kB) == 1);
  }

  TEST_CASE("a device that is slow from the start is found as soon as a peer has reported") {
    Job job({kA, kB});
    job.seconds[kA] = 1.5;
    CHECK(job.steps_until(kA, Change::kNamed) == 4);
    CHECK(job.watch.factor(kB) == 1);
  }

  TEST_CASE("the only device of its type is compared with the usual time of the type") {
    Job job({kA, kOther});
    for (int i = 0; i < 5; ++i) job.step();
    job.seconds[kOther] = 1.5;
    CHECK(job.steps_until(kOther, Change::kNamed) == 3);
    CHECK(job.watch.factor(kOther) == doctest::Approx(3));
  }

  TEST_CASE("when all devices become slower, no device is a straggler") {
    Job job({kA, kB, kOther});
    for (int i = 0; i < 5; ++i) job.step();
    for (const DeviceId& device : job.members) job.seconds[device] = 5.0;
    for (int i = 0; i < 20; ++i) job.step();
    for (const DeviceId& device : job.members) CHECK(job.watch.factor(device) == 1);
  }

  TEST_CASE("a device that shares its machine with more devices than before is no straggler") {
    Job job({kA});
    for (int i = 0; i < 5; ++i) job.step();
    job.members = {kA, kOther};
    job.seconds[kA] = 1.5;
    job.seconds[kOther] = 1.5;
    for (int i = 0; i < 10; ++i) job.step();
    CHECK(job.watch.factor(kA) == 1);
    CHECK(job.watch.factor(kOther) == 1);
  }

  TEST_CASE("two slow reports, or a slow one at times, name no device") {
    Job job({kA, kB});
    for (int i = 0; i < 30; ++i) {
      job.seconds[kA] = i % 3 == 2 ? 0.5 : 3.0;
      job.step();
      CHECK(job.watch.factor(kA) == 1);
    }
  }

  TEST_CASE("between slow and usual a named device stays named, and no other one becomes named") {
    Job job({kA, kB});
    job.seconds[kA] = 0.8;
    for (int i = 0; i < 10; ++i) job.step();
    CHECK(job.watch.factor(kA) == 1);
    job.seconds[kA] = 2.0;
    for (int i = 0; i < 5; ++i) job.step();
    CHECK(job.watch.factor(kA) > 1);
    job.seconds[kA] = 0.8;
    for (int i = 0; i < 10; ++i) job.step();
    CHECK(job.watch.factor(kA) > 1);
  }

  TEST_CASE("noise of 20 % changes neither the named device nor the factor") {
    std::mt19937_64 random(test::seed("straggler noise"));
    std::uniform_real_distribution<double> noise(0.8, 1.2);
    Job job({kA, kB, kC});
    std::optional<double> factor;
    for (int i = 0; i < 500; ++i) {
      for (const DeviceId& device : job.members)
        job.seconds[device] = 0.5 * noise(random) * (device == kC && i >= 50 ? 4 : 1);
      job.step();
      CHECK(job.watch.factor(kA) == 1);
      CHECK(job.watch.factor(kB) == 1);
      if (i < 50) CHECK(job.watch.factor(kC) == 1);
      if (i > 60) CHECK(job.watch.factor(kC) > 2.5);
    }
  }

  TEST_CASE("times of short steps are added up, and the first step of a process is left out") {
    StragglerWatch watch;
    const std::vector<DeviceId> members = {kA};
    CHECK(!watch.add({kA, Incarnation{1}, 4, 10.0}, members));
    int reports = 0;
    for (int i = 0; i < 100; ++i)
      reports += watch.add({kA, Incarnation{1}, 5, 0.001}, members) ? 1 : 0;
    CHECK(reports == 2);  // 0.5 s of work.
    CHECK(*watch.seconds(kA) == doctest::Approx(0.001));
    CHECK(!watch.add({kA, Incarnation{2}, 4, 10.0}, members));
  }
}

}  // namespace
}  // namespace es::actors::intra_job
