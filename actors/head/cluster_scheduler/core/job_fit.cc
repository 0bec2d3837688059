#include "actors/head/cluster_scheduler/core/job_fit.h"

#include <string>

namespace es::actors::cluster {

Status check_fits(const JobSpec& spec, const Limits& limits, const DeviceSet& existing) {
  ES_RETURN_IF_ERROR(
      scheduler::check_queue_of_job(limits.queues, spec.resources.queue, spec.resources.tenant));
  if (limits.may_grow || existing.empty()) return {};
  for (const Stage& stage : spec.stages)
    if (!existing.contains(stage.devices))
      return refused("stages: needs " + stage.devices.text() + ", the cluster has " +
                     existing.text());
  if (spec.stages.empty() && spec.resources.min_devices > existing.total())
    return refused("resources.min_devices = " + std::to_string(spec.resources.min_devices) +
                   ": the cluster has " + existing.text());
  return {};
}

}  // namespace es::actors::cluster
