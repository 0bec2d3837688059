#pragma once
// The options of `esctl sim`, `esctl sim compare` and `esctl sim sweep`.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/sim/shell/simulation.h"

namespace es::actors::esctl {

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

}  // namespace es::actors::esctl
