#pragma once
// The simulations of one command: each policy, with each value of its option.
#include <string>
#include <vector>

#include "actors/esctl/commands/sim_scene.h"
#include "actors/esctl/esctl.h"
#include "actors/sim/report/report.h"

namespace es::actors::esctl {

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

}  // namespace es::actors::esctl
