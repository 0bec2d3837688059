// What a report says about single jobs, groups of jobs and guarantees: on traces whose outcome can
// be computed by hand.
#include <algorithm>
#include <cmath>

#include "actors/sim/report/job_allocations.h"
#include "actors/sim/report/report.h"
#include "tests/actors/sim/small_traces.h"
#include "tests/support/seed.h"

namespace es::actors::simulator {
namespace {

store::TraceJob in_queue(store::TraceJob job, const char* queue) {
  job.queue = queue;
  return job;
}

scheduler::Queue queue(const char* name, const char* guarantee) {
  return {.name = name, .guarantee = devices(guarantee)};
}

const Group& find(const std::vector<Group>& groups, GroupKind kind, const std::string& name) {
  const auto at = std::ranges::find_if(
      groups, [&](const Group& group) { return group.kind == kind && group.name == name; });
  REQUIRE(at != groups.end());
  return *at;
}

// Virtual time is in whole nanoseconds, so times are a little more than those computed by hand.
std::string whole(double seconds) {
  return std::to_string(std::lround(seconds));
}

JobSpan waits(std::size_t job, double from_s, double until_s) {
  return {
      .job = job, .state = SpanState::kWaits, .from_s = from_s, .until_s = until_s, .held = {0}};
}

JobSpan runs(std::size_t job, double from_s, double until_s, std::uint32_t devices) {
  return {.job = job,
          .state = SpanState::kRuns,
          .from_s = from_s,
          .until_s = until_s,
          .held = {devices}};
}

}  // namespace

TEST_SUITE("actors/sim/breakdown") {
  TEST_CASE("spans: each job's devices and states over time, and why it waited") {
    // b waits for all four devices of a; c would fit beside a, and is kept behind b.
    const Workload work =
        workload({job("a", 0, 3, 300), job("b", 10, 4, 400), job("c", 20, 1, 50)}, "a:4");
    SimulationOptions how = options("fifo-gang");
    how.explains_waits = true;
    const SimulationResult result = run(work, how);
    std::string text;
    for (const JobSpan& span : result.spans) {
      text += work.jobs[span.job].id + " " + state_name(span.state) + " " + whole(span.from_s) +
              " to " + whole(span.until_s) + " on " + std::to_string(span.held[0]) + "\n";
      for (const auto& [reason, seconds] : span.reasons)
        text += whole(seconds) + ": " + result.wait_reasons[reason] + "\n";
    }
    CHECK(text ==
          "a starts 0 to 20 on 3\n"
          "a runs 20 to 120 on 3\n"
          "b waits 10 to 120 on 0\n"
          "110: devices: fewer are free than it needs\n"
          "b starts 120 to 140 on 4\n"
          "b runs 140 to 240 on 4\n"
          "c waits 20 to 240 on 0\n"
          "100: another job, which comes first: the policy lets no job overtake it\n"
          "120: devices: fewer are free than it needs\n"
          "c starts 240 to 260 on 1\n"
          "c runs 260 to 310 on 1\n");
  }

  TEST_CASE("the table of spans has the longest reason first, and quotes texts with commas") {
    const Workload work = workload({job("a", 0, 1, 100), job("b", 0, 1, 100)}, "a:1");
    SimulationResult result;
    result.types = {{"a"}};
    result.wait_reasons = {"devices", "first, one"};
    result.spans = {runs(0, 20, 120, 1), waits(1, 0, 120)};
    result.spans[1].reasons = {{1, 20}, {0, 100}};
    CHECK(job_allocations_csv(work, result) ==
          "time_s,seconds,job_id,state,a,reason\n"
          "0,120,b,waits,0,\"devices (100 s); first, one (20 s)\"\n"
          "20,100,a,runs,1,\n");
  }

  TEST_CASE("spans of any simulation are those of the report, and follow each other") {
    const std::uint64_t seed = test::seed("spans");
    for (const char* policy : {"elastic-srtf", "srtf", "easy-backfill", "sia"}) {
      CAPTURE(policy);
      const Workload work = random_workload(seed, 30);
      SimulationOptions how = options(policy);
      how.explains_waits = true;
      const SimulationResult plain = run(work, options(policy)), result = run(work, how);
      CHECK(plain.history_hash == result.history_hash);
      std::vector<double> device_s(work.jobs.size()), waited_s(work.jobs.size());
      std::vector<double> until_s(work.jobs.size(), -1);
      for (const JobSpan& span : result.spans) {
        const double seconds = span.until_s - span.from_s;
        CHECK(seconds > 0);
        if (until_s[span.job] >= 0) CHECK(span.from_s == doctest::Approx(until_s[span.job]));
        until_s[span.job] = span.until_s;
        for (const std::uint32_t count : span.held) device_s[span.job] += count * seconds;
        if (span.state != SpanState::kWaits) continue;
        waited_s[span.job] += seconds;
        double explained_s = 0;
        for (const auto& [reason, of_it_s] : span.reasons) explained_s += of_it_s;
        CHECK(explained_s == doctest::Approx(seconds));
      }
      for (std::size_t j = 0; j < work.jobs.size(); ++j) {
        CHECK(until_s[j] == doctest::Approx(result.jobs[j].end_s));
        CHECK(device_s[j] == doctest::Approx(result.jobs[j].device_s));
        CHECK(waited_s[j] == doctest::Approx(result.jobs[j].waiting_s));
      }
    }
  }

  TEST_CASE("a job that never ends is in the spans until the simulation ends") {
    std::vector<store::TraceJob> jobs{job("a", 10, 1, 100), job("b", 10, 1, 300)};
    for (store::TraceJob& one : jobs) {
      one.mix_types = false;
      one.type = one.id;
    }
    const Workload work = workload(jobs, "a:1+b:1");
    SimulationOptions how = options("elastic-srtf");
    how.world.claims = {{0, "a", 1, "serving"}};
    const SimulationResult result = run(work, how);
    CHECK(result.unfinished == 1);
    const auto wait = std::ranges::find(result.spans, std::size_t{0}, &JobSpan::job);
    REQUIRE(wait != result.spans.end());
    CHECK(wait->state == SpanState::kWaits);
    CHECK(wait->until_s >= 330);
    CHECK(find(groups_of(work, result, {}), GroupKind::kType, "a").jobs == 0);
  }

  TEST_CASE("of many jobs the chart shows those that waited longest, and says so") {
    std::vector<store::TraceJob> jobs;
    for (int i = 0; i < 400; ++i) jobs.push_back(job("j" + std::to_string(i), 0, 1, 100));
    const Workload work = workload(jobs, "a:100");
    const std::string chart = job_chart(work, run(work, options("fifo-gang")));
    CHECK(chart.find("the 200 of 400 that waited longest") != std::string::npos);
    // They run in groups of a hundred.
    CHECK(chart.find("<title>j399 waits") != std::string::npos);
    CHECK(chart.find("<title>j200 waits") != std::string::npos);
    CHECK(chart.find("<title>j199 ") == std::string::npos);
    CHECK(chart.size() < 1'000'000);
  }

  TEST_CASE("groups: jobs, waits and devices by queue, tenant, model and type") {
    std::vector<store::TraceJob> jobs{job("a", 0, 2, 200), job("b", 0, 2, 200),
                                      job("c", 0, 2, 200)};
    jobs[0].tenant = jobs[1].tenant = "blue";
    const Workload work = workload(jobs, "a:2");
    // Each takes 120 s: c waits for both others.
    const SimulationResult result = run(work, options("fifo-gang"));
    const std::vector<Group> groups = groups_of(work, result, {});
    CHECK(groups.size() == 3);
    const Group& blue = find(groups, GroupKind::kTenant, "blue");
    CHECK(blue.jobs == 2);
    CHECK(blue.avg_wait_s == doctest::Approx(60));
    CHECK(blue.p95_wait_s == doctest::Approx(120));
    CHECK(blue.avg_jct_s == doctest::Approx(180));
    CHECK(blue.devices_mean == doctest::Approx(2 * 240.0 / 360));
    CHECK(blue.devices_most == 2);
    CHECK(find(groups, GroupKind::kTenant, "").p95_wait_s == doctest::Approx(240));
    const Group& type = find(groups, GroupKind::kType, "a");
    CHECK(type.jobs == 3);
    CHECK(type.device_hours == doctest::Approx(2 * 360 / 3600.0));
    std::vector<std::string> lines;
    for (const GroupSeries& series : groups_over_time(work, result, {}))
      for (const GroupSeries::Point& point : series.points)
        lines.push_back(series.name + ", " + whole(point.time_s) + ": " +
                        std::to_string(point.devices) + " held, " + std::to_string(point.waiting) +
                        " wait");
    CHECK(lines == std::vector<std::string>{", 0: 0 held, 1 wait", ", 240: 2 held, 0 wait",
                                            ", 360: 0 held, 0 wait", "blue, 0: 2 held, 1 wait",
                                            "blue, 120: 2 held, 0 wait",
                                            "blue, 240: 0 held, 0 wait"});
    CHECK(groups_csv({{.kind = GroupKind::kModel, .name = "a, b", .jobs = 2, .avg_wait_s = 1.5}}) ==
          "kind,name,jobs,unfinished,avg_wait_s,p95_wait_s,avg_jct_s,p95_jct_s,device_hours,"
          "devices_mean,devices_most\nmodel,\"a, b\",2,0,1.5,0,0,0,0,0,0\n");
  }

  TEST_CASE("a guarantee is not kept while a job that fits into it waits for longer than a pause") {
    const Workload work =
        workload({in_queue(job("a", 0, 2, 1), "x"), in_queue(job("b", 0, 2, 1), "x"),
                  in_queue(job("c", 0, 4, 1), "x"), job("d", 0, 1, 1)},
                 "a:8");
    SimulationResult result;
    result.types = {{"a"}};
    // a has two of the three devices; b does not fit beside it, and c never does.
    result.spans = {runs(0, 0, 100, 2), waits(1, 0, 150), waits(2, 0, 900), runs(1, 150, 200, 2),
                    waits(3, 0, 900)};
    GuaranteeRules rules{
        .queues = {queue("x", "a:3")}, .starts_with = scheduler::StartsWith::kGang, .pause_s = 20};
    auto found = guarantees_of(work, result, rules);
    REQUIRE(found.size() == 1);
    CHECK(found[0].waits == std::vector<Guarantee::Wait>{{100, 150, 1, "b"}});
    CHECK(found[0].waited_s() == 50);
    CHECK(guarantees_csv(found) == "queue,from_s,seconds,jobs,first_job\nx,100,50,1,b\n");
    // Elastic jobs would run on the third device.
    rules.starts_with = scheduler::StartsWith::kMinimum;
    found = guarantees_of(work, result, rules);
    CHECK(found[0].waits == std::vector<Guarantee::Wait>{{0, 900, 2, "b"}});
    // A wait of a pause is none.
    rules.starts_with = scheduler::StartsWith::kGang;
    rules.pause_s = 50;
    CHECK(guarantees_of(work, result, rules)[0].waits.empty());
    // A reservation lets c fit between 300 s and 400 s.
    rules.claims = {{300, "a", 1, "night", 400, "x"}};
    CHECK(guarantees_of(work, result, rules)[0].waits ==
          std::vector<Guarantee::Wait>{{300, 400, 1, "c"}});
  }

  TEST_CASE("the guarantee of an inner queue counts what all its leaves have") {
    const Workload work = workload(
        {in_queue(job("a", 0, 2, 1), "left"), in_queue(job("b", 0, 2, 1), "right")}, "a:8");
    SimulationResult result;
    result.types = {{"a"}};
    result.spans = {runs(0, 0, 100, 2), waits(1, 0, 100)};
    GuaranteeRules rules{.starts_with = scheduler::StartsWith::kGang};
    scheduler::Queue left{.name = "left", .parent = "top"}, right{.name = "right", .parent = "top"};
    rules.queues = {queue("top", "a:3"), left, right};
    CHECK(guarantees_of(work, result, rules)[0].waits.empty());
    rules.queues[0] = queue("top", "a:4");
    CHECK(guarantees_of(work, result, rules)[0].waits.size() == 1);
  }

  TEST_CASE("policies that support queues keep guarantees, apart from jobs that cannot be moved") {
    std::vector<store::TraceJob> jobs;
    for (int i = 0; i < 12; ++i)
      jobs.push_back(in_queue(job("l" + std::to_string(i), 5 * i, 2, 4000), "lent"));
    for (int i = 0; i < 4; ++i)
      jobs.push_back(in_queue(job("o" + std::to_string(i), 500 + 200 * i, 2, 600), "owner"));
    const std::vector<scheduler::Queue> queues{queue("owner", "a:4"),
                                               {.name = "lent", .weight = 1}};
    for (const bool suspendable : {true, false}) {
      for (store::TraceJob& one : jobs) one.suspendable = suspendable;
      const Workload work = workload(jobs, "a:8");
      for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
        if (!policy.holds_queues || policy.name == "fifo-serial") continue;
        CAPTURE(policy.name);
        SimulationOptions how = options(std::string(policy.name));
        how.queues = queues;
        const auto rules =
            GuaranteeRules{.queues = queues,
                           .starts_with = (*scheduler::make_policy(policy.name))->starts_with(),
                           .pause_s = 20};
        const Report report = make_report(work, run(work, how), 20, rules);
        REQUIRE(report.guarantees.size() == 1);
        // Elastic jobs that may not be suspended shrink to their minimum; gangs keep all.
        const bool shrinks = rules.starts_with != scheduler::StartsWith::kGang;
        CHECK(report.guarantees[0].waits.empty() == (suspendable || shrinks));
      }
    }
  }
}

}  // namespace es::actors::simulator
