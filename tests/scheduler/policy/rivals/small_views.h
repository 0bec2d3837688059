#pragma once
// Small clusters for the tests of policies whose answers are computed by hand.
#include <string>

#include "scheduler/policy/common/policy.h"

namespace es::test {

// A cluster of these devices, all free.
inline scheduler::ClusterView small_view(const char* devices, double now_s) {
  scheduler::ClusterView view;
  view.total = view.free = *parse_device_set(devices);
  view.now = scheduler::Seconds(now_s);
  return view;
}

// Adds a job with max_p = max_devices = width that makes one local step per second on every device
// of these types, and has this many steps left. It waits.
inline scheduler::JobView& add_job(scheduler::ClusterView& view, std::uint32_t width,
                                   double steps_left,
                                   const scheduler::Capabilities& speeds = {{{"gpu"}, 1.0}}) {
  scheduler::JobView job;
  job.number = view.jobs.size();
  job.id = "j" + std::to_string(job.number);
  job.submitted = job.work.as_of = view.now;
  job.max_p = job.max_devices = width;
  job.capabilities = speeds;
  for (const auto& [type, speed] : speeds) job.types.push_back(type);
  job.work.total_steps = job.work.remaining_steps = steps_left;
  view.jobs.push_back(job);
  return view.jobs.back();
}

// The job holds these devices, which are not free any more, and runs on them.
inline void hold(scheduler::ClusterView& view, scheduler::JobView& job, const char* devices,
                 double speed) {
  job.held = *parse_device_set(devices);
  for (const DeviceCount& c : job.held.counts) view.free.remove(c.type, c.count);
  job.started = true;
  job.work.steps_per_s = speed;
}

// "gpu:2", or "" for a job that is granted nothing.
inline std::string granted(const scheduler::Decisions& decisions, std::size_t slot) {
  for (const scheduler::Change& grant : decisions.grants)
    if (grant.slot == slot) return grant.devices.text();
  return "";
}

inline std::string taken(const scheduler::Decisions& decisions, std::size_t slot) {
  for (const scheduler::Change& shrink : decisions.shrinks)
    if (shrink.slot == slot) return shrink.devices.text();
  return "";
}

}  // namespace es::test
