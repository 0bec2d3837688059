@0xc4f3a2be77e14004;
# Messages inside the head: cluster scheduler <-> intra-job scheduler <-> companion. They never
# leave the process. They are Cap'n Proto messages so that a recorded history can be replayed and
# compared.

using Cxx = import "/capnp/c++.capnp";
using Node = import "node.capnp";
$Cxx.namespace("es::wire");

struct DeviceCount {
  type @0 :Text;
  count @1 :UInt32;
}

struct Demand {
  # Intra-job scheduler -> cluster scheduler: what the job can use now. `exact` and `proposals`
  # replace the previous demand of the job; `refusals` and `boundType` leave it unchanged.
  union {
    exact @0 :List(DeviceCount);
    # Exactly these devices, for a stage or an explicit scale command. The demand is met as a whole
    # or refused (DemandRefused).
    proposals @1 :List(Proposal);
    # Devices that would make the job faster. The policy chooses among the proposals.
    refusals @4 :List(RefusedDevices);
    # The complete list of what the job refuses from now on. The previous demand stays valid.
    boundType @5 :Text;
    # The only device type that the job can use from now on, whatever its spec allows. The previous
    # demand stays valid.
  }
  sequence @2 :UInt64;
  # Sequence number of the newest Allocation that the job has adopted; 0 before the first one. The
  # proposals are relative to that allocation. Proposals relative to an older one are void.
  progress @3 :JobProgress;
  # Absent if unchanged.
}

struct JobProgress {
  # Progress of a job at the time of its demand, for the policy.
  totalSteps @0 :Float64;
  # Local steps of the whole job.
  remainingSteps @1 :Float64;
  stepsPerSecond @2 :Float64;
  # Local steps per second on the devices in use; 0 while the job does not train.
  rescaleSeconds @3 :Float64;
  # Seconds of training that a change of the devices costs; 0 if not measured.
  started @4 :Bool;
  # The job has trained before.
  adopted @5 :Bool;
  # The job uses exactly the devices of its last allocation.
  capabilities @6 :List(Capability);
  suspendSeconds @7 :Float64;
  # Seconds of training that a suspension and the restart after it cost; 0 if not known.
  sync @8 :List(SyncPoint);
  # What the job is known to lose by communication.
  budgetLeft @9 :Float64 = inf;
  # What the job may still spend.
}

struct Proposal {
  deviceType @0 :Text;
  count @1 :UInt32;
  # Number of additional devices of this type.
  speedup @2 :Float64;
  # Estimated throughput with these devices divided by the throughput now, > 0.
}

struct RefusedDevices {
  # A measured refusal: on the devices `held`, the job is slower with additional devices of these
  # types than without them.
  held @0 :List(DeviceCount);
  types @1 :List(Text);
}

struct Allocation {
  # Cluster scheduler -> intra-job scheduler: all devices that the job may hold from now on. The job
  # starts workers on the new devices, drains the devices that are no longer listed, and sends
  # DeviceReleased for each of those. An allocation with an older sequence number is stale.
  sequence @0 :UInt64;
  devices @1 :List(Node.Device);
  releasesSeen @2 :UInt64;
  # Number of DeviceReleased messages of this job that the sender had processed. A device that the
  # job has released since then no longer belongs to the job, although it is listed.
  urgent @3 :Bool;
  # The devices that are no longer listed are about to end. A job that keeps no device writes a
  # checkpoint and waits.
  pricesPerHour @4 :List(Float64);
  # What each of the devices costs in an hour; empty: they cost nothing.
}

struct Inventory {
  # Cluster scheduler -> intra-job scheduler: the devices that exist. Sent when the job starts and
  # whenever they change.
  devices @0 :List(DeviceCount);
  nodes @1 :List(Text);
  # Names of the nodes that are present, including those that are about to end.
}

struct DemandRefused {
  # Cluster scheduler -> intra-job scheduler: this cluster can never meet the demand.
  reason @0 :Text;
}

struct DeviceReleased {
  # Intra-job scheduler -> cluster scheduler: the worker on this device has been reaped.
  device @0 :Node.Device;
}

struct DeviceSuspected {
  # Intra-job scheduler -> cluster scheduler: an audit has found that this device computes wrongly.
  # No job is given the device until an operator clears it. Its job releases it as any other device.
  device @0 :Node.Device;
  reason @1 :Text;
}

struct DeviceFailed {
  # Intra-job scheduler -> cluster scheduler: a try to use this device has failed. It is set aside
  # for a while. Its job releases it as any other device.
  device @0 :Node.Device;
  reason @1 :Text;
  fault @2 :UInt8;
  # es::actors::protocol::DeviceFailed::Fault
  other @3 :Text;
  # The node that cannot be reached from the one of the device, if the fault is between them.
}

struct DevicesWork {
  # Intra-job scheduler -> cluster scheduler: the job has computed on these devices together, with
  # new processes on some of them.
  devices @0 :List(Node.Device);
}

struct JobEnded {
  # Intra-job scheduler -> cluster scheduler: the job is over and holds no device any more.
}

struct DevicesKept {
  # Intra-job scheduler -> cluster scheduler: whether the job leaves the devices that it was told to
  # leave.
  reason @0 :Text;
  # Why the job does not leave them; empty if it does.
}

struct PlanQuery {
  # Intra-job scheduler -> companion: rank the plans for these devices. Answer: PlanAnswer.
  held @0 :List(DeviceCount);
  addable @1 :List(DeviceCount);
  # Devices, by type, that the cluster has in addition to `held`.
  stepsLeft @2 :UInt64;
  # Global steps of the job that remain.
  rescaleSeconds @3 :Float64;
  # Pause in seconds of a change of devices, measured or assumed.
  measured @4 :List(Capability);
  # The capabilities that the job knows from measurements. The companion uses them, and adds those
  # of other types.
  sync @5 :List(SyncPoint);
  # What the job has measured of its communication. The companion adds other points.
}

struct PlanListQuery {
  # Intra-job scheduler -> companion: list the plans for these devices. Answer: PlanList
  # (client.capnp), with the same number in the envelope's `request`.
  available @0 :List(DeviceCount);
  measured @1 :List(Capability);
  # As in PlanQuery.
  sync @2 :List(SyncPoint);
  # As in PlanQuery.
}

struct PlanAnswer {
  # Companion -> intra-job scheduler: the answer to PlanQuery.
  proposals @0 :List(Proposal);
  capabilities @1 :List(Capability);
  # Of the queried device types that PlanQuery.measured does not contain.
  sync @2 :List(SyncPoint);
  # At numbers of devices that PlanQuery.sync does not contain, measured by earlier similar jobs.
}

struct Capability {
  deviceType @0 :Text;
  stepsPerSecond @1 :Float64;
  # Local steps per second of one device: C_i of the waste model (docs/SCHEDULING.md).
  measured @2 :Bool;
  # True if this job or an earlier similar job measured the value; false if it is assumed.
}

struct CapabilityReport {
  # Intra-job scheduler -> companion: new measurements, to be stored for later jobs.
  reports @0 :List(Capability);
  sync @1 :List(SyncPoint);
}

struct SyncPoint {
  # Communication at a number of devices: the seconds that a global step takes longer than its
  # slowest device computes (scheduler/model/sync.h).
  devices @0 :UInt32;
  seconds @1 :Float64;
}
