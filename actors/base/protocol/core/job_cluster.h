#pragma once
// The messages between a job and the cluster scheduler as plain values. Both cores use them, and
// protocol/wire/job_cluster_codec.h has their form as Cap'n Proto (cluster.capnp). An envelope
// names the job. Plain values without locks.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/base/protocol/core/job_plans.h"
#include "proto/base/device.h"
#include "proto/base/device_id.h"
#include "scheduler/grants/refusal.h"
#include "scheduler/plans/proposal.h"

namespace es::actors::protocol {

// --- cluster scheduler -> job ------------------------------------------------------------------

// The complete list of devices that the job may hold from now on. The job starts workers on new
// ones, leaves the missing ones, and sends DeviceReleased for each of these when its process was
// reaped. Idempotent: of several allocations the highest sequence counts, and an older one is
// ignored. After a restart of the head the list omits a device on which a process runs that the
// job's journal does not know, until that process is reaped.
struct Allocation {
  std::uint64_t sequence = 0;  // counts the allocations of this job, from 1
  // The number of DeviceReleased messages of this job that the cluster scheduler had handled. A
  // device that the job has released since then no longer belongs to it, although it is listed. A
  // device that it released before is granted again.
  std::uint64_t releases_seen = 0;
  std::vector<DeviceId> devices{};  // the cluster scheduler sends them ascending
  // The devices that are missing from the list are about to end. If the job has none left, it
  // writes a checkpoint and waits.
  bool urgent = false;
  // What each of the devices costs in an hour, in their order; empty: they cost nothing.
  std::vector<double> prices_per_hour{};
  bool operator==(const Allocation&) const = default;
};

// The last Demand can never be met by this cluster. The demand before it stays in force.
struct DemandRefused {
  std::string reason;  // such as "needs cpu-avx512:5, the cluster has cpu-avx512:4"
  bool operator==(const DemandRefused&) const = default;
};

// --- job -> cluster scheduler ------------------------------------------------------------------

// The progress of a job at the time of its demand, for the policy.
struct JobProgress {
  double total_steps = std::numeric_limits<double>::infinity();      // local steps of the whole job
  double remaining_steps = std::numeric_limits<double>::infinity();  // local steps
  double steps_per_second = 0;  // local steps per second on the current devices; 0: it stands
  double rescale_seconds = 0;   // cost of a change of devices, measured or assumed; 0: not known
  double suspend_seconds = 0;   // the same of a suspension and the restart after it
  bool started = false;         // the job has run before
  bool adopted = true;          // it uses exactly the devices that it was last given
  std::vector<Capability> capabilities{};    // ascending by type
  std::vector<scheduler::SyncPoint> sync{};  // what it loses by communication, ascending
  double budget_left = std::numeric_limits<double>::infinity();  // what it may still spend, >= 0
  bool operator==(const JobProgress&) const = default;
};

// What the job can use now. Replaces its last demand. A job sends it when it starts, after it has
// adopted an Allocation, and whenever its wishes or measurements change.
struct Demand {
  // If set: the job wants exactly these devices (empty: none), of any types and even more than
  // max_p, because a job may warm up the devices of its next stage while it uses those of the
  // current one. What it holds in excess is not called back; the job releases it when it can. If
  // not set: the job wants its minimum and the proposals.
  std::optional<DeviceSet> exact{};
  // Proposals are relative to the devices of the Allocation with this sequence (0: to no devices).
  // They become void with the next Allocation, whether they were granted or not, and the job
  // proposes again. Ignored if `exact` is set.
  std::vector<scheduler::Proposal> proposals{};
  std::uint64_t sequence = 0;
  std::optional<JobProgress> progress{};  // nullopt: unchanged
  bool operator==(const Demand&) const = default;
};

// The complete list of device sets that the job refuses from now on (refusal.h). Its proposals
// become void, because it is about to give devices back or to propose others.
struct JobRefusals {
  std::vector<scheduler::Refusal> refusals;  // their capabilities are not sent
  bool operator==(const JobRefusals&) const = default;
};

// The job can use only devices of this type from now on, whatever its specification allows. Below
// level D2 the kernels of the type on which a job began decide its bits.
struct BoundToType {
  DeviceType type;
  bool operator==(const BoundToType&) const = default;
};

// The worker process on this device was reaped, or never existed. A job also sends this for a
// device that it gives back without being asked, because its plan does not use it.
struct DeviceReleased {
  DeviceId device;
  bool operator==(const DeviceReleased&) const = default;
};

// An audit found that this device computes wrongly, so it must not be given to any job until an
// operator clears it. Its job releases it like any other device, after its process has ended.
struct DeviceSuspected {
  DeviceId device;
  std::string reason;
  bool operator==(const DeviceSuspected&) const = default;
};

// A try of the job to use this device has failed: its process ended, or said that it cannot go on,
// before it had computed anything, or the process cannot reach one on another node. The job gives
// the device back. Whose fault it is, and how long the device is set aside, is the decision of the
// cluster scheduler (device_faults.h).
struct DeviceFailed {
  enum class Fault : std::uint8_t {
    kUnknown,   // of the device, of its node or of the job
    kNode,      // the job had no part in it: its node could not even start the process
    kLink,      // between the nodes of `device` and `other`
    kUnsuited,  // no fault: processes of this node would give the job other bits
  };
  DeviceId device;
  std::string reason;
  Fault fault = Fault::kUnknown;
  std::string other{};  // a node
  bool operator==(const DeviceFailed&) const = default;
};

// The job has computed a version on these devices together, with new processes on some of them.
struct DevicesWork {
  std::vector<DeviceId> devices;
  bool operator==(const DevicesWork&) const = default;
};

// Why the job does not leave the devices that were called back.
struct DevicesKept {
  std::string reason;  // empty: it leaves them, or none were called back
  bool operator==(const DevicesKept&) const = default;
};

// The job is over, and none of its processes is left.
struct JobEnded {
  bool operator==(const JobEnded&) const = default;
};

}  // namespace es::actors::protocol
