#pragma once
// Jobs that wait although free devices suffice for them, and why. Pure functions of values;
// thread-safe. They look at all jobs, so they serve people and tests, and no decision.
#include <vector>

#include "scheduler/policy/common/policy.h"

namespace es::scheduler {

struct WaitingJob {
  std::size_t slot = 0;
  std::optional<Wait> why;  // nullopt: no rule keeps it waiting
};

// The jobs that fit into the free devices: what the policy gives them at the least is free, and
// their queues may use it. `view` is that of the decision, of which `decided` is the result, or a
// later one in which the grants are carried out and `decided.grants` is empty.
std::vector<WaitingJob> waiting_beside_free(const ClusterView& view, const Decisions& decided,
                                            StartsWith starts_with);

// Checks the rules `start` and `name` of policy.h. The error names the job.
Status check_idle(const ClusterView& view, const Decisions& decided, StartsWith starts_with);

}  // namespace es::scheduler
