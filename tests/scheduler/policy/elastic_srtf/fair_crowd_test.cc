// The fair end where hundreds of jobs are late: it must not cost both speed and fairness.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "scheduler/policy/registry.h"
#include "tests/scheduler/policy/random_views.h"
#include "tests/scheduler/study/world.h"
#include "tests/support/seed.h"

namespace es::study {
namespace {

// Many short jobs of one or two devices, and a few that could use all of the cluster, within an
// hour. Half of the jobs that are bound to a type are bound to each of two.
Trace crowd(test::RandomViews& random, bool is_bound) {
  Trace trace{"crowd", *parse_device_set("fast:6+slow:10"), {}};
  const auto add = [&](std::uint32_t max_p, double median_s) {
    Job job;
    job.id = "j" + std::to_string(trace.jobs.size());
    job.submit_s = random.draw(0, 3600);
    job.max_p = max_p;
    const double factor = std::exp2(random.draw(0, 400) / 100.0 - 2);
    job.steps = median_s * factor * max_p;
    job.mix_types = true;
    const bool fast = !is_bound || random.one_in(2);
    if (fast) job.capabilities[{"fast"}] = 2;
    if (!fast || !is_bound) job.capabilities[{"slow"}] = 1;
    trace.jobs.push_back(std::move(job));
  };
  for (int i = 0; i < 250; ++i) add(random.draw(1, 2), 200);
  for (int i = 0; i < 4; ++i) add(16, 2000);
  std::ranges::stable_sort(trace.jobs, {}, &Job::submit_s);
  return trace;
}

Report report(const Trace& trace, const char* policy, double rescale_s) {
  Rules rules;
  rules.rescale_s = rescale_s;
  return run(trace, **scheduler::make_policy(policy, {.fairness = 1}), rules);
}

}  // namespace

TEST_SUITE("scheduler/policy/elastic-srtf/fair crowd") {
  TEST_CASE("the fair end is never both slower and less fair than max-min-fair") {
    test::RandomViews random(test::seed("fair crowd"));
    for (const bool is_bound : {false, true}) {
      for (const double rescale_s : {1.0, 10.0, 60.0}) {
        const Trace trace = crowd(random, is_bound);
        CAPTURE(is_bound);
        CAPTURE(rescale_s);
        const Report fair = report(trace, "elastic-srtf", rescale_s);
        const Report max_min = report(trace, "max-min-fair", rescale_s);
        CHECK((fair.avg_jct_s <= max_min.avg_jct_s || fair.worst_rho <= max_min.worst_rho));
      }
    }
  }
}

}  // namespace es::study
