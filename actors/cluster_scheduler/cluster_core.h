#pragma once
// ClusterCore: the decisions of the ClusterScheduler. Which devices exist, who holds them, what
// each job asks for; after every event the policy is asked and its decisions are carried out.
//
// Pure: the same events give the same effects. No CAF, clock or I/O. Not thread-safe. An event of
// an unknown job or node, or one that says what is known already, changes nothing and is counted.
//
// How a device changes hands:
//
//   core -> job   Allocation with fewer devices
//   job           goes to a step boundary without it; its worker process ends and is reaped
//   job -> core   DeviceReleased
//   core -> other Allocation with one more
//
// So a device is granted only when it is free, and is free only when no process is left on it. A
// device of a lost node is lost, not free (device_pool.h).
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/cluster_scheduler/device_pool.h"
#include "proto/base/job_spec.h"
#include "scheduler/policy/policy.h"

namespace es::actors {
namespace cluster {

// --- events ------------------------------------------------------------------------------------

// A node says hello, for the first time or again. Device indices are 0 .. count - 1 of each type.
// The job that owned a device when the node was lost still owns it, until its DeviceReleased.
// `kept`: devices on which, after a restart of the head, a process of a job still runs.
struct NodeJoined {
  std::string node;
  DeviceSet devices;
  std::vector<std::pair<JobId, DeviceId>> kept = {};
};

struct NodeLost {
  std::string node;
};

// The daemon of this node is about to end: as if it were lost, but its processes live and are to be
// handed over. NodeJoined ends it.
struct NodeDraining {
  std::string node;
};

// A job exists from now on, and its place in the submit order is taken. It is given nothing before
// its first JobDemand.
struct JobAdmitted {
  JobId job;
  std::uint32_t min_devices = 1;  // >= 1
  std::uint32_t max_devices = 0;  // 0 = max_p
  // That it may be given without asking for them by name (JobDemand.exact); empty = all.
  std::vector<DeviceType> device_types;
  DeterminismLevel level = DeterminismLevel::kD1;
  std::uint32_t max_p = 1;  // ESTs; the policy never gives a job more devices than these
  // By an earlier head, which has judged what it can demand: its nodes may still be on their way.
  bool restored = false;
};

// What the job can use now; replaces its last demand. The job sends it when it starts, after it has
// adopted an Allocation, and whenever its wishes or measurements change.
struct JobDemand {
  JobId job;
  // Set: exactly these (empty: none at all), of whatever types and even more than max_p: a job may
  // warm up the devices of its next stage while it uses those of this one. What it holds beyond is
  // not called back; the job releases it once it can do without. Unset: its minimum, and the
  // proposals.
  std::optional<DeviceSet> exact;
  // Relative to the devices of the Allocation with this sequence (0: to none). They are void from
  // the next Allocation on, whether granted or not: the job then proposes anew. Ignored with
  // `exact`.
  std::vector<scheduler::Proposal> proposals;
  std::uint64_t sequence = 0;
};

// The worker process on this device has been reaped (or never was). Also for a device that the job
// gives back unasked, because its plan does not use it.
struct DeviceReleased {
  JobId job;
  DeviceId device;
};

// An audit has found that this device computes wrongly. Its job gives it back by DeviceReleased.
struct DeviceSuspected {
  DeviceId device;
  std::string reason;
};

// An operator has cleared it.
struct DeviceCleared {
  DeviceId device;
};

// The job is over, no process of it is left anywhere.
struct JobEnded {
  JobId job;
};

using Event = std::variant<NodeJoined, NodeLost, NodeDraining, JobAdmitted, JobDemand, DeviceReleased,
                           DeviceSuspected, DeviceCleared, JobEnded>;

// --- effects -----------------------------------------------------------------------------------

// To the job: all devices that it may hold from now on. It starts workers on new ones, drains those
// that are missing and sends DeviceReleased for each of these once its process is reaped.
// Idempotent: of several, the highest sequence counts.
struct Allocation {
  JobId job;
  std::uint64_t sequence = 0;  // of this job, from 1, growing
  // How many DeviceReleased of this job were handled before. A device that the job has released
  // since then is no longer its own, though it is listed; one released before is granted anew.
  std::uint64_t releases_seen = 0;
  std::vector<DeviceId> devices;  // ascending
  // A device that is missing is about to end: with nothing left, the job writes a checkpoint.
  bool urgent = false;
  bool operator==(const Allocation&) const = default;
};

// To the job: its demand cannot be met by the devices that exist: exact ones, or its minimum when
// it asks for that for the first time or after exact ones. The demand before it stays in force.
// Nothing is refused before the first node has joined: a restarted head has jobs before nodes.
struct DemandRefused {
  JobId job;
  std::string reason;  // e.g. "needs cpu-avx512:5, the cluster has cpu-avx512:4"
  bool operator==(const DemandRefused&) const = default;
};

using Effect = std::variant<DemandRefused, Allocation>;

}  // namespace cluster

class ClusterCore {
 public:
  explicit ClusterCore(std::unique_ptr<const scheduler::Policy> policy);

  // Effects in the order in which they are to be sent: a refusal, then allocations in submit order.
  std::vector<cluster::Effect> on(const cluster::Event& event);

  // For display.
  std::vector<DevicePool::NodeView> nodes() const { return pool_.nodes(); }
  // Devices of live nodes, by type.
  const DeviceSet& existing_devices() const { return pool_.existing_devices(); }
  // The devices that the job may hold now.
  const std::set<DeviceId>& held(const JobId& job) const { return pool_.held(job); }
  // Events that changed nothing because they did not fit.
  std::uint64_t ignored_events() const { return ignored_events_; }

  // No device has two owners,each owner is a known job, and all counts agree. Aborts otherwise.
  void check_invariants() const;

 private:
  struct Job {
    cluster::JobAdmitted admitted;
    std::optional<cluster::JobDemand> demand;  // the one in force
    std::uint64_t sequence = 0;                // of the last Allocation
    std::uint64_t releases_seen = 0;
    bool changed = false;  // held devices changed since then
    bool urgent = false;   // some of them are on a node that drains
  };

  void handle(const cluster::NodeJoined& event);
  void handle(const cluster::NodeLost& event);
  void handle(const cluster::NodeDraining& event);
  void handle(const cluster::JobAdmitted& event);
  void handle(const cluster::JobDemand& event);
  void handle(const cluster::DeviceReleased& event);
  void handle(const cluster::DeviceSuspected& event);
  void handle(const cluster::DeviceCleared& event);
  void handle(const cluster::JobEnded& event);

  Job* find(const JobId& job);
  std::string refuse(const Job& job, const cluster::JobDemand& demand) const;
  void schedule();
  scheduler::ClusterView view() const;
  scheduler::JobView view(const Job& job, const std::vector<DeviceType>& all_types) const;
  void send_changed_allocations();

  const std::unique_ptr<const scheduler::Policy> policy_;
  DevicePool pool_;
  std::map<std::uint64_t, Job> jobs_;  // by submit number
  std::map<JobId, std::uint64_t> submit_numbers_;
  std::uint64_t next_submit_number_ = 0;
  std::uint64_t ignored_events_ = 0;
  std::vector<cluster::Effect> effects_;  // of the event being handled
};

}  // namespace es::actors
