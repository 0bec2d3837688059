#pragma once
// What the policy sees of one job: how its view begins, what a report of the job changes, and what
// is expected of a change until it reports. Pure functions, part of ClusterCore. Times are seconds
// on the clock of the events.
#include <cstdint>

#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "scheduler/policy/common/policy.h"

namespace es::actors {

// The view of a job that has just made its first demand. REQUIRES: submit_s is set.
scheduler::JobView first_view(const cluster::JobAdmitted& admitted, std::uint64_t number,
                              const std::vector<scheduler::Queue>& queues, double now_s);

// The job has just reported its progress.
void report(scheduler::JobView& view, const protocol::JobProgress& progress, double now_s);

// The job is given these devices. Predicts the effect until it reports: the job stands still for
// the usual time of a change, and then has the speed that the model predicts.
void expect_change(scheduler::JobView& view, DeviceSet held, double now_s);

// A grant adds at most max_p devices to what the job owns, so it is allowed only if the job owns at
// most max_p. Policies give devices to a job that holds nothing even if it is not settled. Such a
// job is shown as one that wants none. `returning`: devices that it still has to release.
void limit_holding(scheduler::JobView& view, std::uint32_t returning);

}  // namespace es::actors
