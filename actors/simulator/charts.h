#pragma once
// Charts of simulations as SVG texts, for people. Pure.
#include <string>
#include <vector>

#include "actors/simulator/simulation.h"

namespace es::actors::simulator {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending; constant up to the next one
};

struct Axes {
  std::string title, x, y;
  bool log_x = false;  // points with x <= 0 are put at the left edge
};

// Step lines, one for each series, with a legend.
std::string line_chart(const Axes& axes, const std::vector<Series>& series);

// One simulation in two figures.
struct Trial {
  std::string policy;
  std::string knob;  // its value, written beside the point; "": the policy has none
  double avg_jct_s = 0;
  double worst_rho = 0;
};
// Speed against fairness: a point for each trial, those of one policy joined in their order.
std::string fairness_chart(const std::vector<Trial>& trials);

// How many jobs ended within so long, in percent: one line for each result.
std::string jct_chart(const std::vector<SimulationResult>& results);
// Devices held by type, and all that compute, over time.
std::string allocation_chart(const SimulationResult& result);
// Jobs without any device over time: one line for each result.
std::string queue_chart(const std::vector<SimulationResult>& results);

}  // namespace es::actors::simulator
