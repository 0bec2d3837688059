#pragma once
// Why jobs wait although free devices suffice for them, as text. Pure functions, part of
// ClusterCore. Times are seconds on the clock of the events.
#include <functional>
#include <map>
#include <string>

#include "proto/base/ids.h"
#include "scheduler/policy/common/policy.h"

namespace es::actors {

// What a job waits for, by which rule, and when that is expected; "" if it is not known.
struct WaitText {
  std::string what, when;
};

// The jobs that wait by a rule of the policy. Only jobs that `shows` allows are named.
std::map<JobId, WaitText> policy_waits(const scheduler::ClusterView& view,
                                       const scheduler::Decisions& decided,
                                       scheduler::StartsWith starts_with,
                                       const std::function<bool(const JobId&)>& shows);

// What keeps a job from free devices before a policy sees it.
struct JobLimits {
  double price_again_s = 0;  // when its devices are chosen anew by their prices; infinity: never
  bool by_faults = false;
  double pause_end_s = 0;  // when the next pause of a device, a node or a link ends
  bool by_memory = false;  // some devices have no room for its workers
};
WaitText limits_text(const scheduler::JobView& view, const JobLimits& limits, double now_s);

}  // namespace es::actors
