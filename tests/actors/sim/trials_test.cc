// Several simulations of one trace: statistics over seeds, and sizes of the cluster.
#include "actors/sim/report/trials.h"

#include <set>

#include "tests/actors/sim/small_traces.h"

namespace es::actors::simulator {
namespace {

Report report(const char* policy, double avg_jct_s, std::uint32_t unfinished = 0) {
  Report report{.policy = policy, .unfinished = unfinished};
  report.avg_jct_s = avg_jct_s;
  return report;
}

Size size(const char* cluster, double avg_jct_s, std::uint32_t unfinished = 0) {
  return {.scale = 1, .cluster = devices(cluster), .reports = {report("p", avg_jct_s, unfinished)}};
}

}  // namespace

TEST_SUITE("actors/sim/trials") {
  TEST_CASE("mean and standard deviation, and the ratio to the first policy seed by seed") {
    const Statistics s = statistics_of({1, 2, 6});
    CHECK(s.mean == 3);
    CHECK(s.deviation == doctest::Approx(2.6457513));
    CHECK(s.least == 1);
    CHECK(s.most == 6);
    CHECK(statistics_of({7}).deviation == 0);
    // The seeds differ much, and the two policies hardly.
    const auto summaries = summaries_of({{"a", {1, 2}, {report("a", 100), report("a", 200, 3)}},
                                         {"b", {1, 2}, {report("b", 110), report("b", 220)}}});
    CHECK(summaries[0].unfinished == 3);
    CHECK(summaries[0].jct_ratio.mean == 1);
    CHECK(summaries[1].avg_jct_s.mean == 165);
    CHECK(summaries[1].jct_ratio.mean == doctest::Approx(1.1));
    CHECK(summaries[1].jct_ratio.deviation == doctest::Approx(0).epsilon(1e-9));
  }

  TEST_CASE("enough devices: the smallest size from which on more help little") {
    CHECK(enough_devices({size("a:1", 200), size("a:2", 104), size("a:3", 101), size("a:4", 100)},
                         0) == 1);
    CHECK(enough_devices({size("a:1", 101), size("a:2", 150), size("a:3", 100)}, 0) == 2);
    CHECK(enough_devices({size("a:1", 101, 1), size("a:2", 100)}, 0) == 1);
    CHECK_FALSE(enough_devices({size("a:1", 101), size("a:2", 100, 1)}, 0));
  }

  TEST_CASE("a drawn trace has the jobs of the trace at its submission times, and unique ids") {
    store::JobTrace trace;
    for (int i = 0; i < 50; ++i)
      trace.jobs.push_back(job("j" + std::to_string(i), 10.0 * i, 1 + i % 4, 100 + i));
    const auto drawn = [&](std::uint64_t seed) {
      return make_workload(trace, {}, devices("a:4"), {.seed = seed, .resample = true}).value();
    };
    const Workload work = drawn(1);
    REQUIRE(work.jobs.size() == 50);
    std::set<std::string> ids, originals;
    for (std::size_t i = 0; i < work.jobs.size(); ++i) {
      CHECK(work.jobs[i].submit_s == 10.0 * static_cast<double>(i));
      ids.insert(work.jobs[i].id);
      const std::string original = work.jobs[i].id.substr(0, work.jobs[i].id.find('#'));
      originals.insert(original);
      const std::size_t at = std::stoul(original.substr(1));
      CHECK(work.jobs[i].spec.max_p == trace.jobs[at].max_p);
    }
    CHECK(ids.size() == 50);
    CHECK(originals.size() < 45);
    CHECK(originals.size() > 20);
    CHECK(drawn(1).jobs[7].id == work.jobs[7].id);
    CHECK(drawn(2).jobs[7].id + drawn(2).jobs[8].id + drawn(2).jobs[9].id !=
          work.jobs[7].id + work.jobs[8].id + work.jobs[9].id);
  }

  TEST_CASE("a job needs its minimum: it waits for it, and a cluster without it is refused") {
    std::vector<store::TraceJob> jobs{job("a", 0, 2, 200), job("b", 10, 4, 400)};
    jobs[0].min_devices = 2;
    jobs[1].min_devices = 3;
    const Workload work = workload(jobs, "a:4");
    // With two devices b could run at once.
    const SimulationResult result = run(work, options("easyscale"));
    CHECK(result.jobs[1].waiting_s > 50);
    CHECK(result.unfinished == 0);
    store::JobTrace trace;
    trace.jobs = jobs;
    const auto small = make_workload(trace, {}, devices("a:2"), {});
    REQUIRE_FALSE(small.ok());
    CHECK(small.error().message == "job b: min_devices = 3: the cluster a:2 has 2 devices for it");
    CHECK(make_workload(trace, {}, devices("a:2+b:1"), {}).ok());  // it may mix types
  }
}

}  // namespace es::actors::simulator
