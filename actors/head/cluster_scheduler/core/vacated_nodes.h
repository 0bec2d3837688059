#pragma once
// The nodes that jobs have to leave by a time. A part of ClusterCore, pure. Times are seconds on
// the clock of the events. Not thread-safe.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/seconds.h"

namespace es::actors {

class VacatedNodes {
 public:
  // A repeated call only moves the time: a node that was emptied stays so.
  void vacate(const std::string& node, double leave_s) { nodes_[node].leave_s = leave_s; }
  // The jobs may use the node again. Returns whether it had been emptied; nullopt: it was not to be
  // left.
  std::optional<bool> stay(const std::string& node) {
    const auto at = nodes_.find(node);
    if (at == nodes_.end()) return {};
    const bool was_emptied = at->second.is_empty;
    nodes_.erase(at);
    return was_emptied;
  }
  // The daemon of the node goes away. If it comes back, the node has to be emptied again, and until
  // then stay() must not bring its devices back.
  void forget_emptied(const std::string& node) {
    if (const auto at = nodes_.find(node); at != nodes_.end()) at->second.is_empty = false;
  }
  // The nodes whose time has come, by name. The caller tells the jobs to leave those that are live,
  // and calls emptied() for them.
  std::vector<std::string> due(double now_s) const {
    std::vector<std::string> nodes;
    for (const auto& [node, vacated] : nodes_)
      if (vacated.leave_s <= now_s) nodes.push_back(node);
    return nodes;
  }
  void emptied(const std::string& node) { nodes_.at(node).is_empty = true; }
  // The next time at which one is due; infinity: there is none.
  double next_s(double now_s) const {
    double next_s = scheduler::kNever.count();
    for (const auto& [node, vacated] : nodes_)
      if (vacated.leave_s > now_s) next_s = std::min(next_s, vacated.leave_s);
    return next_s;
  }

 private:
  struct Vacated {
    double leave_s = 0;
    bool is_empty = false;  // the jobs on it were told to leave, and the pool takes it for lost
  };
  std::map<std::string, Vacated> nodes_;
};

}  // namespace es::actors
