#pragma once
// What a simulation reads before it begins: jobs, devices, queues, prices and claims.
#include <vector>

#include "actors/esctl/commands/sim_options.h"

namespace es::actors::esctl {

// The part of a simulation that is the same for every policy.
struct Scene {
  simulator::Workload workload;
  simulator::WorldOptions world;
  std::vector<scheduler::Queue> queues;
};

// Errors: usage, or not found, with the option or the file that is wrong.
Result<Scene> read_scene(const SimOptions& options);

}  // namespace es::actors::esctl
