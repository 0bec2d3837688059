#pragma once
// DeviceTrials: devices on which jobs cannot work, as DeviceFaults judges them, and what follows
// for the pool and for what a job can be given. A part of ClusterCore, pure.
//
// The pool withholds what is set aside, so a policy sees neither. What only one job is not given,
// what has too little memory for it, and nodes that cannot reach each other, are no matter of a
// policy either: the job is shown as one that wants no more than it can be given.
//
// Times are seconds on the clock of the events. Not thread-safe.
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "actors/head/cluster_scheduler/core/device_faults.h"
#include "actors/head/cluster_scheduler/core/device_pool.h"
#include "scheduler/policy/common/policy.h"

namespace es::actors {

class DeviceTrials {
 public:
  // The pool outlives the object.
  explicit DeviceTrials(DevicePool& pool) : pool_(pool) {}

  // A job as far as it matters here.
  struct Candidate {
    const JobId& job;
    bool suspendable = true;
    std::vector<DeviceType> types;  // on which it could be tried
    // Whether a device of this type of the node has too little memory; null: none has.
    std::function<bool(const std::string& node, const DeviceType& type)> lacks_room;
  };
  void failed(const Candidate& candidate, const protocol::DeviceFailed& message, double now_s);
  void work(const JobId& job, const std::vector<DeviceId>& devices);
  void ended(const JobId& job) { bring_back(faults_.ended(job)); }
  // Its daemon was started again, or an operator has cleared it.
  void forgive(const std::string& node);

  // As those of ClusterCore.
  std::vector<std::pair<std::string, double>> cut_from(const std::string& node, double now_s) const;
  bool is_set_aside(const DeviceId& device, double now_s) const;
  bool awaits_proof() const { return !faults_.empty(); }
  // When the next pause of a device, a node, a job or a link ends; infinity: none runs.
  double next_end_s(double now_s) const;

  // Whether the job cannot be given every free device of its types.
  bool is_limited(const JobId& job, double now_s) const;
  // The jobs that are limited because of themselves, ascending.
  std::vector<JobId> failed_jobs() const { return faults_.failed_jobs(); }
  // Whether every job is limited.
  bool has_cuts(double now_s) const;
  // How the devices of the job are chosen. Valid until the next change of this object.
  DevicePool::Wish wish_of(const Candidate& candidate, double now_s) const;
  // Shows a limited job as one that wants no more than it can be given: a grant that the pool could
  // not carry out would be decided again and again, and would keep the devices from other jobs.
  void limit(const Candidate& candidate, scheduler::JobView& view, double now_s) const;

 private:
  void bring_back(const std::vector<DeviceFaults::Back>& back);

  DevicePool& pool_;
  DeviceFaults faults_;
};

}  // namespace es::actors
