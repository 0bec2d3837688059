#pragma once
// Traces of a few jobs, and how tests simulate them.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "actors/sim/shell/simulation.h"

namespace es::actors::simulator {

inline DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

// A local step takes a second on every type.
inline store::TraceJob job(const std::string& id, double submit_s, std::uint32_t max_p,
                           double local_steps) {
  store::TraceJob job;
  job.id = id;
  job.submit_s = submit_s;
  job.max_p = max_p;
  job.local_steps = local_steps;
  return job;
}

inline Workload workload(std::vector<store::TraceJob> jobs, const char* cluster) {
  store::JobTrace trace;
  trace.jobs = std::move(jobs);
  return make_workload(trace, {}, devices(cluster), {}).value();
}

inline SimulationOptions options(const std::string& policy, double rescale_s = 5) {
  SimulationOptions options;
  options.policy = policy;
  options.world.rescale_s = rescale_s;
  return options;
}

inline SimulationResult run(const Workload& work, const SimulationOptions& how) {
  auto result = simulate(work, how);
  REQUIRE(result.ok());
  return *std::move(result);
}

inline Workload random_workload(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<store::TraceJob> jobs;
  for (std::size_t i = 0; i < count; ++i)
    jobs.push_back(job("j" + std::to_string(i), static_cast<double>(random() % 2000),
                       1 + random() % 8, 10 + static_cast<double>(random() % 4000)));
  return workload(std::move(jobs), "a:6+b:4");
}

}  // namespace es::actors::simulator
