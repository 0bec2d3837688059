#include "actors/head/cluster_scheduler/core/demand_check.h"

#include <algorithm>
#include <string>

#include "actors/head/cluster_scheduler/core/job_bounds.h"
#include "actors/head/cluster_scheduler/core/memory_fit.h"
#include "scheduler/model/device_sets.h"

namespace es::actors {
namespace {

using cluster::JobAdmitted;

// "cpu-avx512:5 and cpu-avx2:3": the counts of these types in `set`, including zeros.
std::string counts_text(const DeviceSet& set, const std::vector<DeviceType>& types) {
  std::string text;
  for (const DeviceType& type : types)
    text += (text.empty() ? "" : " and ") + type.name + ":" + std::to_string(set.count_of(type));
  return text;
}

// Error (refused): exactly these devices are not available.
Status check_exact(const DeviceSet& exact, const DeviceSet& existing) {
  const std::vector<DeviceType> types = types_of(scheduler::beyond(exact, existing));
  if (types.empty()) return {};
  return refused("needs " + counts_text(exact, types) + ", the cluster has " +
                 counts_text(existing, types));
}

// Error (refused): the queue of a job can never have what the job needs: these devices, or its
// minimum.
Status check_queue(const JobAdmitted& job, const std::optional<DeviceSet>& exact,
                   const std::vector<scheduler::Queue>& queues) {
  const std::string name =
      scheduler::queue_of_job(queues, job.resources.queue, job.resources.tenant);
  if (name.empty()) return {};
  std::uint64_t possible = 0;
  for (const DeviceType& type : exact ? types_of(*exact) : job.resources.device_types) {
    const std::uint64_t most = scheduler::most_of_queue(queues, name, type);
    if (exact && exact->count_of(type) > most)
      return refused("needs " + counts_text(*exact, {type}) + ", and queue " + name +
                     " may have at most " + std::to_string(most));
    possible = mixes_types(job) ? possible + most : std::max(possible, most);
  }
  // A job that may use every type is not judged: a type without a limit may join the cluster later.
  if (exact || job.resources.device_types.empty()) return {};
  if (possible >= job.resources.min_devices) return {};
  return refused("needs min_devices = " + std::to_string(job.resources.min_devices) +
                 ", and queue " + name + " may have at most " + std::to_string(possible));
}

// Error (refused): the job cannot even start.
Status check_minimum(const JobAdmitted& job, const DeviceSet& existing) {
  const std::vector<DeviceType> types = usable_types(job, types_of(existing));
  std::uint32_t possible = 0;
  for (const DeviceType& type : types) {
    const std::uint32_t count = existing.count_of(type);
    possible = mixes_types(job) ? possible + count : std::max(possible, count);
  }
  const std::uint32_t least = job.resources.min_devices;
  if (possible >= least) return {};
  return refused("needs min_devices = " + std::to_string(least) +
                 (mixes_types(job) ? " devices" : " devices of one type") + ", the cluster has " +
                 (types.empty() ? "none" : counts_text(existing, types)));
}

}  // namespace

Status check_demand(const JobAdmitted& job, const std::optional<protocol::Demand>& before,
                    const protocol::Demand& demand, const DevicePool& pool,
                    const cluster::Limits& limits) {
  const bool judged_before = job.restored && !before;
  // Before the first device has joined, nothing is known about the devices: the node of a head may
  // have none. A restored job was judged by an earlier head, and its nodes may not have returned
  // yet.
  if (!pool.knows_devices() || judged_before) return {};
  ES_RETURN_IF_ERROR(check_queue(job, demand.exact, limits.queues));
  if (limits.may_grow) return {};
  if (demand.exact) {
    ES_RETURN_IF_ERROR(check_exact(*demand.exact, pool.existing_devices()));
    return cluster::check_room(job.memory, *demand.exact, pool.kinds());
  }
  // The minimum is judged once. A job whose devices were lost later waits for their return.
  const bool was_elastic = before && !before->exact;
  if (was_elastic) return {};
  Status possible = check_minimum(job, pool.existing_devices());
  if (possible.ok()) return {};
  DeviceSet known;  // nodes that are away may return
  for (const DevicePool::NodeView& node : pool.nodes())
    for (const DevicePool::DeviceView& device : node.devices) known.add(device.id.type, 1);
  return check_minimum(job, known).ok() ? Status() : possible;
}

}  // namespace es::actors
