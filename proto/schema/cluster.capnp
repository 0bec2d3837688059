@0xc4f3a2be77e14004;
# Inside the head: cluster scheduler <-> intra-job scheduler <-> companion. These never cross a
# process; they are Cap'n Proto messages so that a recorded history can be replayed and compared.

using Cxx = import "/capnp/c++.capnp";
using Node = import "node.capnp";
$Cxx.namespace("es::wire");

struct DeviceCount {
  type @0 :Text;
  count @1 :UInt32;
}

struct Demand {
  # Intra-job scheduler -> cluster scheduler: what the job can use now. Replaces its last demand.
  union {
    exact @0 :List(DeviceCount);
    # Exactly these: a stage, or an explicit scale. Served whole or refused (DemandRefused).
    proposals @1 :List(Proposal);
    # More devices would help this much; the policy chooses.
    refusals @4 :List(RefusedDevices);
    # All that the job refuses from now on; besides, its last demand stays as it was.
    boundType @5 :Text;
    # The only device type that the job can use from now on, whatever its spec allows; besides, its
    # last demand stays as it was.
  }
  sequence @2 :UInt64;
  # Of the newest Allocation that the job has adopted, 0 before the first: what the proposals are
  # relative to. Proposals relative to an older one are void.
  progress @3 :JobProgress;
  # Absent: as it was.
}

struct JobProgress {
  # How far a job is when it demands, for the policy.
  totalSteps @0 :Float64;
  # Local steps of the whole job.
  remainingSteps @1 :Float64;
  stepsPerSecond @2 :Float64;
  # Local steps per second on the devices that it uses now; 0: it does not step.
  rescaleSeconds @3 :Float64;
  # What a change of its devices costs; 0: not measured.
  started @4 :Bool;
  # Has ever run.
  adopted @5 :Bool;
  # Uses what it was last given, and nothing else.
  capabilities @6 :List(Capability);
}

struct Proposal {
  deviceType @0 :Text;
  count @1 :UInt32;
  # How many more of this type.
  speedup @2 :Float64;
  # Estimated throughput with them / throughput now, > 0.
}

struct RefusedDevices {
  # Measured: the job is slower on `held` with more devices of these types than without them.
  held @0 :List(DeviceCount);
  types @1 :List(Text);
}

struct Allocation {
  # Cluster scheduler -> intra-job scheduler: all devices that the job may hold from now on. The job
  # starts workers on new ones, drains the missing ones and sends DeviceReleased for each of those.
  # An older sequence number is stale.
  sequence @0 :UInt64;
  devices @1 :List(Node.Device);
  releasesSeen @2 :UInt64;
  # How many DeviceReleased of this job the sender had processed. A device that the job has released
  # since then is not the job's any more, though it is listed.
  urgent @3 :Bool;
  # What is missing is about to end: a job that is left with nothing writes a checkpoint and waits.
}

struct Inventory {
  # Cluster scheduler -> intra-job scheduler: the devices that exist, when the job starts and whenever
  # that changes.
  devices @0 :List(DeviceCount);
  nodes @1 :List(Text);
  # That are there, those that are about to end included.
}

struct DemandRefused {
  # Cluster scheduler -> intra-job scheduler: the demand can never be met here.
  reason @0 :Text;
}

struct DeviceReleased {
  # Intra-job scheduler -> cluster scheduler: the worker on this device has been reaped.
  device @0 :Node.Device;
}

struct DeviceSuspected {
  # Intra-job scheduler -> cluster scheduler: an audit has found that this device computes wrongly.
  # It is given to nobody until an operator clears it; its job releases it as any other.
  device @0 :Node.Device;
  reason @1 :Text;
}

struct JobEnded {
  # Intra-job scheduler -> cluster scheduler: the job is over and holds nothing any more.
}

struct DevicesKept {
  # Intra-job scheduler -> cluster scheduler: the job does not leave the devices that are called back.
  reason @0 :Text;
  # Why; empty: it does.
}

struct PlanQuery {
  # Intra-job scheduler -> companion: rank the plans for these devices. Answer: PlanAnswer.
  held @0 :List(DeviceCount);
  addable @1 :List(DeviceCount);
  # Devices that the cluster has beyond these, by type.
  stepsLeft @2 :UInt64;
  # Global steps of the job.
  rescaleSeconds @3 :Float64;
  # Pause of a change of devices, measured or assumed.
}

struct PlanListQuery {
  # Intra-job scheduler -> companion: the plans for these devices. Answer: PlanList (client.capnp),
  # with the same number in the envelope's `request`.
  available @0 :List(DeviceCount);
}

struct PlanAnswer {
  # Companion -> intra-job scheduler.
  proposals @0 :List(Proposal);
  capabilities @1 :List(Capability);
}

struct Capability {
  deviceType @0 :Text;
  stepsPerSecond @1 :Float64;
  # Local steps per second of one device, C_i of the waste model.
  measured @2 :Bool;
  # By this job or an earlier one like it; false: an assumption.
}

struct CapabilityReport {
  # Intra-job scheduler -> companion: measured local steps per second of devices in use.
  reports @0 :List(Capability);
}
