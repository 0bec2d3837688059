// esctl sim: runs a trace of jobs on an imaginary cluster with the actors that run a real one.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/sim_scene.h"
#include "actors/service/shell/web_files.h"
#include "actors/sim/report/charts.h"
#include "actors/views/render_text.h"
#include "actors/views/sim_page.h"
#include "actors/views/sim_view.h"
#include "proto/base/number_text.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;
using simulator::Report;
using simulator::SimulationResult;

// Prints a line every few seconds; on a terminal it replaces the previous one.
class ProgressLine {
 public:
  explicit ProgressLine(Console& console)
      : console_(console), is_terminal_(console.err_columns() > 0) {}
  ~ProgressLine() {
    if (is_terminal_ && shown_) console_.err << "\r\033[K" << std::flush;
  }
  void show(const std::string& policy, std::size_t done, std::size_t all, double seconds) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < (is_terminal_ ? kOnTerminal : kInLog)) return;
    last_ = now;
    shown_ = true;
    console_.err << (is_terminal_ ? "\r\033[K" : "") << policy << ": " << done << " of "
                 << counted(all, "job") << " done, day " << static_cast<long>(seconds / 86400)
                 << (is_terminal_ ? "" : "\n") << std::flush;
  }

 private:
  static constexpr std::chrono::milliseconds kOnTerminal{500}, kInLog{5000};
  Console& console_;
  const bool is_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// One of the simulations that are compared.
struct Contestant {
  std::string policy;
  scheduler::PolicyOptions options;
  // value of the policy's option, if the policy runs with several values; otherwise ""
  std::string knob;
  std::string label() const { return policy + (knob.empty() ? "" : "@" + knob); }
};

// Returns one entry for each policy, and for a policy with several values of its option one for
// each value.
std::vector<Contestant> contestants_of(const std::vector<std::string>& policies,
                                       const SimOptions& options) {
  std::vector<Contestant> contestants;
  for (const std::string& policy : policies) {
    const auto infos = scheduler::policies();
    const bool has_knob = std::any_of(infos.begin(), infos.end(), [&](const auto& info) {
      return info.name == policy && info.has_fairness;
    });
    for (const double fairness : options.fairness) {
      const bool one = !has_knob || options.fairness.size() == 1;
      contestants.push_back({policy,
                             {.fairness = fairness, .homogeneous = options.homogeneous},
                             one ? "" : number_text(fairness)});
      if (one) break;
    }
  }
  return contestants;
}

Status check_contestants(const std::vector<Contestant>& contestants, const Scene& scene) {
  for (const Contestant& c : contestants) {
    if (const auto known = scheduler::make_policy(c.policy, c.options); !known)
      return known.error();
    ES_RETURN_IF_ERROR(scheduler::check_queues(c.policy, scene.queues));
  }
  return {};
}

Result<SimulationResult> run_policy(const Scene& scene, const SimOptions& options,
                                    const Contestant& contestant, Console& console) {
  ProgressLine line(console);
  const std::string label = contestant.label();
  simulator::SimulationOptions simulation{.policy = contestant.policy,
                                          .policy_options = contestant.options,
                                          .queues = scene.queues,
                                          .share_half_life_s = options.half_life_hours * 3600,
                                          .round_s = options.round_s,
                                          .checkpoint_s = options.checkpoint_s,
                                          .knowledge = options.knowledge,
                                          .world = scene.world,
                                          .progress = {}};
  simulation.knowledge.seed = options.world.seed;
  simulation.progress = [&](std::size_t done, std::size_t all, double seconds) {
    line.show(label, done, all, seconds);
  };
  auto result = simulator::simulate(scene.workload, simulation);
  if (result) result->policy = label;
  return result;
}

Status write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return failure(path.string() + ": cannot be written");
  return {};
}

Status write_files(const SimOptions& options, const Scene& scene,
                   const std::vector<SimulationResult>& results) {
  const fs::path directory = options.out;
  std::error_code code;
  fs::create_directories(directory, code);
  if (code) return failure("--out " + options.out + ": " + code.message());
  const double start_s = scene.world.start_s;
  for (const SimulationResult& result : results) {
    const std::string suffix = results.size() == 1 ? "" : "-" + result.policy;
    ES_RETURN_IF_ERROR(write_file(directory / ("jobs" + suffix + ".csv"),
                                  simulator::jobs_csv(scene.workload, result, start_s)));
    ES_RETURN_IF_ERROR(write_file(directory / ("allocation" + suffix + ".csv"),
                                  simulator::allocation_csv(result)));
    ES_RETURN_IF_ERROR(write_file(directory / ("allocation" + suffix + ".svg"),
                                  simulator::allocation_chart(result)));
  }
  ES_RETURN_IF_ERROR(write_file(directory / "jct.svg", simulator::jct_chart(results)));
  return write_file(directory / "queue.svg", simulator::queue_chart(results));
}

// All results in one page. `fairness` is the chart of a comparison, or empty.
Status write_page(const SimOptions& options, const Scene& scene,
                  const std::vector<SimulationResult>& results, const std::vector<Report>& reports,
                  const std::string& fairness) {
  SimPage page{.facts = {{"Trace", fs::path(options.trace).filename().string()},
                         {"Jobs", std::to_string(scene.workload.jobs.size())},
                         {"Cluster", scene.workload.cluster.text()},
                         {"Start cost", number_text(scene.world.start_s) + " s"},
                         {"Rescale cost", number_text(scene.world.rescale_s) + " s"},
                         {"Seed", std::to_string(scene.world.seed)}},
               .reports = reports,
               .charts = {{"Jobs that ended within a time", simulator::jct_chart(results)},
                          {"Jobs without any device over time", simulator::queue_chart(results)}},
               .style = http::web_file("/web/style.css")->text};
  if (!fairness.empty()) page.charts.emplace_back("Speed against fairness", fairness);
  for (const SimulationResult& result : results)
    page.charts.emplace_back("Devices over time: " + result.policy,
                             simulator::allocation_chart(result));
  return write_file(fs::path(options.out) / "index.html", sim_page(page));
}

std::string fairness_of(const std::vector<Contestant>& contestants,
                        const std::vector<Report>& reports) {
  std::vector<simulator::Trial> trials;
  for (std::size_t i = 0; i < reports.size(); ++i)
    trials.push_back(
        {contestants[i].policy, contestants[i].knob, reports[i].avg_jct_s, reports[i].worst_rho});
  return simulator::fairness_chart(trials);
}

Result<int> simulate_policies(const SimOptions& options, const std::vector<std::string>& policies,
                              bool compare, Console& console) {
  if (!compare && options.fairness.size() != 1)
    return usage_error("--fairness: several values; allowed is one, except for esctl sim compare");
  const std::vector<Contestant> contestants = contestants_of(policies, options);
  const auto scene = read_scene(options);
  if (!scene) return scene.error();
  ES_RETURN_IF_ERROR(check_contestants(contestants, *scene));
  std::vector<SimulationResult> results;
  std::vector<Report> reports;
  for (const Contestant& contestant : contestants) {
    auto result = run_policy(*scene, options, contestant, console);
    if (!result) return result.error();
    reports.push_back(simulator::make_report(scene->workload, *result, scene->world.start_s));
    if (result->refused > 0)
      console.err << result->policy << ": the head refused " << counted(result->refused, "request")
                  << ", the first: " << result->first_refusal << "\n";
    results.push_back(*std::move(result));
  }
  if (!options.out.empty()) {
    ES_RETURN_IF_ERROR(write_files(options, *scene, results));
    const std::string fairness = compare ? fairness_of(contestants, reports) : "";
    if (compare) ES_RETURN_IF_ERROR(write_file(fs::path(options.out) / "fairness.svg", fairness));
    ES_RETURN_IF_ERROR(write_page(options, *scene, results, reports, fairness));
  }
  if (options.json)
    console.out << (compare ? reports_json(reports) : report_json(reports.front())) << "\n";
  else
    console.out << reports_text(reports);
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
      "--out charts ...");
  CLI::App* compare =
      command->add_subcommand("compare", "Several policies on the same trace, side by side");
  compare->fallthrough();
  compare
      ->add_option("--policies", options->policies,
                   "Names, separated by commas (default: all; with --quota or --queues those that "
                   "support queues)")
      ->delimiter(',')
      ->type_name("NAME,...");
  command->callback([options, compare, &shell] {
    std::vector<std::string> policies{options->policy};
    if (compare->parsed()) policies = options->policies;
    if (policies.empty())
      for (const scheduler::PolicyInfo& info : scheduler::policies())
        if ((options->quotas.empty() && options->queues.empty()) || info.holds_queues)
          policies.emplace_back(info.name);
    shell.exit_code =
        finish(simulate_policies(*options, policies, compare->parsed(), shell.console),
               options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
