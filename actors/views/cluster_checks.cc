#include "actors/views/cluster_checks.h"

#include <cstdlib>

#include "actors/views/render_text.h"

namespace es::actors {
namespace {

using Verdict = Finding::Verdict;

// Times in logs are read by people, so a smaller difference does no harm.
constexpr std::int64_t kClockDifferenceMs = 2000;

std::string seconds(std::int64_t milliseconds) {
  return fixed(std::abs(double(milliseconds)) / 1e3, 1) + " s " +
         (milliseconds < 0 ? "behind" : "ahead of");
}

Finding clock_finding(const std::string& whose, const std::string& of, std::int64_t ahead_ms,
                      std::int64_t uncertain_ms) {
  if (std::abs(ahead_ms) <= kClockDifferenceMs + uncertain_ms)
    return {Verdict::kFine, "clock", "The clock of " + whose + " agrees with " + of + "."};
  return {Verdict::kWarning, "clock",
          "The clock of " + whose + " is " + seconds(ahead_ms) + " " + of + ".",
          "Synchronise the clocks (chrony, systemd-timesyncd). Training does not depend on them, "
          "but the times in logs do."};
}

void check_node(const NodeView& node, Findings& found) {
  if (node.draining)
    found.push_back({Verdict::kWarning, "nodes", "Node " + node.name + " is about to end."});
  else if (!node.alive)
    found.push_back({Verdict::kWrong, "nodes", "Node " + node.name + " is lost.",
                     "Start easyscaled there again, or check the network and its firewall."});
  if (!node.checkpoint_problem.empty())
    found.push_back(
        {Verdict::kWrong, "nodes",
         "Jobs cannot be saved on node " + node.name + ": " + node.checkpoint_problem + ".",
         "Make STATE/checkpoints of the head writable there, or leave it out."});
  for (const DeviceView& device : node.devices)
    if (device.suspect_until_unix_ms != 0)
      found.push_back(
          {Verdict::kWarning, "nodes",
           "Device " + node.name + "/" + device.type + ":" + std::to_string(device.index) +
               " is set aside: " + device.suspect + ".",
           "Repair the node. It is tried again by itself, or at once after `esctl nodes "
           "--clear " +
               node.name + "/" + device.type + ":" + std::to_string(device.index) + "`."});
    else if (!device.suspect.empty())
      found.push_back({Verdict::kWrong, "nodes",
                       "Device " + node.name + "/" + device.type + ":" +
                           std::to_string(device.index) + " is suspect: " + device.suspect + ".",
                       "Test or replace it, then `esctl nodes --clear " + node.name + "/" +
                           device.type + ":" + std::to_string(device.index) + "`."});
  for (const std::string& other : node.cut_from)
    found.push_back({Verdict::kWrong, "nodes",
                     "Workers on the nodes " + node.name + " and " + other +
                         " cannot reach each other; no job uses both.",
                     "Check --address of both, and the network and firewall between them."});
  if (node.alive && node.clock_ahead_ms != 0)
    found.push_back(clock_finding("node " + node.name, "that of the head", node.clock_ahead_ms, 0));
}

}  // namespace

Findings check_cluster(const ClusterAnswer& answer) {
  Findings found;
  if (!answer.warning.empty())
    found.push_back({Verdict::kWrong, "head", "The head has a problem: " + answer.warning + ".",
                     "Make room on its disk, or repair it; it continues by itself."});
  found.push_back(clock_finding("the head", "that of this machine", answer.clock_ahead_ms,
                                answer.round_trip_ms));
  for (const NodeView& node : answer.nodes) check_node(node, found);
  return found;
}

}  // namespace es::actors
