#pragma once
// Several simulations of one trace: with several seeds, and on clusters of several sizes. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/sim/report/report.h"

namespace es::actors::simulator {

// --- Repetitions.

// The simulations of one policy.
struct Repeats {
  std::string policy;
  std::vector<std::uint64_t> seeds;
  std::vector<Report> reports;  // one for each seed
};

struct Statistics {
  double mean = 0;
  double deviation = 0;  // standard deviation of a single value, with n - 1; 0 for one value
  double least = 0, most = 0;
};
// REQUIRES: there are values.
Statistics statistics_of(const std::vector<double>& values);

struct RepeatSummary {
  std::string policy;
  std::size_t unfinished = 0;  // jobs of all simulations
  Statistics avg_jct_s, p99_jct_s, avg_queue_s, makespan_s;
  // The mean JCT over that of the first policy with the same seed. The spread of this ratio is that
  // of the difference between two policies, without what differs between seeds for both.
  Statistics jct_ratio;
};
// REQUIRES: all have the same seeds, at least one.
std::vector<RepeatSummary> summaries_of(const std::vector<Repeats>& policies);

// One line for each simulation.
std::string repeats_csv(const std::vector<Repeats>& policies);

// --- Sizes of the cluster.

// The simulations on one cluster.
struct Size {
  double scale = 1;  // of the numbers of devices
  DeviceSet cluster;
  std::vector<Report> reports;  // one for each policy
};

// The smallest of these sizes (ascending) with which the mean JCT of the policy is at most 5 %
// longer than with the largest one. nullopt if jobs did not end there.
std::optional<std::size_t> enough_devices(const std::vector<Size>& sizes, std::size_t policy);

// One line for each simulation.
std::string sweep_csv(const std::vector<Size>& sizes);
// Figures against the number of devices.
struct SweepChart {
  std::string file, caption, svg;
};
std::vector<SweepChart> sweep_charts(const std::vector<Size>& sizes);

}  // namespace es::actors::simulator
