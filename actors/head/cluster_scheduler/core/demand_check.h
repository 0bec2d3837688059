#pragma once
// Which demands of a job can never be met. A pure function, part of ClusterCore.
#include <optional>

#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "actors/head/cluster_scheduler/core/device_pool.h"
#include "proto/base/result.h"

namespace es::actors {

// `before`: the demand of the job that is in force; nullopt: none. Error (refused): the demand can
// never be met by these queues, or by these devices if the cluster may not grow.
Status check_demand(const cluster::JobAdmitted& job, const std::optional<protocol::Demand>& before,
                    const protocol::Demand& demand, const DevicePool& pool,
                    const cluster::Limits& limits);

}  // namespace es::actors
