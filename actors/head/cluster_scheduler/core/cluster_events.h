#pragma once
// The events that go into ClusterCore and the effects that come out. The messages between jobs and
// the cluster scheduler are in protocol/core/job_cluster.h. Times are seconds from an origin that
// the caller chooses. Plain values without locks.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/base/protocol/core/job_cluster.h"
#include "actors/head/cluster_scheduler/core/device_pool.h"
#include "proto/base/job_spec.h"
#include "scheduler/policy/common/policy.h"

namespace es::actors::cluster {

// --- events ------------------------------------------------------------------------------------

// A node said hello, for the first time or again. Device indices are 0 .. count - 1 of each type. A
// job that owned a device when the node was lost owns it until its DeviceReleased. `kept`: devices
// on which a process of a job still runs after a restart of the head.
struct NodeJoined {
  std::string node;
  DeviceSet devices;
  std::vector<std::pair<JobId, DeviceId>> kept = {};
  NodePlace place = {};
  MemoryByType memory = {};
};

struct NodeLost {
  std::string node;
};

// The daemon of this node is about to end. The node is treated as lost, but its processes live and
// are to be handed over. NodeJoined ends this state.
struct NodeDraining {
  std::string node;
};

// The node will be gone, or shall be empty. From now on no job is given more of its devices, and at
// leave_s the jobs on it have to leave, as with NodeDraining. NodeStays ends this state.
struct NodeVacated {
  std::string node;
  double leave_s = 0;
};

// The jobs may use the node again, or it is gone and one of this name is a new one.
struct NodeStays {
  std::string node;
};

// A job exists and has its place in the submit order. It is given nothing before its first Demand.
struct JobAdmitted {
  JobId job;
  // min_devices >= 1. An exact demand may name device types that are not in device_types. The
  // deadline counts from submit_s.
  ResourceSpec resources{};
  DeterminismLevel level = DeterminismLevel::kD1;
  std::uint32_t max_p = 1;           // ESTs; the policy never gives a job more devices than this
  scheduler::WorkerMemory memory{};  // a device without room for a worker is not given
  // Admitted by an earlier head, which has judged its demand. Its nodes may not have returned yet.
  bool restored = false;
  // For the policy; see scheduler/policy/common/policy.h.
  std::optional<double> submit_s;  // on the clock of the events; nullopt: now
  double start_seconds = 1;        // assumed time without progress at the first start
  double rescale_seconds = 0.5;    // the same for later changes, until the job has measured one
  double suspend_seconds = 3;      // the same for a suspension and the restart after it
};

// A message of a job. DeviceSuspected is an event of its own, because it also comes from the
// journal of the head.
using JobMessage = std::variant<protocol::Demand, protocol::JobRefusals, protocol::BoundToType,
                                protocol::DeviceReleased, protocol::DeviceFailed,
                                protocol::DevicesWork, protocol::JobEnded>;
struct FromJob {
  JobId job;
  JobMessage message;
};

// An operator has cleared the device. If tries to use it had failed, its node is cleared, too, and
// its links to others.
struct DeviceCleared {
  DeviceId device;
};

// A load outside of EasyScale takes `count` devices of a type until ClaimEnded. A claim with a time
// is a reservation, and ends by itself. With a queue it takes no devices: the queue is guaranteed
// that many more, also above it in the tree, so its jobs get them as soon as they want them.
// check_claim() has accepted the claim, in this head or in an earlier one.
struct ClaimMade {
  std::string name;
  DeviceType type;
  std::uint32_t count = 0;  // > 0
  double begin_s = -scheduler::kNever.count();
  double end_s = scheduler::kNever.count();  // > begin_s
  std::string queue = {};                    // a leaf; empty: a load outside of EasyScale
  bool operator==(const ClaimMade&) const = default;
};

// A claim changes its number of devices. Devices beyond the new number become free at once.
struct ClaimResized {
  std::string name;
  std::uint32_t count = 0;  // > 0
};

struct ClaimEnded {
  std::string name;
};

// What a queue has used, from the journal of an earlier head: device-seconds, as of `age_s` ago.
struct UsageRestored {
  std::string queue;
  double device_seconds = 0;
  double age_s = 0;
};

using Event = std::variant<NodeJoined, NodeLost, NodeDraining, NodeVacated, NodeStays, JobAdmitted,
                           FromJob, protocol::DeviceSuspected, DeviceCleared, ClaimMade,
                           ClaimResized, ClaimEnded, UsageRestored>;

// --- effects -----------------------------------------------------------------------------------

// A message to a job. Of its demands the scheduler refuses those that cannot be met. An exact
// demand is compared with the devices that exist. The minimum is judged when the job first asks for
// it, or asks for it after an exact demand, and includes the devices of nodes that are away. The
// previous demand stays in force. Nothing is refused before the first node has joined, because a
// restarted head knows its jobs before its nodes.
struct ToJob {
  JobId job;
  std::variant<protocol::DemandRefused, protocol::Allocation> message;
  bool operator==(const ToJob&) const = default;
};

using Effect = ToJob;

struct Limits {
  // completed_queues(); empty: all devices are common.
  std::vector<scheduler::Queue> queues{};
  // Half-life of the usage by which queues are ordered (fair_share.h); 0: they are not, and what no
  // guarantee needs is divided by weight at every moment instead.
  double share_half_life_s = 0;
  // What devices cost; empty: nothing.
  scheduler::Prices prices{};
  // Limit of all claims together, for each type; nullopt: all devices that exist.
  std::optional<DeviceSet> claims{};
  // More nodes may join, so what needs more devices than there are waits.
  bool may_grow = false;
};

}  // namespace es::actors::cluster
