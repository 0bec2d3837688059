#pragma once
// The parts of `esctl sim`, `sim compare` and `sim sweep`; each has a source of its own.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/esctl/esctl.h"
#include "actors/sim/report/report.h"
#include "actors/sim/report/trials.h"
#include "actors/sim/shell/simulation.h"

namespace es::actors::esctl {

// --- The options (sim_options.cc).

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
  std::vector<double> scales{0.5, 0.75, 1, 1.25, 1.5, 2};  // of `sim sweep`
  double scale = 1;                                        // factor of the numbers of devices
  std::uint32_t repeat = 1;  // how often each policy is simulated, with a seed for each time
  bool resample = false;     // draw the jobs of the trace anew, by the seed
  bool json = false;
};

// Adds the options of all three commands, which are all but --policy, --policies, --scale, --repeat
// and --resample. `options` must outlive the command.
void add_sim_options(CLI::App& command, SimOptions& options);

// --- What a simulation reads first (sim_scene.cc): jobs, devices, queues, prices and claims.

// The part of a simulation that is the same for every policy.
struct Scene {
  simulator::Workload workload;
  simulator::WorldOptions world;
  std::vector<scheduler::Queue> queues;
};

// Errors: usage, or not found, with the option or the file that is wrong.
Result<Scene> read_scene(const SimOptions& options);

// --- The simulations of one command (sim_runs.cc): each policy, with each value of its option.

// One of the simulations that are compared.
struct Contestant {
  std::string policy;
  scheduler::PolicyOptions options;
  // value of the policy's option, if the policy runs with several values; otherwise ""
  std::string knob;
  std::string label() const { return policy + (knob.empty() ? "" : "@" + knob); }
};

// One entry for each policy, and for a policy with several values of its option one for each value.
std::vector<Contestant> contestants_of(const std::vector<std::string>& policies,
                                       const SimOptions& options);

// Error (usage): a policy does not exist, or does not support the queues of the scene.
Status check_contestants(const std::vector<Contestant>& contestants, const Scene& scene);

struct SimRun {
  simulator::SimulationResult result;
  simulator::Report report;
};

// Simulates one contestant, and shows on standard error how far it is. `label` names it there and
// in the report.
Result<SimRun> run_contestant(const Scene& scene, const SimOptions& options,
                              const Contestant& contestant, const std::string& label,
                              Console& console);

// --- Several simulations of each policy (sim_trials.cc): compare --repeat, and sweep.

// Simulates each policy options.repeat times, with one seed after the other. Error (usage): the
// simulations would not differ.
Result<int> repeat_policies(const SimOptions& options, const std::vector<std::string>& policies,
                            Console& console);

// Simulates each policy on clusters of options.scales.
Result<int> sweep_sizes(const SimOptions& options, const std::vector<std::string>& policies,
                        Console& console);

// --- What --out writes (sim_files.cc): tables (CSV), charts (SVG), a page with them (index.html).

// File names and their contents.
using Files = std::vector<std::pair<std::string, std::string>>;

// Creates the directory if necessary. Error: it or a file cannot be written.
Status write_files(const std::string& out, const Files& files);

// `fairness` is the chart of a comparison, or empty.
Status write_results(const SimOptions& options, const Scene& scene, const std::vector<SimRun>& runs,
                     const std::string& fairness);

// The tables and charts of `esctl sim sweep`.
Status write_sweep(const SimOptions& options, const std::vector<simulator::Size>& sizes);

}  // namespace es::actors::esctl
