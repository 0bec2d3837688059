// The results of the policies on the traces of the shared data. The tests are skipped without these
// data.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "scheduler/policy/registry.h"
#include "tests/scheduler/study/world.h"

namespace es::study {
namespace {

Report report(const Trace& trace, std::string_view name, Rules rules = {}, double fairness = 0.5) {
  auto policy = scheduler::make_policy(name, {.fairness = fairness});
  rules.real_proposals = name == "easyscale";
  return run(trace, **policy, rules);
}

bool have_traces() {
  return !trace_folder().empty();
}

// The simulator of the paper's authors: rounds of 60 s, changes without a cost, each job on its own
// GPU type.
Report as_the_authors(std::string_view policy) {
  Rules rules;
  rules.rescale_s = 0;
  rules.round_s = 60;
  return report(*read_sc23(false), policy, rules);
}

bool within_tenth(double value, double reference) {
  return std::abs(value - reference) <= 0.1 * reference;
}

struct Best {
  double avg_jct_s = scheduler::kNever.count();
  double makespan_s = scheduler::kNever.count();
};

Best best_of_others(const Trace& trace) {
  Best best;
  for (const scheduler::PolicyInfo& info : scheduler::policies()) {
    if (info.name == "elastic-srtf") continue;
    const Report r = report(trace, info.name);
    best.avg_jct_s = std::min(best.avg_jct_s, r.avg_jct_s);
    best.makespan_s = std::min(best.makespan_s, r.makespan_s);
  }
  return best;
}

std::vector<Trace> pollux_and_gavel() {
  std::vector<Trace> traces;
  for (int w = 1; w <= 8; ++w) traces.push_back(*read_pollux(w));
  traces.push_back(*read_gavel());
  return traces;
}

}  // namespace

TEST_SUITE("scheduler/study/goals") {
  TEST_CASE("the authors' trace: our mean is below 400 s and our total below 5,850 s") {
    if (!have_traces()) return;
    for (const double fairness : {0.0, 0.5}) {
      const Report r = report(*read_sc23(true), "elastic-srtf", {}, fairness);
      CAPTURE(fairness);
      CHECK(r.avg_jct_s < 400);
      CHECK(r.makespan_s < 5850);
    }
  }

  TEST_CASE("the baselines are within 10 % of the results of the authors' simulator") {
    if (!have_traces()) return;
    struct Reference {
      const char* policy;
      double avg_jct_s, makespan_s;
    };
    for (const Reference& reference :
         {Reference{"fifo-serial", 8988.8, 16440}, Reference{"fifo-gang", 7480.1, 13440},
          Reference{"fifo-backfill", 3991.4, 12180}, Reference{"srtf", 751.4, 12780},
          Reference{"easyscale", 1140.5, 6780}}) {
      CAPTURE(reference.policy);
      const Report r = as_the_authors(reference.policy);
      CHECK(within_tenth(r.avg_jct_s, reference.avg_jct_s));
      CHECK(within_tenth(r.makespan_s, reference.makespan_s));
    }
  }

  TEST_CASE("Pollux and Gavel: the fast end has the least mean, and nearly the least total") {
    if (!have_traces()) return;
    for (const Trace& trace : pollux_and_gavel()) {
      CAPTURE(trace.name);
      const Best others = best_of_others(trace);
      for (const double fairness : {0.0, 0.5}) {
        const Report ours = report(trace, "elastic-srtf", {}, fairness);
        CHECK(ours.avg_jct_s < others.avg_jct_s);
        CHECK(ours.makespan_s <= 1.05 * others.makespan_s);
      }
    }
  }

  TEST_CASE("Pollux and Gavel: the fair end is at least as fair as max-min-fair, and faster") {
    if (!have_traces()) return;
    for (const Trace& trace : pollux_and_gavel()) {
      CAPTURE(trace.name);
      const Report fair = report(trace, "elastic-srtf", {}, 1);
      const Report max_min = report(trace, "max-min-fair");
      CHECK(fair.worst_rho <= max_min.worst_rho);
      CHECK(fair.avg_jct_s < max_min.avg_jct_s);
    }
  }
}

}  // namespace es::study
