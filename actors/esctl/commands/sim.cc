// esctl sim: runs a trace of jobs on an imaginary cluster with the actors that run a real one.
#include "actors/base/program/finite.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/sim_parts.h"
#include "actors/sim/report/charts.h"
#include "actors/views/sim_view.h"

namespace es::actors::esctl {
namespace {

std::string fairness_of(const std::vector<Contestant>& contestants,
                        const std::vector<SimRun>& runs) {
  std::vector<simulator::Trial> trials;
  for (std::size_t i = 0; i < runs.size(); ++i)
    trials.push_back({contestants[i].policy, contestants[i].knob, runs[i].report.avg_jct_s,
                      runs[i].report.worst_rho});
  return simulator::fairness_chart(trials);
}

Result<std::vector<SimRun>> run_all(const std::vector<Contestant>& contestants, const Scene& scene,
                                    const SimOptions& options, Console& console) {
  std::vector<SimRun> runs;
  for (const Contestant& contestant : contestants) {
    auto run = run_contestant(scene, options, contestant, contestant.label(), console);
    if (!run) return run.error();
    runs.push_back(*std::move(run));
  }
  return runs;
}

void print(const std::vector<SimRun>& runs, const SimOptions& options, bool compare,
           Console& console) {
  std::vector<simulator::Report> reports;
  for (const SimRun& run : runs) reports.push_back(run.report);
  if (options.json) {
    console.out << (compare ? reports_json(reports) : report_json(reports.front())) << "\n";
    return;
  }
  console.out << reports_text(reports);
  if (!compare) console.out << groups_text(reports.front());
}

Result<int> simulate_policies(const SimOptions& options, const std::vector<std::string>& policies,
                              bool compare, Console& console) {
  if (!compare && options.fairness.size() != 1)
    return usage_error("--fairness: several values; allowed is one, except for esctl sim compare");
  const std::vector<Contestant> contestants = contestants_of(policies, options);
  const auto scene = read_scene(options);
  if (!scene) return scene.error();
  ES_RETURN_IF_ERROR(check_contestants(contestants, *scene));
  const auto runs = run_all(contestants, *scene, options, console);
  if (!runs) return runs.error();
  if (!options.out.empty())
    ES_RETURN_IF_ERROR(
        write_results(options, *scene, *runs, compare ? fairness_of(contestants, *runs) : ""));
  print(*runs, options, compare, console);
  return 0;
}

std::string policy_list() {
  std::string text = "Policies:\n";
  for (const scheduler::PolicyInfo& info : scheduler::policies())
    text += "  " + std::string(info.name) +
            std::string(16 - std::min<std::size_t>(15, info.name.size()), ' ') +
            std::string(info.summary) + "\n";
  return text;
}

// The policies that a command names, or all that support what the options ask for.
std::vector<std::string> policies_or_all(const SimOptions& options) {
  if (!options.policies.empty()) return options.policies;
  std::vector<std::string> policies;
  for (const scheduler::PolicyInfo& info : scheduler::policies())
    if ((options.quotas.empty() && options.queues.empty()) || info.holds_queues)
      policies.emplace_back(info.name);
  return policies;
}

void add_policies_option(CLI::App& command, SimOptions& options, const char* help) {
  command.add_option("--policies", options.policies, help)->delimiter(',')->type_name("NAME,...");
}

CLI::App* add_compare(CLI::App& command, SimOptions& options) {
  CLI::App* compare =
      command.add_subcommand("compare", "Several policies on the same trace, side by side");
  compare->fallthrough();
  add_policies_option(*compare, options,
                      "Names, separated by commas (default: all; with --quota or --queues those "
                      "that support queues)");
  compare
      ->add_option("--repeat", options.repeat,
                   "Simulate each policy this many times, with the seeds from --seed on, and print "
                   "means with their spread")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  compare->add_flag("--resample", options.resample,
                    "Draw the jobs of the trace anew by the seed, with replacement, at the "
                    "submission times of the trace");
  return compare;
}

CLI::App* add_sweep(CLI::App& command, SimOptions& options) {
  CLI::App* sweep = command.add_subcommand("sweep", "The same trace on clusters of several sizes");
  sweep->fallthrough();
  add_policies_option(*sweep, options, "Names, separated by commas (default: that of --policy)");
  sweep
      ->add_option("--scale", options.scales,
                   "Factors of the numbers of devices of --cluster, separated by commas; at least "
                   "one device of each type remains")
      ->delimiter(',')
      ->check(CLI::Range(0.001, 1000.0))
      ->check(finite_number())
      ->type_name("F,...")
      ->capture_default_str();
  return sweep;
}

}  // namespace

void add_sim_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<SimOptions>();
  CLI::App* command = app.add_subcommand(
      "sim", "Simulate a job trace on a cluster, with the actors that schedule a real one");
  add_sim_options(*command, *options);
  command->add_option("--policy", options->policy, "Scheduling policy")->capture_default_str();
  command->footer(
      policy_list() +
      "Example:\n  esctl sim --trace jobs.csv --steptimes steps.csv --cluster v100=32,t4=16 "
      "--json\n"
      "  esctl sim compare --policies elastic-srtf,srtf --trace jobs.csv --cluster gpu=64\n"
      "  esctl sim compare --policies elastic-srtf,max-min-fair --fairness 0,0.25,0.5,0.75,1 "
      "--out charts ...\n"
      "  esctl sim compare --policies elastic-srtf,easy-backfill --repeat 10 --resample ...\n"
      "  esctl sim sweep --scale 0.5,0.75,1,1.5 --trace jobs.csv --cluster gpu=64 --out charts");
  CLI::App* compare = add_compare(*command, *options);
  CLI::App* sweep = add_sweep(*command, *options);
  command->require_subcommand(0, 1);
  command->callback([options, compare, sweep, &shell] {
    const std::vector<std::string> one{options->policy};
    const auto run = [&]() -> Result<int> {
      if (sweep->parsed())
        return sweep_sizes(*options, options->policies.empty() ? one : options->policies,
                           shell.console);
      if (!compare->parsed()) return simulate_policies(*options, one, false, shell.console);
      if (options->repeat > 1)
        return repeat_policies(*options, policies_or_all(*options), shell.console);
      return simulate_policies(*options, policies_or_all(*options), true, shell.console);
    };
    shell.exit_code = finish(run(), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
