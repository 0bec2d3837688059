#include "scheduler/grants/grant_trial.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

#include "scheduler/model/device_sets.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

// A job whose steps take the time that a test sets, on a clock of its own.
struct Job {
  GrantTrial trial;
  double now = 100;

  void place(const DeviceSet& on, const Capabilities& capabilities = {{{"a"}, 10}, {{"b"}, 5}},
             bool chosen = true) {
    trial.placed(on, capabilities, chosen);
  }
  bool refuses(const char* on) const {
    return refusal_of(trial.refusals(), devices(on)) != nullptr;
  }
  void run(double step_seconds, int steps = 10) {
    for (int i = 0; i < steps; ++i) trial.step(Seconds(now += step_seconds));
  }
};

TEST_SUITE("scheduler/grant_trial") {
  TEST_CASE("the pace is known after three blocks, and one long step does not count") {
    StepPace pace;
    double now = 0;
    for (int i = 0; i < 3; ++i) pace.step(Seconds(now += 1));
    CHECK_FALSE(pace.seconds());  // the first only begins
    pace.step(Seconds(now += 1));
    CHECK(pace.seconds() == 1.0);
    pace.step(Seconds(now += 60));  // an evaluation
    pace.step(Seconds(now += 1));
    CHECK(pace.seconds() == 1.0);
    pace.restart();
    CHECK_FALSE(pace.seconds());
  }

  TEST_CASE("short steps are timed in blocks, whose edges do not matter") {
    StepPace pace;
    double now = 5;
    // Two messages come together and then none for a while.
    for (int i = 0; i < 1000; ++i) pace.step(Seconds(now += i % 2 == 0 ? 0.0 : 0.004));
    CHECK(*pace.seconds() == doctest::Approx(0.002).epsilon(0.02));
  }

  TEST_CASE("several steps that are reported together count with their number") {
    StepPace pace;
    double now = 3;
    pace.step(Seconds(now += 1), 7);  // from before
    for (int i = 0; i < 3; ++i) pace.step(Seconds(now += 2), 8);
    CHECK(pace.seconds() == 0.25);
  }

  TEST_CASE("a grant that made the job slower is given back, and not requested again") {
    Job job;
    job.place(devices("a:2"));
    job.run(1.0);
    job.place(devices("a:4"));
    CHECK_FALSE(job.trial.verdict());
    job.run(1.2);
    const auto verdict = job.trial.verdict();
    REQUIRE(verdict);
    CHECK(verdict->give_back == devices("a:2"));
    CHECK(verdict->seconds_before == doctest::Approx(1.0));
    CHECK(verdict->seconds_now == doctest::Approx(1.2));
    job.trial.fall_back();
    CHECK_FALSE(job.trial.verdict());
    CHECK(job.refuses("a:3"));
    CHECK(job.refuses("a:4"));
    CHECK(job.refuses("a:64"));
    for (const char* other : {"a:2", "a:1", "b:1", "a:2+b:1", "a:3+b:1", "b:4"})
      CHECK_FALSE(job.refuses(other));
  }

  TEST_CASE("a faster grant, or one within the noise, is kept permanently") {
    for (const double seconds : {0.5, 1.0, 1.04}) {
      Job job;
      job.place(devices("a:2"));
      job.run(1.0);
      job.place(devices("a:4"));
      job.run(seconds);
      CHECK_FALSE(job.trial.verdict());
      job.run(3.0);  // A later slow step has another cause.
      CHECK_FALSE(job.trial.verdict());
    }
  }

  TEST_CASE("grants that come before the first was measured are judged together") {
    Job job;
    job.place(devices("a:2"));
    job.run(1.0);
    job.place(devices("a:3"));
    job.run(1.5, 2);
    job.place(devices("a:3+b:1"));
    job.run(1.5);
    REQUIRE(job.trial.verdict());
    CHECK(job.trial.verdict()->give_back == devices("a:1+b:1"));
    job.trial.fall_back();
    CHECK(job.refuses("a:3"));
    CHECK(job.refuses("a:2+b:1"));
    CHECK(job.refuses("a:3+b:1"));
    CHECK_FALSE(job.refuses("a:2+c:1"));
  }

  TEST_CASE("devices that a user has chosen, a shrink and a first placement are not judged") {
    Job pinned;
    pinned.place(devices("a:2"));
    pinned.run(1.0);
    pinned.place(devices("a:4"), {}, false);
    pinned.run(2.0);
    CHECK_FALSE(pinned.trial.verdict());

    Job shrunk;
    shrunk.place(devices("a:4"));
    shrunk.run(1.0);
    shrunk.place(devices("a:2"));
    shrunk.run(2.0);
    CHECK_FALSE(shrunk.trial.verdict());

    Job moved;
    moved.place(devices("a:4"));
    moved.run(1.0);
    moved.place(devices("b:6"));
    moved.run(2.0);
    CHECK_FALSE(moved.trial.verdict());
  }

  TEST_CASE("only a speed that is measured on the old devices removes the refusal") {
    Job job;
    job.place(devices("a:2"), {{{"a"}, 10}});
    job.run(1.0);
    job.place(devices("a:4"), {{{"a"}, 10}});
    job.run(1.2, 3);
    CHECK_FALSE(job.trial.capability_changed({"a"}, 4));  // Four of them slow each other down.
    job.run(1.2);
    REQUIRE(job.trial.verdict());
    job.trial.fall_back();
    job.place(devices("a:2"), {{{"a"}, 4}});
    CHECK(job.refuses("a:4"));
    CHECK_FALSE(job.trial.capability_changed({"a"}, 10.5));  // Two of them do not.
    CHECK(job.refuses("a:4"));
    CHECK(job.trial.capability_changed({"a"}, 13));
    CHECK_FALSE(job.refuses("a:4"));
  }

  // The model of the property: the time of a step on each set of devices is drawn once; noise of 2
  // %.
  class World {
   public:
    explicit World(std::mt19937_64& random) : random_(random) {}
    double seconds_on(const DeviceSet& on) {
      const auto [at, is_new] = seconds_.try_emplace(on.text(), 0);
      if (is_new) at->second = 0.05 + static_cast<double>(random_() % 1000) / 500;
      return at->second;
    }
    double noisy_seconds_on(const DeviceSet& on) {
      return seconds_on(on) * (0.99 + 0.02 * static_cast<double>(random_() % 1000) / 1000);
    }

   private:
    std::mt19937_64& random_;
    std::map<std::string, double> seconds_;
  };

  TEST_CASE("the next head keeps a refusal, and ends it by the same measurement") {
    Job before;
    before.place(devices("a:2"));
    before.run(1.0);
    before.place(devices("a:4"));
    before.run(1.2);
    REQUIRE(before.trial.verdict());
    before.trial.fall_back();
    Job job{.trial = GrantTrial(before.trial.refusals())};
    CHECK(job.refuses("a:3"));
    job.place(devices("b:2"));
    // These are not the devices on which it was measured.
    CHECK_FALSE(job.trial.capability_changed({"a"}, 13));
    job.place(devices("a:2"));
    CHECK(job.trial.capability_changed({"a"}, 13));
    CHECK_FALSE(job.refuses("a:3"));
  }

  TEST_CASE(
      "a job is never left slower after a grant once it is measured, and no grant is tried twice") {
    std::mt19937_64 random(test::seed("never slower"));
    int fall_backs = 0;
    for (int round = 0; round < 300; ++round) {
      World world(random);
      Job job;
      DeviceSet held = devices("a:1");
      std::set<std::string> given_back;
      for (int grant = 0; grant < 30; ++grant) {
        job.place(held);
        for (int i = 0; i < 60; ++i)
          job.trial.step(Seconds(job.now += world.noisy_seconds_on(held)));
        const DeviceSet before = held;
        const DeviceType type{random() % 2 == 0 ? "a" : "b"};
        DeviceSet granted = held;
        granted.add(type, 1 + random() % 3);
        if (refusal_of(job.trial.refusals(), granted) == nullptr) {
          job.place(held = granted);
          for (int i = 0; i < 60 && !job.trial.verdict(); ++i)
            job.trial.step(Seconds(job.now += world.noisy_seconds_on(held)));
          if (const auto verdict = job.trial.verdict()) {
            CHECK(given_back.insert(before.text() + " " + type.name).second);
            held = beyond(held, verdict->give_back);
            CHECK(held == before);
            job.trial.fall_back();
            ++fall_backs;
          }
        }
        CHECK(world.seconds_on(held) <=
              (1 + GrantTrial::kSlowerMin + 0.03) * world.seconds_on(before));
        // The cluster sometimes takes a device back.
        if (held.total() > 3 && random() % 3 == 0) held.remove(held.counts.front().type, 1);
      }
    }
    CHECK(fall_backs > 300);
  }
}

}  // namespace
}  // namespace es::scheduler
