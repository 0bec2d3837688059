#pragma once
// Whether workers of a job fit into the memory of the devices of a cluster, and what follows for
// the job. Pure functions, asked before the job is accepted.
#include <span>

#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "scheduler/plans/worker_memory.h"

namespace es::actors::cluster {

// Returns the job with what its memory decides: shard.state = "auto" becomes "on" if workers fit
// only so and the job may divide its state; otherwise it stays, which means whole state on every
// worker. resources.min_devices becomes the fewest workers that fit, if it is less. `devices`:
// those of the cluster; empty: they are not known yet. Error (refused), unless the cluster may
// grow: workers fit on no placement that the job allows, or not on those of one of its stages; the
// text says how many bytes are missing.
Result<JobSpec> fit_into_memory(JobSpec spec, scheduler::WorkerMemory memory, bool may_divide,
                                std::span<const scheduler::RoomyDevices> devices, bool may_grow);

// Error (refused): these devices have no room for the workers of the job.
Status check_room(const scheduler::WorkerMemory& memory, const DeviceSet& exact,
                  std::span<const scheduler::RoomyDevices> devices);

}  // namespace es::actors::cluster
