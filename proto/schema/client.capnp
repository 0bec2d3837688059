@0xb81d8d5a9d0c4f03;
# esctl <-> head. A client puts a number into the envelope's `request`; every answer carries it.
# Each request is answered once, by the message named with it or by Refusal; FollowJob by a stream.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Node = import "node.capnp";
$Cxx.namespace("es::wire");

struct Refusal {
  # Head -> client: the request was not carried out, nothing changed.
  kind @0 :UInt8;
  # es::ErrorKind; decides esctl's exit code.
  message @1 :Text;
}

struct Done {
  # Head -> client: carried out (ScaleJob, CancelJob, Shutdown).
  note @0 :Text;
  # What the client should know about it; may be empty.
}

struct SubmitJob {
  # Client -> head: admit this job. Answer: JobAccepted, sent after the job is in the journal.
  specToml @0 :Text;
  fromCheckpoint @1 :Text;
  # Directory of a checkpoint to start from, readable on the nodes; empty = start from the seed.
  requestId @2 :Text;
  # Unique for each job that a client wants. The same again, after an answer was lost, is answered by
  # the id of the job that it had made. Empty: always a new job.
}

struct JobAccepted {
  job @0 :Text;
}

struct ListJobs {
  # Client -> head. Answer: JobList.
}

struct DescribeJob {
  # Client -> head, about the envelope's job. Answer: JobDetails.
}

struct ScaleJob {
  # Client -> head, about the envelope's job: go to exactly these devices at the next step boundary.
  # Answer: Done once the demand is accepted. Empty text: give the choice back to the scheduler.
  devices @0 :Text;
}

struct CheckpointJob {
  # Client -> head, about the envelope's job: write a checkpoint at the next step boundary. Answer:
  # CheckpointTaken once it is complete on disk.
  directory @0 :Text;
  # The new directory, absolute; it must not exist. Empty: the head chooses one in its state.
  atEnd @1 :Bool;
  # Not at the next boundary but at the last one that the job comes to: its last version, or where
  # it is cancelled, which then waits for this. Forgotten when the head restarts.
  otherwise @2 :Text;
  # Another new directory, absolute, for the case that it cannot be written to the first; empty: none.
}

struct CheckpointTaken {
  path @0 :Text;
  version @1 :UInt64;
  paramsDigest @2 :Text;
  stateDigest @3 :Text;
  firstError @4 :Text;
  # Why it is in CheckpointJob.otherwise and not in its directory; empty: it is in its directory.
}

struct CancelJob {
  # Client -> head, about the envelope's job: stop it and release its devices. Answer: Done once the
  # devices are free. A job that has ended is refused. When a checkpoint was asked for at the job's
  # end, its members first stop at a common boundary and one of them writes it.
}

struct PauseJob {
  # Client -> head, about the envelope's job: write a checkpoint at the next step boundary, end its
  # workers and release its devices. Answer: Done once the devices are free.
}

struct ResumeJob {
  # Client -> head, about the envelope's job: go on from where it was paused. Answer: Done; the job
  # is queued.
  acceptLoss @0 :Bool;
  # Give up the saved states that nobody can read now, and go on from the newest that can be read, or
  # from the start of the job. Also for a job that waits for such a state without being paused.
}

struct FollowJob {
  # Client -> head, about the envelope's job. Answer: a stream of JobEvent that ends with `ended`.
  logFromStart @0 :Bool;
  # Send the whole log first.
  untilNow @1 :Bool;
  # Send what is there and end: do not wait for more.
  info @2 :Bool;
  # Send progress (JobInfo) beside log lines.
}

struct JobEvent {
  union {
    info @0 :JobInfo;
    logLine @1 :Text;
    ended @2 :Void;
  }
}

struct ListNodes {
  # Client -> head. Answer: NodeList.
}

struct Shutdown {
  # Client -> head: cancel all jobs, release all devices and exit. Answer: Done when jobs are gone.
}

struct ReadLedger {
  # Client -> head, about the envelope's job, running or over: the ledger lines with versions in
  # [begin, end). Answer: LedgerPart.
  begin @0 :UInt64;
  end @1 :UInt64;
}

struct LedgerPart {
  # Head -> client: lines, ascending, as many as fit into one message.
  specToml @0 :Text;
  startCheckpoint @1 :Text;
  # Where the run began, or empty: from the seed.
  lines @2 :List(Common.LedgerLine);
  next @3 :UInt64;
  # Ask for the rest from this version on; 0: there is none.
}

struct ClearDevice {
  # Client -> head: this device is no longer suspect. Answer: Done.
  device @0 :Node.Device;
}

struct ClaimDevices {
  # Client -> head: somebody outside of this system takes so many devices of a type, now and until
  # ReleaseClaim. Answer: Done once the claim is in the journal; training jobs leave the devices at
  # their next step boundary.
  name @0 :Text;
  # Unique among the claims. Letters, digits, '-', '_', '.'.
  deviceType @1 :Text;
  # Empty: there is such a claim, and it takes `count` from now on. What it has beyond is free at once.
  count @2 :UInt32;
  # > 0
}

struct ReleaseClaim {
  # Client -> head: the devices of this claim are free again. Answer: Done.
  name @0 :Text;
}

struct ListPlans {
  # Client -> head, about the envelope's job, which must not be over: how it could use the devices
  # that the cluster has. Answer: PlanList.
}

struct PlanList {
  # Companion -> intra-job scheduler -> client.
  plans @0 :List(PlanInfo);
  # That are not dominated, best first.
  complete @1 :Bool;
  # false: there are more; of these only the best for each number of devices are listed.
  speeds @2 :List(TypeSpeed);
  # Of the device types that the plans are made of.
  placement @3 :Text;
  # Devices in use now, empty while none.
  paceSeconds @4 :Float64;
  # Measured duration of a global step on these; 0 while there are too few steps.
}

struct PlanInfo {
  parts @0 :List(PlanPart);
  # Ascending type names.
  secondsPerStep @1 :Float64;
  # f: estimated duration of a global step.
  throughput @2 :Float64;
  # Local steps per second.
  waste @3 :Float64;
  # Local steps per second that the devices could do more.
}

struct PlanPart {
  deviceType @0 :Text;
  devices @1 :UInt32;
  estsPerDevice @2 :UInt32;
  # At most.
}

struct TypeSpeed {
  deviceType @0 :Text;
  stepsPerSecond @1 :Float64;
  # Local steps per second of one device.
  measured @2 :Bool;
  # By this job or an earlier one like it; false: assumed.
}

struct JobList {
  jobs @0 :List(JobInfo);
  # In submit order.
  warning @1 :Text;
  # What is wrong with the head though it runs: its state directory cannot be written; else empty.
}

struct JobDetails {
  info @0 :JobInfo;
  specToml @1 :Text;
}

struct StageInfo {
  # One placement that the job went through.
  placement @0 :Text;
  steps @1 :UInt64;
  # Global steps committed under it.
  seconds @2 :Float64;
  # Time of training under it.
  rescaleSeconds @3 :Float64;
  # Pause before it: from the last commit under the previous placement to its start.
}

struct Metric {
  name @0 :Text;
  value @1 :Float64;
}

struct EvaluationInfo {
  version @0 :UInt64;
  total @1 :UInt64;
  # Samples.
  metrics @2 :List(Metric);
  # Of the model's task; the first is its headline, "loss" the mean loss.
}

struct WorkerInfo {
  incarnation @0 :UInt64;
  node @1 :Text;
  deviceType @2 :Text;
  deviceIndex @3 :UInt32;
  rankBegin @4 :UInt32;
  rankEnd @5 :UInt32;
  pid @6 :UInt64;
  localStepSeconds @7 :Float64;
  # Mean duration of its newest local steps; 0 before the first report.
  samplesPerSecond @8 :Float64;
  # What the device computes in that time, without waiting for others; 0 before.
  slowness @9 :Float64;
  # 1, or how many times slower the device is than others of its type or than usual.
  estSeconds @10 :List(Float64);
  # Duration of the newest local step of each of its ranks, ascending; empty before.
}

struct JobInfo {
  id @0 :Text;
  name @1 :Text;
  state @2 :Text;
  # queued | starting | running | rescaling | paused | finished | failed | cancelled
  level @3 :Text;
  maxP @4 :UInt32;
  step @5 :UInt64;
  # Committed global steps.
  lastStep @6 :UInt64;
  placement @7 :Text;
  # Devices in use now, empty while none.
  lossFirst @8 :Float32;
  # Mean over the ESTs, of the first step that this run committed; NaN before.
  lossLast @9 :Float32;
  samplesPerSecond @10 :Float64;
  # Over the training time of all stages.
  peakRssMib @11 :Float64;
  # Largest resident set of any worker of the job.
  paramsDigest @12 :Text;
  # Of the last committed version.
  stateDigest @13 :Text;
  # Of the last version; empty before.
  stages @14 :List(StageInfo);
  evaluations @15 :List(EvaluationInfo);
  workers @16 :List(WorkerInfo);
  error @17 :Text;
  # Why it failed; empty otherwise.
  submittedUnixMs @18 :UInt64;
  checkpoint @19 :Text;
  # Path of the newest checkpoint, or empty.
  waitingFor @20 :Text;
  # What a job that does not train, or trains on less than it wants, waits for; else empty.
  warning @21 :Text;
  # What is wrong though the job goes on: a checkpoint that was not written, or was damaged; a state
  # directory of the head that cannot be written; else empty.
  contextSwitchShare @22 :Float64;
  # Of the workers' time for local steps, 0 to 1: between two of them, the next mini-batch at hand.
  dataWaitShare @23 :Float64;
  # Of the same time: no mini-batch at hand.
  samplesPerSecondNow @24 :Float64;
  # Over the last seconds of stepping (StageClock says how many); 0: it does not step, or has made no step yet.
}

struct NodeList {
  nodes @0 :List(NodeInfo);
  claims @1 :List(ClaimInfo);
  # By name.
  warning @2 :Text;
  # As in JobList.
}

struct ClaimInfo {
  name @0 :Text;
  deviceType @1 :Text;
  count @2 :UInt32;
  # That it takes.
  devices @3 :UInt32;
  # Of these, those that it has by now.
  waits @4 :List(ClaimWait);
  # Whose devices it waits for.
}

struct ClaimWait {
  job @0 :Text;
  devices @1 :UInt32;
  # That this job is to leave.
  reason @2 :Text;
  # Why it has not; empty: it is about to.
}

struct NodeInfo {
  name @0 :Text;
  alive @1 :Bool;
  devices @2 :List(DeviceInfo);
  draining @3 :Bool;
  # Its daemon is about to end: its jobs go elsewhere.
  checkpoints @4 :Text;
  # What the head's checkpoint directory is there: "shared" with the head, the node's "own"; empty:
  # not known.
  checkpointProblem @5 :Text;
  # Why a job cannot be saved there; empty: it can.
}

struct DeviceInfo {
  type @0 :Text;
  index @1 :UInt32;
  job @2 :Text;
  # The job that holds it, or empty.
  suspect @3 :Text;
  # Why nobody is given it until an operator clears it, or empty.
}
