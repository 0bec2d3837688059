// esctl sim: runs a trace of jobs on an imaginary cluster with the actors that run a real one.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/views/render_text.h"
#include "actors/esctl/views/sim_page.h"
#include "actors/esctl/views/sim_view.h"
#include "actors/http/shell/web_files.h"
#include "actors/job_file/price_options.h"
#include "actors/job_file/queue_file.h"
#include "actors/program/finite.h"
#include "actors/simulator/report/charts.h"
#include "proto/base/number_text.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;
using simulator::Report;
using simulator::SimulationResult;
using simulator::Workload;

const CLI::Range kMishapSeconds{1.0, 1e7};
// If the mean time is less than 36 s, no job could make progress between two events.
const CLI::Validator kMeanHours{[](const std::string& text) {
                                  double hours = -1;
                                  CLI::detail::lexical_cast(text, hours);
                                  if (hours == 0 || (hours >= 0.01 && hours <= 1e9))
                                    return std::string();
                                  return text + ": allowed is 0 for never, or 0.01 to 1e9 hours";
                                },
                                "HOURS"};

struct SimOptions {
  std::string trace, workload, cluster, step_times, claims, queues, out;
  std::string policy{scheduler::kDefaultPolicy};
  std::vector<std::string> policies, quotas, prices, spot_prices;
  std::vector<double> fairness{scheduler::PolicyOptions().fairness};
  bool homogeneous = false;
  simulator::WorldOptions world{.rescale_s = 5};
  double round_s = 0, checkpoint_s = 0, half_life_hours = 0;
  std::optional<double> scale_s;  // in place of world.rescale_s, which is then that of suspensions
  simulator::Knowledge knowledge;
  bool json = false;
};

// For example "v100=32,p100=16".
Result<DeviceSet> parse_cluster(const std::string& text, const store::StepTimes& times) {
  DeviceSet cluster;
  std::string rest = text + ",";
  const std::string known = times.device_types_text();
  const auto bad = [&](const std::string& part) {
    return usage_error("--cluster " + text + ": \"" + part +
                       "\": allowed is TYPE=COUNT[,TYPE=COUNT...] with each type once and a count "
                       "above 0; a type consists of lower-case letters, digits, - and _" +
                       (known.empty() ? "" : "; types with step times: " + known));
  };
  for (std::size_t end = rest.find(','); end != std::string::npos; end = rest.find(',')) {
    std::string part = rest.substr(0, end);
    rest.erase(0, end + 1);
    std::string devices = part;
    if (const std::size_t equals = devices.find('='); equals != std::string::npos)
      devices[equals] = ':';
    const auto set = parse_device_set(devices);
    if (!set || set->counts.size() != 1 || part.find('=') == std::string::npos) return bad(part);
    if (cluster.count_of(set->counts[0].type) > 0) return bad(part);
    cluster.add(set->counts[0].type, set->counts[0].count);
  }
  return cluster;
}

// The part of a simulation that is the same for every policy.
struct Scene {
  Workload workload;
  simulator::WorldOptions world;
  std::vector<scheduler::Queue> queues;
};

Result<Scene> read_scene(const SimOptions& options) {
  store::StepTimes times;
  if (!options.step_times.empty()) {
    auto read = store::read_step_times(options.step_times);
    if (!read) return read.error();
    times = *std::move(read);
  }
  const auto cluster = parse_cluster(options.cluster, times);
  if (!cluster) return cluster.error();
  const auto trace = store::read_trace(options.trace, options.workload);
  if (!trace) return trace.error();
  const std::uint64_t seed = options.world.seed;
  auto workload = simulator::make_workload(*trace, times, *cluster,
                                           {.jitter_s = seed == 0 ? 0.0 : 1.0, .seed = seed});
  if (!workload) return workload.error();
  auto queues = actors::read_queues(options.queues, options.quotas);
  if (!queues) return queues.error();
  for (const simulator::WorkJob& job : workload->jobs) {
    const ResourceSpec& asks = job.spec.resources;
    const Status known = scheduler::check_queue_of_job(*queues, asks.queue, asks.tenant);
    if (!known.ok())
      return usage_error(options.trace + ": job " + job.id + ": " + known.error().message);
  }
  Scene scene{*std::move(workload), options.world, *std::move(queues)};
  if (options.scale_s) {
    if (!scene.world.suspend_s) scene.world.suspend_s = scene.world.rescale_s;
    scene.world.rescale_s = *options.scale_s;
  }
  auto prices = actors::parse_prices(options.prices, options.spot_prices);
  if (!prices) return prices.error();
  scene.world.prices = *std::move(prices);
  if (options.claims.empty()) return scene;
  auto claims = store::read_claims(options.claims);
  if (!claims) return claims.error();
  scene.world.claims = *std::move(claims);
  return scene;
}

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
               .style = http::web_file("/style.css")->text};
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

// The options for faults and what they cost.
void add_mishap_options(CLI::App& command, SimOptions& options) {
  simulator::WorldOptions& world = options.world;
  const auto add = [&](const char* name, double& value, CLI::Validator range, const char* help) {
    command.add_option(name, value, help)
        ->check(range)
        ->check(finite_number())
        ->capture_default_str();
  };
  command
      .add_option("--seed", world.seed,
                  "Seed of failures, stragglers and estimates; other than 0 it also delays each "
                  "submission by up to a second")
      ->capture_default_str();
  add("--failures", world.failure_hours, kMeanHours,
      "Mean hours between two losses of one node; 0: no losses");
  command
      .add_option("--spot-nodes", world.spot_nodes,
                  "Only this many nodes of each type are lost, the last ones, and the head knows "
                  "that these are spot nodes; 0: all nodes may be lost")
      ->check(CLI::Range(0U, 1'000'000U))
      ->capture_default_str();
  add("--notice", world.notice_s, CLI::Range(0.0, 1e7),
      "Seconds between the announcement of a loss (esctl drain --in) and the loss; 0: none");
  add("--repair-time", world.repair_s, kMishapSeconds, "Seconds until a lost node is back");
  command
      .add_option("--node-devices", world.devices_per_node,
                  "Devices of a node; they have one type and are lost together")
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str();
  command
      .add_option("--rack-nodes", world.nodes_per_rack,
                  "Nodes of a rack; the devices of a job are then chosen in few racks and on few "
                  "nodes. 0: there are no racks")
      ->check(CLI::Range(0U, 1'000'000U))
      ->capture_default_str();
  command
      .add_option("--island", world.island_devices,
                  "Devices of a node that are linked with each other; a job gets such devices "
                  "together. 0: all of the node")
      ->check(CLI::Range(0U, 1024U))
      ->capture_default_str();
  command.add_flag("--hide-places", world.hides_places,
                   "Nodes do not say in which rack they are, nor which devices are linked");
  add("--node-sync-cost", world.node_sync_s, CLI::Range(0.0, 1e6),
      "Seconds by which each node of a job but one makes a global step longer");
  add("--rack-sync-cost", world.rack_sync_s, CLI::Range(0.0, 1e6),
      "Seconds by which each rack of a job but one makes a global step longer");
  add("--checkpoint-every", options.checkpoint_s, CLI::Range(0.0, 1e9),
      "Seconds of training between two checkpoints of a job, to which it goes back when all its "
      "workers are lost at once; 0: checkpoints of suspensions only");
  add("--stragglers", world.straggler_hours, kMeanHours,
      "Mean hours between two slow periods of one device; 0: no slow periods");
  add("--straggler-time", world.straggler_s, kMishapSeconds, "Seconds of a slow period");
  add("--straggler-factor", world.straggler_factor, CLI::Range(1.0, 1000.0),
      "Factor by which a step takes longer on a slow device");
  add("--sync-cost", world.sync_s, CLI::Range(0.0, 1e6),
      "Seconds by which each device but one makes a global step longer; jobs learn this from their "
      "steps");
}

// The options for what policies are told.
void add_knowledge_options(CLI::App& command, SimOptions& options) {
  command
      .add_option("--estimate-error", options.knowledge.estimate_error,
                  "Policies are told lengths and speeds times e^x, where x is normal with this "
                  "standard deviation; 0: the truth")
      ->check(CLI::Range(0.0, 3.0))
      ->check(finite_number())
      ->capture_default_str();
  command.add_flag("--unknown-lengths", options.knowledge.unknown_lengths,
                   "Jobs stop early, at 0.2 to 1 of the length that policies are told");
  command
      .add_option("--lying-users", options.knowledge.lying_users,
                  "Part of the jobs of which policies are told a tenth of the length")
      ->check(CLI::Range(0.0, 1.0))
      ->check(finite_number())
      ->capture_default_str();
  command.add_flag("--learn-speeds", options.world.learns_speeds,
                   "Speeds are known only after a job of the model has run on the type");
}

void add_options(CLI::App& command, SimOptions& options) {
  command
      .add_option("--trace", options.trace,
                  "Jobs: a CSV file, which may be gzipped (docs/reference/data-formats.md "
                  "describes the formats)")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--workload", options.workload,
                  "The workload, if the trace contains several (default: the first)")
      ->type_name("NAME");
  command
      .add_option("--cluster", options.cluster,
                  "Devices of the cluster, e.g. v100=32,p100=16,t4=16")
      ->required()
      ->type_name("TYPE=COUNT,...");
  command
      .add_option("--steptimes", options.step_times,
                  "Seconds of a local step by model and device type")
      ->type_name("FILE");
  command
      .add_option(
          "--claims", options.claims,
          "Serving load: a CSV file with time_s,type,count,name; count 0 ends a claim. With "
          "until_s,queue a line is a reservation for a queue")
      ->type_name("FILE");
  command.add_option("--quota", options.quotas, "Devices that a tenant owns; may be repeated")
      ->type_name("TENANT=TYPE:COUNT[+...]");
  command
      .add_option("--queues", options.queues,
                  "Queues with guarantees, limits and weights: a TOML file, as for easyscaled")
      ->type_name("FILE");
  command
      .add_option("--price", options.prices,
                  "What a device of a type costs in an hour, in any unit; may be repeated")
      ->type_name("TYPE=NUMBER");
  command
      .add_option("--spot-price", options.spot_prices,
                  "The same on spot nodes (default: --price of the type)")
      ->type_name("TYPE=NUMBER");
  command
      .add_option("--share-half-life", options.half_life_hours,
                  "Order queues by what they have used over their weights, with this half-life in "
                  "hours; 0: divide what no guarantee needs by the weights at every moment")
      ->check(CLI::Range(0.0, 1e5))
      ->check(finite_number())
      ->capture_default_str();
  command.add_option("--start-cost", options.world.start_s, "Seconds of a job's first start")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finite_number())
      ->capture_default_str();
  command
      .add_option("--rescale-cost", options.world.rescale_s,
                  "Seconds of each later change of devices")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finite_number())
      ->capture_default_str();
  command
      .add_option("--scale-cost", options.scale_s,
                  "Seconds of a change that leaves the job a device or moves it (default: the "
                  "--rescale-cost)")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finite_number());
  command
      .add_option("--suspend-cost", options.world.suspend_s,
                  "Seconds of a suspension and the restart after it together (default: the "
                  "--rescale-cost)")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finite_number());
  command
      .add_option("--round", options.round_s,
                  "Smallest number of seconds between two decisions; 0: a decision at every event")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finite_number())
      ->capture_default_str();
  command
      .add_option("--fairness", options.fairness,
                  "Knob of elastic-srtf, from 0 (fast) to 1 (fair); compare accepts several "
                  "values, and the policy runs with each")
      ->check(CLI::Range(0.0, 1.0))
      ->check(finite_number())
      ->delimiter(',')
      ->type_name("F")
      ->capture_default_str();
  add_mishap_options(command, options);
  add_knowledge_options(command, options);
  command.add_flag("--homogeneous", options.homogeneous,
                   "Policy easyscale: one device type for each job");
  command
      .add_option("--out", options.out,
                  "Write tables (CSV), charts (SVG) and a page with them (index.html) to this "
                  "directory")
      ->type_name("DIR");
  add_json_option(command, options.json);
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
  add_options(*command, *options);
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
