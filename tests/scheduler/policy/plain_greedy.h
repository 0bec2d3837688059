#pragma once
// The rule of `easyscale` (greedy.h) word by word, looking at every job: what the policy, which
// does not, must decide.
#include "scheduler/policy/common/policy.h"

namespace es::test {

scheduler::Decisions decide_plainly(const scheduler::ClusterView& view, bool homogeneous);

}  // namespace es::test
