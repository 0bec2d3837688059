// policy_study prints tables of policies on traces. It uses the simulated world of world.h.
//
//   policy_study TRACE [--rescale S] [--suspend S] [--sync S] [--round S] [--jobs N]
//                [POLICY[@FAIRNESS]...]
//   policy_study JOBS.csv --times STEPS.csv --cluster v100:4+t4:2 [...]
//
// TRACE is one of: sc23, sc23-rigid (every job on its gpu_type only), pollux, pollux-1 .. pollux-8,
// gavel, philly (the first N jobs on 2,500 devices), crowd (N devices, all busy), queue (N jobs
// that arrive at 1,000 devices).
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/policy/registry.h"
#include "tests/scheduler/study/world.h"

namespace es::study {
namespace {

struct Options {
  std::string trace, times, cluster;
  Rules rules;
  std::size_t jobs = 10000;
  std::vector<std::string> policies;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] { return std::strtod(i + 1 < argc ? argv[++i] : "0", nullptr); };
    const bool has_text = argument == "--times" || argument == "--cluster";
    if (has_text && i + 1 < argc) {
      (argument == "--times" ? options.times : options.cluster) = argv[++i];
    } else if (argument == "--rescale") {
      options.rules.rescale_s = value();
    } else if (argument == "--suspend") {
      options.rules.suspend_s = value();
    } else if (argument == "--sync") {
      options.rules.sync_s = value();
    } else if (argument == "--round") {
      options.rules.round_s = value();
    } else if (argument == "--jobs") {
      options.jobs = static_cast<std::size_t>(value());
    } else if (options.trace.empty()) {
      options.trace = argument;
    } else {
      options.policies.push_back(argument);
    }
  }
  if (options.policies.empty())
    for (const auto& info : scheduler::policies()) options.policies.emplace_back(info.name);
  return options;
}

std::vector<Result<Trace>> read_traces(const Options& options) {
  const std::string& name = options.trace;
  std::vector<Result<Trace>> traces;
  if (!options.times.empty()) traces.push_back(read_files(name, options.times, options.cluster));
  if (name == "sc23" || name == "sc23-rigid") traces.push_back(read_sc23(name == "sc23"));
  if (name == "gavel") traces.push_back(read_gavel());
  if (name == "philly") traces.push_back(read_philly(options.jobs, 2500));
  if (name == "crowd") traces.emplace_back(make_crowd(static_cast<std::uint32_t>(options.jobs), 1));
  if (name == "queue") traces.emplace_back(make_queue(static_cast<std::uint32_t>(options.jobs), 1));
  for (int w = 1; w <= 8; ++w)
    if (name == "pollux" || name == "pollux-" + std::to_string(w)) traces.push_back(read_pollux(w));
  return traces;
}

// "elastic-srtf@0.75" is the policy with this fairness.
Result<std::unique_ptr<scheduler::Policy>> policy_by_text(const std::string& text) {
  const std::size_t at = text.find('@');
  scheduler::PolicyOptions options;
  if (at != std::string::npos) options.fairness = std::strtod(text.c_str() + at + 1, nullptr);
  return scheduler::make_policy(text.substr(0, at), options);
}

void print_head() {
  std::printf("%-12s %-18s %9s %9s %9s %9s %9s %7s %7s %8s %9s %8s %7s %7s\n", "trace", "policy",
              "avg JCT", "p50", "p99", "queue", "makespan", "held", "compute", "rescales",
              "worst rho", "mean rho", "ms mean", "ms max");
}

void print(const std::string& trace, const std::string& policy, const Report& r) {
  std::printf(
      "%-12s %-18s %9.1f %9.1f %9.1f %9.1f %9.1f %7.1f %7.1f %8llu %9.2f %8.3f %7.3f %7.2f\n",
      trace.c_str(), policy.c_str(), r.avg_jct_s, r.p50_jct_s, r.p99_jct_s, r.avg_queue_s,
      r.makespan_s, r.held_mean, r.computing_mean, static_cast<unsigned long long>(r.rescales),
      r.worst_rho, r.mean_rho, r.decision_ms_mean, r.decision_ms_max);
  std::fflush(stdout);
}

int study(const Options& options) {
  const auto traces = read_traces(options);
  if (traces.empty()) {
    std::fprintf(stderr, "unknown trace \"%s\"; see the head of study_main.cc\n",
                 options.trace.c_str());
    return exit_code(ErrorKind::kUsage);
  }
  print_head();
  for (const Result<Trace>& trace : traces) {
    if (!trace) {
      std::fprintf(stderr, "%s\n", trace.error().message.c_str());
      return exit_code(trace.error().kind);
    }
    for (const std::string& name : options.policies) {
      auto policy = policy_by_text(name);
      if (!policy) {
        std::fprintf(stderr, "%s\n", policy.error().message.c_str());
        return exit_code(policy.error().kind);
      }
      Rules rules = options.rules;
      rules.real_proposals = name == "easyscale";
      print(trace->name, name, run(*trace, **policy, rules));
    }
  }
  return 0;
}

}  // namespace
}  // namespace es::study

int main(int argc, char** argv) {
  return es::study::study(es::study::parse(argc, argv));
}
