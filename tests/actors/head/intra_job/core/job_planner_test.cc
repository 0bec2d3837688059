#include "actors/head/intra_job/core/job_planner.h"

#include <doctest/doctest.h>

#include <chrono>

namespace es::actors::intra_job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

DeviceId device(std::uint32_t index, const char* type = "a") {
  return {"node", {type}, index};
}

DeviceSet set(const char* text) {
  return *parse_device_set(text);
}

JobPlanner::Options options(std::uint32_t max_p, DeterminismLevel level = DeterminismLevel::kD2) {
  return {.max_p = max_p,
          .level = level,
          .resources = {},
          .last_version = 1'000'000,
          .pause_assumed = milliseconds(500),
          .suspend_assumed = seconds(3)};
}

template <class T>
std::vector<T> all(const PlannerEffects& effects) {
  std::vector<T> found;
  for (const PlannerEffect& effect : effects)
    if (const T* one = std::get_if<T>(&effect)) found.push_back(*one);
  return found;
}

// A planner, and a job that trains on devices of which each has one worker.
struct Bench {
  explicit Bench(JobPlanner::Options how, std::vector<scheduler::Refusal> refusals = {})
      : max_p(how.max_p), planner(std::move(how), std::move(refusals)) {
    planner.devices_exist(set("a:4+b:2"));
  }

  PlannerView job() const {
    return {.state = JobState::kRunning,
            .phase = phase,
            .generation = generation,
            .progress = version,
            .ledger_through = version,
            .fleet = fleet,
            .members = members,
            .bound_type = bound_type,
            .stalled = stalled,
            .now = now};
  }

  // The job begins to step on these devices, with equal shares of its ranks.
  void place(const std::vector<DeviceId>& devices) {
    ++generation.value;
    fleet = Fleet(max_p);
    fleet.allocate({.sequence = generation.value, .devices = devices});
    members.clear();
    const auto share = max_p / static_cast<std::uint32_t>(devices.size());
    for (const DeviceId& on : devices) {
      const auto n = static_cast<std::uint32_t>(members.size());
      Worker& worker = fleet.add(incarnation_of(on), on);
      worker.phase = Worker::Phase::kKnown;
      worker.placed = true;
      const std::uint32_t end = n + 1 == devices.size() ? max_p : (n + 1) * share;
      members.push_back({worker.incarnation, {n * share, end}, "", ""});
    }
  }
  static Incarnation incarnation_of(const DeviceId& on) {
    return {on.index + 1 + (on.type.name == "b" ? 100U : 0U)};
  }

  PlannerEffects step(Instant duration, int steps = 20) {
    PlannerEffects last;
    for (int i = 0; i < steps; ++i) {
      now += duration;
      ++version;
      last = planner.step_added(job());
    }
    return last;
  }

  // Reports of a device with this time for a local step. The first measurement of a process does
  // not count.
  PlannerEffects measure(const DeviceId& on, double local_step_seconds, int reports = 1) {
    PlannerEffects last;
    const int measurements = reports + (measured.insert(on).second ? 1 : 0);
    for (int i = 0; i < measurements; ++i)
      last = planner.measured({on, incarnation_of(on), 100, local_step_seconds}, job());
    return last;
  }

  std::uint32_t max_p;
  JobPlanner planner;
  Phase phase = Phase::kNormal;
  Generation generation;
  Version version = 0;
  Fleet fleet{1};
  std::vector<protocol::Member> members;
  std::optional<DeviceType> bound_type;
  bool stalled = false;
  Instant now{};
  std::set<DeviceId> measured;
};

}  // namespace

TEST_SUITE("actors/head/intra_job/job_planner") {
  TEST_CASE("no plans are asked for before the devices of the cluster are known") {
    Bench bench(options(4));
    JobPlanner planner(options(4), {});
    CHECK(planner.ask_for_plans(bench.job()).empty());
    planner.devices_exist(set("a:1"));
    CHECK(all<protocol::PlanQuery>(planner.ask_for_plans(bench.job())).size() == 1);
  }

  TEST_CASE("a query names what the job holds and what else it may use") {
    Bench bench(options(4));
    bench.place({device(0), device(1)});
    const auto query = all<protocol::PlanQuery>(bench.planner.ask_for_plans(bench.job())).at(0);
    CHECK(query.held == set("a:2"));
    CHECK(query.addable == set("a:2+b:2"));
    CHECK(query.steps_left == 1'000'000);
    CHECK(query.rescale_seconds == 0.5);
    CHECK(query.measured.empty());
    bench.bound_type = DeviceType{"a"};
    CHECK(all<protocol::PlanQuery>(bench.planner.ask_for_plans(bench.job())).at(0).addable ==
          set("a:2"));
  }

  TEST_CASE("only the answer to the newest query becomes a demand") {
    Bench bench(options(4));
    bench.place({device(0)});
    (void)bench.planner.allocated(7, bench.job());
    (void)bench.planner.ask_for_plans(bench.job());
    const protocol::PlanAnswer answer{{{{"a"}, 1, 2.0}}, {{{"a"}, 10, false}}};
    CHECK(bench.planner.on(answer, bench.job()).empty());
    const auto demand = all<protocol::Demand>(bench.planner.on(answer, bench.job())).at(0);
    CHECK(demand.proposals == answer.proposals);
    CHECK(demand.sequence == 7);
    REQUIRE(demand.progress);
    CHECK(demand.progress->total_steps == 4'000'000);
    CHECK(demand.progress->steps_per_second == 10);  // predicted: one device, all ranks
    CHECK(demand.progress->capabilities == answer.capabilities);
  }

  TEST_CASE("while the job wants exact devices, its planner demands nothing") {
    Bench bench(options(4));
    bench.place({device(0)});
    (void)bench.planner.ask_for_plans(bench.job());
    bench.planner.exact_demand();
    CHECK(bench.planner.on(protocol::PlanAnswer{}, bench.job()).empty());
    CHECK(all<protocol::PlanQuery>(bench.planner.exact_demand_lifted(bench.job())).size() == 1);
    CHECK(all<protocol::Demand>(bench.planner.on(protocol::PlanAnswer{}, bench.job())).size() == 1);
  }

  TEST_CASE("what the job refuses is not proposed") {
    Bench bench(options(4), {{set("a:1"), {{"a"}}, {}}});
    bench.place({device(0)});
    (void)bench.planner.ask_for_plans(bench.job());
    const protocol::PlanAnswer answer{{{{"a"}, 1, 2.0}, {{"b"}, 1, 1.5}}, {}};
    const auto demand = all<protocol::Demand>(bench.planner.on(answer, bench.job())).at(0);
    CHECK(demand.proposals == std::vector<scheduler::Proposal>{{{"b"}, 1, 1.5}});
  }

  TEST_CASE("plans are asked for again when the job has adopted its devices") {
    Bench bench(options(4));
    bench.place({device(0), device(1)});
    CHECK(bench.planner.allocated(1, bench.job()).size() == 1);
    bench.phase = Phase::kPreparing;
    CHECK(bench.planner.allocated(2, bench.job()).empty());
    bench.phase = Phase::kNormal;
    bench.fleet.find(bench.members.at(1).incarnation)->phase = Worker::Phase::kWarm;
    CHECK(bench.planner.allocated(3, bench.job()).empty());
  }

  TEST_CASE("the pause of a change is measured from the decision until the members step again") {
    Bench bench(options(4));
    bench.place({device(0)});
    CHECK(bench.planner.state_changed(JobState::kRescaling, bench.job()).empty());
    bench.now += seconds(2);
    CHECK(all<protocol::PlanQuery>(bench.planner.state_changed(JobState::kRunning, bench.job()))
              .at(0)
              .rescale_seconds == 2);
    (void)bench.planner.state_changed(JobState::kRescaling, bench.job());
    (void)bench.planner.state_changed(JobState::kQueued, bench.job());  // it waits for devices
    bench.now += seconds(60);
    CHECK(all<protocol::PlanQuery>(bench.planner.state_changed(JobState::kRunning, bench.job()))
              .at(0)
              .rescale_seconds == 2);
  }

  TEST_CASE("a suspension costs its drain and its restart, and not the time between them") {
    Bench bench(options(4));
    bench.place({device(0)});
    const auto suspension = [&] {
      (void)bench.planner.ask_for_plans(bench.job());
      return all<protocol::Demand>(bench.planner.on(protocol::PlanAnswer{}, bench.job()))
          .at(0)
          .progress->suspend_seconds;
    };
    CHECK(suspension() == 3);
    (void)bench.planner.state_changed(JobState::kRescaling, bench.job());
    bench.now += seconds(1);
    (void)bench.planner.state_changed(JobState::kQueued, bench.job());
    bench.now += seconds(60);
    (void)bench.planner.state_changed(JobState::kStarting, bench.job());
    bench.now += milliseconds(500);
    (void)bench.planner.state_changed(JobState::kRescaling, bench.job());
    bench.now += milliseconds(500);
    (void)bench.planner.state_changed(JobState::kRunning, bench.job());
    (void)bench.planner.on(protocol::PlanAnswer{}, bench.job());
    CHECK(suspension() == 2);
    CHECK(
        all<protocol::PlanQuery>(bench.planner.ask_for_plans(bench.job())).at(0).rescale_seconds ==
        0.5);
  }

  TEST_CASE("a job that lost its state reports that it has more to do") {
    Bench bench(options(4));
    bench.place({device(0)});
    bench.version = 50;
    (void)bench.planner.ask_for_plans(bench.job());
    (void)bench.planner.on(protocol::PlanAnswer{}, bench.job());
    CHECK(bench.planner.report_lost_progress(bench.job()).empty());
    bench.version = 20;
    const auto told = all<protocol::Demand>(bench.planner.report_lost_progress(bench.job()));
    REQUIRE(told.size() == 1);
    CHECK(told[0].progress->remaining_steps == 4.0 * (1'000'000 - 20));
    CHECK(told[0].proposals.empty());
    CHECK(bench.planner.report_lost_progress(bench.job()).empty());
  }

  TEST_CASE("a measured speed is reported, and the companion does not replace it") {
    Bench bench(options(4));
    bench.place({device(0)});
    (void)bench.planner.ask_for_plans(bench.job());
    (void)bench.planner.on(protocol::PlanAnswer{{}, {{{"a"}, 5, false}}}, bench.job());
    const PlannerEffects effects = bench.measure(device(0), 0.1);
    CHECK(all<protocol::CapabilityReport>(effects).at(0).reports.at(0).steps_per_second ==
          doctest::Approx(10));
    CHECK(all<protocol::PlanQuery>(effects).at(0).measured.size() == 1);
    CHECK(all<ConsiderChanges>(effects).size() == 1);
    (void)bench.planner.on(protocol::PlanAnswer{{}, {{{"a"}, 5, true}, {{"b"}, 7, true}}},
                           bench.job());
    CHECK(bench.planner.speeds().capabilities().at({"a"}) == doctest::Approx(10));
    CHECK(bench.planner.speeds().capabilities().at({"b"}) == 7);
    CHECK(all<protocol::CapabilityReport>(bench.measure(device(0), 0.1)).empty());
  }

  TEST_CASE("until a job has measured a speed, the newest one of similar jobs counts") {
    Bench bench(options(4));
    bench.place({device(0)});
    const auto speed_after = [&](double told) {
      (void)bench.planner.ask_for_plans(bench.job());
      (void)bench.planner.on(protocol::PlanAnswer{{}, {{{"a"}, told, true}}}, bench.job());
      return bench.planner.speeds().capabilities().at({"a"});
    };
    CHECK(speed_after(5) == 5);
    CHECK(speed_after(8) == 8);
    // The companion knows these itself, and may know newer ones.
    CHECK(
        all<protocol::PlanQuery>(bench.planner.ask_for_plans(bench.job())).at(0).measured.empty());
    (void)bench.planner.on(protocol::PlanAnswer{}, bench.job());
    // A report that confirms the speed makes it the job's own.
    (void)bench.measure(device(0), 1 / 8.0);
    CHECK(speed_after(20) == 8);
  }

  TEST_CASE("a grant that made the job slower is given back and refused") {
    Bench bench(options(4));
    bench.place({device(0)});
    bench.step(milliseconds(300));
    bench.place({device(0), device(1)});
    bench.step(milliseconds(400));
    bench.stalled = true;
    CHECK(bench.planner.fall_back(bench.job()).empty());
    bench.stalled = false;
    bench.phase = Phase::kDraining;
    CHECK(bench.planner.fall_back(bench.job()).empty());
    bench.phase = Phase::kNormal;
    const PlannerEffects effects = bench.planner.fall_back(bench.job());
    REQUIRE(effects.size() == 3);
    CHECK(std::get<LogLine>(effects[0]).text ==
          "gives a:1 back: a step takes 400.0 ms with them, 300.0 ms without them");
    CHECK(std::holds_alternative<RefusalsChanged>(effects[1]));
    CHECK(std::get<GiveBackCommand>(effects[2]).devices == std::vector{device(1)});
    REQUIRE(bench.planner.refusals().size() == 1);
    CHECK(bench.planner.refusals().front().held == set("a:1"));
    CHECK(bench.planner.fall_back(bench.job()).empty());
  }

  TEST_CASE("a grant that made the job faster is kept, and so is what a user has chosen") {
    Bench faster(options(4));
    faster.place({device(0)});
    faster.step(milliseconds(300));
    faster.place({device(0), device(1)});
    faster.step(milliseconds(200));
    CHECK(faster.planner.fall_back(faster.job()).empty());
    Bench chosen(options(4));
    chosen.place({device(0)});
    chosen.step(milliseconds(300));
    chosen.planner.exact_demand();
    chosen.place({device(0), device(1)});
    chosen.step(milliseconds(400));
    CHECK(chosen.planner.fall_back(chosen.job()).empty());
  }

  TEST_CASE("devices that the best plan does not use are given back once") {
    Bench bench(options(4));
    bench.place({device(0), device(1), device(2)});
    bench.step(milliseconds(300));
    CHECK(bench.planner.release_unused(bench.job()).empty());  // no speed is measured
    bench.measure(device(0), 0.1);
    const PlannerEffects effects = bench.planner.release_unused(bench.job());
    REQUIRE(effects.size() == 2);
    CHECK(std::get<LogLine>(effects[0]).text == "gives a:1 back: the job is as fast without them");
    CHECK(std::get<GiveBackCommand>(effects[1]).devices == std::vector{device(2)});
    CHECK(bench.planner.release_unused(bench.job()).empty());
    bench.measure(device(0), 0.2, 3);  // another speed
    CHECK(bench.planner.release_unused(bench.job()).size() == 2);
  }

  TEST_CASE("what communication costs is learned from steps, and fewer devices are tried") {
    JobPlanner::Options how = options(4);
    Bench bench(how);
    bench.place({device(0), device(1), device(2), device(3)});
    for (std::uint32_t i = 0; i < 4; ++i) bench.measure(device(i), 0.1);
    // A step computes for 0.1 s and takes 0.73 s, so each device but one costs 0.21 s: with two
    // devices 0.41 s are expected, and with one 0.4 s.
    const PlannerEffects learned = bench.step(milliseconds(730), 4);
    const auto report = all<protocol::CapabilityReport>(learned).at(0);
    REQUIRE(report.sync.size() == 1);
    CHECK(report.sync[0].devices == 4);
    CHECK(report.sync[0].seconds == doctest::Approx(0.63));
    CHECK(all<protocol::PlanQuery>(learned).at(0).sync == report.sync);
    CHECK(all<ConsiderChanges>(learned).size() == 1);
    CHECK(bench.planner.release_unused(bench.job()).empty());  // the first steps may be slow ones
    bench.now += JobPlanner::kSettleTime;
    const PlannerEffects effects = bench.planner.release_unused(bench.job());
    REQUIRE(effects.size() == 2);
    CHECK(std::get<LogLine>(effects[0]).text ==
          "gives a:3 back: because of communication a step takes 730.0 ms with them, and should "
          "take 400.0 ms without them");
    // With one device nothing was gained. The measured points say so, and four are not asked for.
    bench.place({device(0)});
    bench.step(milliseconds(400), 5);
    CHECK(bench.planner.speeds().sync().seconds(1) < 1e-12);
    CHECK(bench.planner.release_unused(bench.job()).empty());
  }

  TEST_CASE("of a grant that communication made useless, a part is kept if that should be faster") {
    Bench bench(options(4));
    bench.place({device(0)});
    for (std::uint32_t i = 0; i < 4; ++i) bench.measure(device(i), 0.2);
    bench.step(milliseconds(800), 6);
    bench.place({device(0), device(1), device(2), device(3)});
    // Each device but one costs 0.2 s: two devices would take 0.6 s, and one takes 0.8 s.
    bench.step(milliseconds(850), 3);
    CHECK_FALSE(bench.planner.pace_seconds() > 0);
    bench.step(milliseconds(850), 2);
    CHECK(bench.planner.fall_back(bench.job()).empty());
    bench.now += JobPlanner::kSettleTime;
    const PlannerEffects effects = bench.planner.release_unused(bench.job());
    REQUIRE(effects.size() == 2);
    CHECK(std::get<GiveBackCommand>(effects[1]).devices == std::vector{device(3), device(2)});
    CHECK(bench.planner.refusals().empty());
  }

  TEST_CASE("fewer devices are not tried if the gain is small or does not pay for the pauses") {
    const auto effects_with = [](milliseconds step, Version last) {
      JobPlanner::Options how = options(4);
      how.last_version = last;
      how.pause_assumed = milliseconds(2000);
      Bench bench(how);
      bench.place({device(0), device(1), device(2), device(3)});
      for (std::uint32_t i = 0; i < 4; ++i) bench.measure(device(i), 0.1);
      bench.step(step, 10);
      bench.now += JobPlanner::kSettleTime;
      return bench.planner.release_unused(bench.job()).size();
    };
    CHECK(effects_with(milliseconds(700), 1000) == 2);
    CHECK(effects_with(milliseconds(250), 1000) == 0);  // two devices would be as fast
    CHECK(effects_with(milliseconds(700), 120) == 0);   // the end is near
  }

  TEST_CASE("near the end nothing is given back as unused, and plans are asked for again") {
    JobPlanner::Options how = options(4);
    how.last_version = 100;  // 40 pauses are 20 s, which are 66 steps
    Bench bench(how);
    bench.place({device(0), device(1), device(2)});
    bench.measure(device(0), 0.1);
    CHECK(bench.step(milliseconds(300), 30).empty());
    CHECK(bench.planner.release_unused(bench.job()).size() == 2);
    (void)bench.measure(device(0), 0.2, 3);  // also asks for plans, 21 s before the end
    CHECK(bench.step(milliseconds(300), 5).empty());
    CHECK(bench.planner.release_unused(bench.job()).empty());
    CHECK(bench.step(milliseconds(300), 30).empty());
    CHECK(all<protocol::PlanQuery>(bench.step(milliseconds(300), 1)).size() == 1);
    CHECK(bench.step(milliseconds(300), 1).empty());  // and when half of that time has passed
  }

  TEST_CASE("ESTs move when the speeds of single devices are known, but not too often") {
    Bench bench(options(8));
    bench.place({device(0), device(0, "b")});
    bench.measure(device(0), 0.1);
    CHECK(bench.planner.rebalance(bench.job()).empty());  // the other device is not measured
    bench.measure(device(0, "b"), 0.3);
    const PlannerEffects effects = bench.planner.rebalance(bench.job());
    REQUIRE(effects.size() == 2);
    CHECK(std::get<LogLine>(effects[0]).text ==
          "moves ESTs: a global step would take 0.600 s instead of 1.200 s");
    CHECK(std::holds_alternative<RebalanceCommand>(effects[1]));
    CHECK(bench.planner.rebalance(bench.job()).empty());
    bench.now += seconds(10) - milliseconds(1);  // 20 pauses
    CHECK(bench.planner.rebalance(bench.job()).empty());
    bench.now += milliseconds(1);
    CHECK(bench.planner.rebalance(bench.job()).size() == 2);
  }

  TEST_CASE("at D0 ESTs do not move, and the speeds of single devices do not count") {
    Bench bench(options(8, DeterminismLevel::kD0));
    bench.place({device(0), device(1)});
    bench.measure(device(0), 0.1, 4);
    bench.measure(device(1), 0.1, 4);
    const PlannerEffects effects = bench.measure(device(1), 0.4, StragglerWatch::kSlowReports);
    CHECK(all<LogLine>(effects).size() == 1);  // it is named as slow
    CHECK(bench.planner.speeds().slowness(device(1)) > 3);
    CHECK(bench.planner.speeds().device_capability(device(1)) == doctest::Approx(10));
    CHECK(bench.planner.rebalance(bench.job()).empty());
    CHECK(bench.planner.speeds().assign_ranks(8, std::vector{device(0), device(1)}) ==
          std::vector<RankRange>{{0, 4}, {4, 8}});
  }
}

}  // namespace es::actors::intra_job
