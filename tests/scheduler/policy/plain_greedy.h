#pragma once
// The rule of `easyscale` (greedy.h) in its simplest form, which looks at every job. The policy
// does not look at every job, and must decide the same.
#include "scheduler/policy/common/policy.h"

namespace es::test {

scheduler::Decisions decide_plainly(const scheduler::ClusterView& view, bool homogeneous);

}  // namespace es::test
