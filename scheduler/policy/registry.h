#pragma once
// The policies by name.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/policy/common/policy.h"

namespace es::scheduler {

// The policy of a cluster whose operator has chosen none. It may suspend a running job, which costs
// only the pause. The policies `easyscale` and `fifo-*` do not suspend jobs to serve others first.
inline constexpr std::string_view kDefaultPolicy = "elastic-srtf";

struct PolicyOptions {
  // elastic-srtf: 0 for as fast as possible, 1 for as fair as possible (elastic_srtf.h). In [0, 1].
  double fairness = 0.5;
  // easyscale: every job uses one device type at a time, even if it may mix types.
  bool homogeneous = false;
};

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;    // one line
  bool holds_queues = false;   // a queue gets lent devices back as soon as its jobs wait
  bool has_fairness = false;   // reads PolicyOptions::fairness
  bool keeps_running = false;  // suspends no running job because another one comes first
};

// All policies, the default one first.
std::vector<PolicyInfo> policies();

// Error (usage): no policy has this name (the message lists them), or an option is out of range.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name,
                                            const PolicyOptions& options = {});

// Error (usage): there are queues, and the policy does not support them (the message lists the
// policies that do).
Status check_queues(std::string_view name, const std::vector<Queue>& queues);

// What a user has to know if the usage of queues decides which one comes first (fair_share.h), as a
// sentence; empty: nothing. REQUIRES: a policy has this name.
std::string share_warning(std::string_view name);

}  // namespace es::scheduler
