#pragma once
// Whether a cluster can ever run a job. A pure function, asked before the job is accepted.
#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "proto/base/device.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::cluster {

// `existing`: the devices of the cluster; empty: they are not known yet. Then, and if the cluster
// may grow, only the queue is checked. Error: of the queue as in check_queue_of_job(); refused: a
// stage or the minimum needs more devices than exist.
Status check_fits(const JobSpec& spec, const Limits& limits, const DeviceSet& existing);

}  // namespace es::actors::cluster
