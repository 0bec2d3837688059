#pragma once
// `esctl sim compare --repeat` and `esctl sim sweep`: several simulations of each policy.
#include <string>
#include <vector>

#include "actors/esctl/commands/sim_runs.h"

namespace es::actors::esctl {

// Simulates each policy options.repeat times, with one seed after the other. Error (usage): the
// simulations would not differ.
Result<int> repeat_policies(const SimOptions& options, const std::vector<std::string>& policies,
                            Console& console);

// Simulates each policy on clusters of options.scales.
Result<int> sweep_sizes(const SimOptions& options, const std::vector<std::string>& policies,
                        Console& console);

}  // namespace es::actors::esctl
