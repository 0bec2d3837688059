#pragma once
// The options of `esctl sim` and `esctl sim compare`.
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
  bool json = false;
};

// Adds all options but --policy and --policies. `options` must outlive the command.
void add_sim_options(CLI::App& command, SimOptions& options);

}  // namespace es::actors::esctl
