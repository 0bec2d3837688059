#pragma once
// Charts of simulations as SVG texts. Pure.
#include <string>
#include <vector>

#include "actors/sim/report/groups.h"
#include "actors/sim/shell/simulation.h"

namespace es::actors::simulator {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending; y is constant up to the next point
};

struct Axes {
  std::string title, x, y;
  bool log_x = false;  // points with x <= 0 are drawn at the left edge
};

// Draws step lines, one for each series, with a legend.
std::string line_chart(const Axes& axes, const std::vector<Series>& series);

// Draws points that straight lines connect, one line for each series, with a legend.
std::string point_chart(const Axes& axes, const std::vector<Series>& series);

// One simulation, summarised in two figures.
struct Trial {
  std::string policy;
  std::string knob;  // value of its option, written beside the point; "" if the policy has none
  double avg_jct_s = 0;
  double worst_rho = 0;
};
// Draws speed against fairness: a point for each trial. The points of one policy are connected in
// their order.
std::string fairness_chart(const std::vector<Trial>& trials);

// Draws the percentage of jobs that ended within a time: one line for each result.
std::string jct_chart(const std::vector<const SimulationResult*>& results);
// Draws the devices held, by type, and all devices that compute, over time.
std::string allocation_chart(const SimulationResult& result);
// Draws the devices that groups hold over time: for each kind with several groups its name and a
// chart. Of many groups those with the most devices are drawn, and the others together.
std::vector<std::pair<std::string, std::string>> group_charts(
    const std::vector<GroupSeries>& groups, const std::string& policy);
// Draws the number of jobs without any device over time: one line for each result.
std::string queue_chart(const std::vector<const SimulationResult*>& results);

}  // namespace es::actors::simulator
