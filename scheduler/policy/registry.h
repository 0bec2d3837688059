#pragma once
// The policies by name.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/policy/policy.h"

namespace es::scheduler {

// The policy of a cluster whose operator chose none. It may suspend a running job, which the others
// of policies() but the preemptive ones never do; nothing but the pause is lost by that.
inline constexpr std::string_view kDefaultPolicy = "elastic-srtf";

struct PolicyOptions {
  // elastic-srtf: 0 = as fast as possible, 1 = as fair as possible (elastic_srtf.h). In [0, 1].
  double fairness = 0.5;
  // easyscale: every job uses one device type at a time, whatever it may mix.
  bool homogeneous = false;
};

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;   // one line
  bool holds_quotas = false;  // a tenant gets lent devices back as soon as its jobs wait
  bool has_fairness = false;  // reads PolicyOptions::fairness
};

// All policies, ours first.
std::vector<PolicyInfo> policies();

// Error (usage): no policy has this name (the message lists them), or an option is out of range.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name,
                                            const PolicyOptions& options = {});

// Error (usage): there are quotas, and the policy would not hold them (the message lists those that
// do).
Status check_quotas(std::string_view name, const std::vector<Quota>& quotas);

}  // namespace es::scheduler
