#pragma once
// ProgramFaults decides when the program of the job must be at fault for the ends of its processes:
// they ended in the same way on two nodes, or several times in a row on one, and no version was
// added meanwhile. A job is tried on one node again only while no other one can have it
// (cluster_scheduler/core/device_faults.h). Pure; not thread-safe.
#include <map>
#include <string>

namespace es::actors::intra_job {

inline constexpr int kSameEndsMax = 3;  // on one node

class ProgramFaults {
 public:
  // A process has ended on this node. `way`: equal for ends of the same kind; `text`: this one, for
  // users. Returns why the job must fail; empty: it goes on.
  std::string ended(const std::string& node, const std::string& way, const std::string& text) {
    std::map<std::string, int>& nodes = ends_[way];
    const int here = ++nodes[node];
    if (nodes.size() > 1)
      return "its processes end in the same way on the nodes " + nodes.begin()->first + " and " +
             nodes.rbegin()->first + "; the last one: " + text;
    if (here >= kSameEndsMax)
      return "its processes have ended in the same way " + std::to_string(here) +
             " times on node " + node + "; the last one: " + text;
    return {};
  }
  bool empty() const { return ends_.empty(); }
  void made_progress() { ends_.clear(); }

 private:
  std::map<std::string, std::map<std::string, int>> ends_;  // by way and node
};

}  // namespace es::actors::intra_job
