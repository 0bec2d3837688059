#pragma once
// ProgramFaults decides when the program of the job must be at fault for the ends of its processes:
// they ended in the same way on two nodes, or several times in a row on one, and no version was
// added meanwhile. Processes that were started before one of them ended are one try. A job is tried
// on one node again only while no other one can have it (cluster_scheduler/core/device_faults.h).
// Pure; not thread-safe.
#include <map>
#include <string>

#include "actors/base/protocol/core/instant.h"
#include "proto/base/result.h"

namespace es::actors::intra_job {

inline constexpr int kSameEndsMax = 3;  // on one node

class ProgramFaults {
 public:
  struct Process {
    std::string node;
    Instant started{};
    std::string way;   // equal for ends of the same kind
    std::string text;  // this end, for users
  };
  // A process has ended. Error: the job must fail.
  Status ended(const Process& process, Instant now) {
    std::map<std::string, Tries>& nodes = ends_[process.way];
    Tries& tries = nodes[process.node];
    if (tries.count == 0 || process.started > tries.last) {
      ++tries.count;
      tries.last = now;
    }
    if (nodes.size() > 1)
      return failure("its processes end in the same way on the nodes " + nodes.begin()->first +
                     " and " + nodes.rbegin()->first + "; the last one: " + process.text);
    if (tries.count >= kSameEndsMax)
      return failure("its processes have ended in the same way " + std::to_string(tries.count) +
                     " times on node " + process.node + "; the last one: " + process.text);
    return {};
  }
  bool empty() const { return ends_.empty(); }
  void made_progress() { ends_.clear(); }

 private:
  struct Tries {
    int count = 0;
    Instant last{};  // when the last one of them ended
  };
  std::map<std::string, std::map<std::string, Tries>> ends_;  // by way and node
};

}  // namespace es::actors::intra_job
