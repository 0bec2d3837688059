#pragma once
// Turns targets (targets.h) into decisions that keep the rules of policy.h. Devices that are not
// free yet are called back now and are granted by a later decision; that decision finds the same
// targets, because called-back devices stay in the supply. Pure functions; thread-safe.
#include <cstddef>
#include <span>

#include "scheduler/policy/common/targets.h"

namespace es::scheduler {

// The decisions that lead from the devices held to the targets.
Decisions carry_out(const ClusterTable& table, const Targets& targets);
// The same for a caller that knows which jobs hold devices and may have no target (`leaving`
// contains their slots), and that has ranked all jobs whose target may differ from what they hold.
// The cost depends only on these jobs.
Decisions carry_out(const ClusterTable& table, const Targets& targets,
                    std::span<const std::size_t> leaving);

}  // namespace es::scheduler
