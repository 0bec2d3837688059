#pragma once
// The rule of `easyscale`, written a second time from its text and not from its code: an oracle for
// random tests. It is slow and simple. It handles devices one by one, looks at every job for each
// of them, and shares nothing with the policy but the types of its arguments.
//
// The rule of the paper (SC '23): each job proposes how many more devices of a type would make it
// how much faster; the cluster scheduler grants the proposal with the highest speedup for each
// device first, and of equal ones the one with more devices. EasyScale adds that every job first
// gets what it must have (scheduler/policy/greedy/greedy.h).
#include "scheduler/policy/common/policy.h"

namespace es::test {

// With `homogeneous`, no job uses more than one device type. Decisions are in submit order.
scheduler::Decisions plain_greedy_decisions(const scheduler::ClusterView& view, bool homogeneous);

}  // namespace es::test
