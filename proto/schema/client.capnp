@0xb81d8d5a9d0c4f03;
# Messages between esctl and the head. A client puts a number into the envelope's `request`, and
# every answer carries the same number. Each request has one answer, either the message that is
# named with it or Refusal. Only FollowJob and TraceJob (trace.capnp) are answered by a stream.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Node = import "node.capnp";
$Cxx.namespace("es::wire");

struct Refusal {
  # Head -> client: the request was not carried out, and nothing has changed.
  kind @0 :UInt8;
  # es::ErrorKind; it decides the exit code of esctl.
  message @1 :Text;
}

struct Done {
  # Head -> client: the request was carried out.
  note @0 :Text;
  # Additional information for the client; may be empty.
}

struct SubmitJob {
  # Client -> head: admit this job. Answer: JobAccepted, sent after the job is in the journal.
  specToml @0 :Text;
  fromCheckpoint @1 :Text;
  # Directory of a checkpoint to start from, readable on the nodes; empty to start from the seed.
  requestId @2 :Text;
  # Unique for each job that a client submits. If a client repeats a request because its answer was
  # lost, the answer is the id of the job that exists already. If the text is empty, a new job is
  # always made.
  submitter @3 :Text;
  # Who asks, where the head itself cannot know it: the name of the token of an HTTP request. The
  # name of the key of a client replaces it.
}

struct JobAccepted {
  job @0 :Text;
}

struct ListJobs {
  # Client -> head. Answer: JobList with the jobs that meet all conditions.
  state @0 :Text;
  # Only jobs in this state; "live" for all that are not over; empty for any.
  tenant @1 :Text;
  # Only jobs of this tenant; empty for any.
  search @2 :Text;
  # A part of the id or of the name; empty for any.
  offset @3 :UInt64;
  # Number of jobs to skip.
  limit @4 :UInt32;
  # Largest number of jobs in the answer; 0 for all.
  newestFirst @5 :Bool;
  # Jobs in the opposite of the order of their submission.
  endedWithinMs @6 :UInt64;
  # Of the jobs that are over only those that ended at most this long ago; 0 for all.
}

struct DescribeJob {
  # Client -> head, about the envelope's job. Answer: JobDetails.
}

struct ScaleJob {
  # Client -> head, about the envelope's job: use exactly these devices from the next step boundary
  # on. An empty text returns the choice to the scheduler. Answer: Done when the demand is accepted.
  devices @0 :Text;
}

struct CheckpointJob {
  # Client -> head, about the envelope's job: write a checkpoint at the next step boundary. Answer:
  # CheckpointTaken when it is complete on disk.
  directory @0 :Text;
  # The new directory, an absolute path that must not exist. If empty, the head chooses a directory
  # in its state directory.
  atEnd @1 :Bool;
  # If set, the checkpoint is written at the last boundary of the job: at its last version, or where
  # it is cancelled; the cancellation then waits for the checkpoint. The request is lost when the
  # head restarts.
  otherwise @2 :Text;
  # Another new directory, an absolute path, which is used if the first one cannot be written. If
  # both are empty, it is one in the rescue directory of the node that writes.
}

struct CheckpointTaken {
  path @0 :Text;
  version @1 :UInt64;
  paramsDigest @2 :Text;
  stateDigest @3 :Text;
  firstError @4 :Text;
  # Why the checkpoint is in CheckpointJob.otherwise; empty if it is in CheckpointJob.directory.
}

struct CancelJob {
  # Client -> head, about the envelope's job: stop it and release its devices. A job that has ended
  # is refused. If a checkpoint at the job's end was requested, the members first stop at a common
  # boundary and one of them writes it. Answer: Done when the devices are free.
}

struct RemoveJob {
  # Client -> head, about the envelope's job, which must be over: forget it, with its record, its
  # ledger, its evaluations and its log. Its checkpoints stay. Answer: Done when nothing of it is
  # left in the journal; the note names the saved states that stay.
}

struct PauseJob {
  # Client -> head, about the envelope's job: write a checkpoint at the next step boundary, end its
  # workers and release its devices. Answer: Done when the devices are free.
}

struct ResumeJob {
  # Client -> head, about the envelope's job: continue from where it was paused. Answer: Done when
  # the job is queued.
  acceptLoss @0 :Bool;
  # Give up the saved states that no node can read now. Continue from the newest one that can be
  # read, or from the start of the job. This is also allowed for a job that waits for such a state
  # without being paused.
}

struct BudgetJob {
  # Client -> head, about the envelope's job: the most that it may spend, in the unit of the prices
  # of the head, with what it has spent already. A job that is paused because its budget is used up
  # continues. Answer: Done when it is in the journal.
  budget @0 :Float64;
  # More than it has spent; 0: it has no budget any more.
}

struct FollowJob {
  # Client -> head, about the envelope's job. Answer: a stream of JobEvent that ends with `ended`.
  logFromStart @0 :Bool;
  # Send the whole log first.
  untilNow @1 :Bool;
  # Send what exists now and end, without waiting for more.
  info @2 :Bool;
  # Send progress (JobInfo) in addition to log lines.
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
  # Client -> head: cancel all jobs, release all devices and exit. Answer: Done when no job is left.
}

struct ReadLedger {
  # Client -> head, about the envelope's job, which may be running or over: send the ledger lines of
  # versions in [begin, end). Answer: LedgerPart.
  begin @0 :UInt64;
  end @1 :UInt64;
}

struct LedgerPart {
  # Head -> client: the lines in ascending order, as many as one message can contain.
  specToml @0 :Text;
  startCheckpoint @1 :Text;
  # Checkpoint from which the run began; empty if it began from the seed.
  lines @2 :List(Common.LedgerLine);
  next @3 :UInt64;
  # First version of the remaining lines, for the next request; 0 if no lines remain.
}

struct ClearDevice {
  # Client -> head: this device is no longer suspect. Answer: Done.
  device @0 :Node.Device;
}

struct ClaimDevices {
  # Client -> head: a load outside of EasyScale takes this number of devices of a type, from now
  # until ReleaseClaim. Training jobs leave the devices at their next step boundary. Answer: Done
  # when the claim is in the journal.
  name @0 :Text;
  # Unique among the claims. Allowed are letters, digits, '-', '_' and '.'.
  deviceType @1 :Text;
  # Empty to change an existing claim to `count` devices. Devices beyond that number are free at
  # once.
  count @2 :UInt32;
  # Number of devices, > 0.
}

struct ReserveDevices {
  # Client -> head: a claim for some time: for a load outside of EasyScale, or as an additional
  # guarantee of a queue. Answer: Done when it is in the journal.
  name @0 :Text;
  # As in ClaimDevices.
  deviceType @1 :Text;
  count @2 :UInt32;
  # Number of devices, > 0.
  fromUnixMs @3 :UInt64;
  # When it begins; 0 for now.
  untilUnixMs @4 :UInt64;
  # When it ends.
  queue @5 :Text;
  # The queue that is guaranteed the devices; empty for a load outside of EasyScale.
  tenant @6 :Text;
  # Instead of a queue: that of the jobs of this tenant which name none; empty for none.
}

struct VacateNode {
  # Client -> head: this node will be gone, or shall be empty. No job is given more of its devices,
  # and jobs leave it in time. Answer: Done when it is in the journal.
  node @0 :Text;
  seconds @1 :Float64;
  # The time until it will be gone, >= 0; 0: it shall be empty, and jobs leave at once.
  cancel @2 :Bool;
  # Instead, jobs may use the node again.
}

struct ReleaseClaim {
  # Client -> head: the devices of this claim or reservation are free again. Answer: Done.
  name @0 :Text;
}

struct ListPlans {
  # Client -> head, about the envelope's job, which must not be over: how it could use the devices
  # of the cluster. Answer: PlanList.
}

struct PlanList {
  # Companion -> intra-job scheduler -> client.
  plans @0 :List(PlanInfo);
  # Plans that are not dominated, the best first (docs/SCHEDULING.md).
  complete @1 :Bool;
  # False if there are more plans; the list then contains only the best one for each number of
  # devices.
  speeds @2 :List(TypeSpeed);
  # Speeds of the device types in the plans.
  placement @3 :Text;
  # Devices in use now; empty if there are none.
  paceSeconds @4 :Float64;
  # Measured duration of a global step on these devices; 0 while there are too few steps.
}

struct PlanInfo {
  parts @0 :List(PlanPart);
  # Parts in ascending order of their type names.
  secondsPerStep @1 :Float64;
  # f of the waste model: the estimated duration of a global step.
  throughput @2 :Float64;
  # Local steps per second.
  waste @3 :Float64;
  # Local steps per second that the devices could compute in addition.
}

struct PlanPart {
  deviceType @0 :Text;
  devices @1 :UInt32;
  estsPerDevice @2 :UInt32;
  # Largest number of ESTs on one of these devices.
}

struct TypeSpeed {
  deviceType @0 :Text;
  stepsPerSecond @1 :Float64;
  # Local steps per second of one device.
  measured @2 :Bool;
  # True if this job or an earlier similar job measured the value; false if it is assumed.
}

struct JobList {
  jobs @0 :List(JobInfo);
  # Jobs in the order of their submission, unless the request asked for the newest first. Of the
  # evaluations of each there is the last one.
  warning @1 :Text;
  # A problem of the running head, such as a state directory that cannot be written; empty if there
  # is none.
  total @2 :UInt64;
  # Number of all jobs that meet the conditions.
  states @3 :List(StateCount);
  # Number of jobs in each state that occurs, among those that meet the conditions but that on the
  # state.
}

struct StateCount {
  state @0 :Text;
  jobs @1 :UInt64;
}

struct JobDetails {
  info @0 :JobInfo;
  specToml @1 :Text;
  timeline @2 :List(SpanInfo);
  # The newest spans of training (StageClock::kSpansMax), ascending.
  progress @3 :List(ProgressInfo);
  # How far the job was when, ascending.
}

struct ProgressInfo {
  seconds @0 :Float64;
  # Since this head has first seen the job train.
  steps @1 :UInt64;
  # Steps that it has seen since then.
}

struct StageInfo {
  # One placement of the job's history.
  placement @0 :Text;
  steps @1 :UInt64;
  # Global steps committed under this placement.
  seconds @2 :Float64;
  # Seconds of training under this placement.
  rescaleSeconds @3 :Float64;
  # Pause in seconds before it: from the last commit under the previous placement to the start of
  # this one.
}

struct Metric {
  name @0 :Text;
  value @1 :Float64;
}

struct EvaluationInfo {
  version @0 :UInt64;
  total @1 :UInt64;
  # Number of evaluated samples.
  metrics @2 :List(Metric);
  # Metrics of the model's task. The first one is the main metric of the task; "loss" is the mean
  # loss.
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
  # Samples per second that the device computes in that time, without waiting for other devices; 0
  # before the first report.
  slowness @9 :Float64;
  # 1, or the factor by which the device is slower than other devices of its type or than usual.
  estSeconds @10 :List(Float64);
  # Duration of the newest local step of each of its ranks, ascending; empty before the first
  # report.
  peakRssMib @11 :Float64;
  # Largest resident set of its process; 0 before the first report.
  sentBytes @12 :UInt64;
  # Bulk data that it has sent to other workers since it began, by whatever way.
}

struct JobInfo {
  id @0 :Text;
  name @1 :Text;
  state @2 :Text;
  # queued | starting | running | rescaling | paused | finished | failed | cancelled
  level @3 :Text;
  maxP @4 :UInt32;
  step @5 :UInt64;
  # Number of committed global steps.
  lastStep @6 :UInt64;
  placement @7 :Text;
  # Devices in use now; empty if there are none.
  lossFirst @8 :Float32;
  # Mean loss over the ESTs at the first step that this run committed; NaN before it.
  lossLast @9 :Float32;
  # Mean loss over the ESTs at the last committed step; NaN before the first one.
  samplesPerSecond @10 :Float64;
  # Mean over the training time of all stages.
  peakRssMib @11 :Float64;
  # Largest resident set of any worker of the job.
  paramsDigest @12 :Text;
  # Digest of the parameters at the last committed version.
  stateDigest @13 :Text;
  # Digest of the state at the job's last version; empty before it.
  stages @14 :List(StageInfo);
  evaluations @15 :List(EvaluationInfo);
  workers @16 :List(WorkerInfo);
  error @17 :Text;
  # Reason of the failure; empty if the job has not failed.
  submittedUnixMs @18 :UInt64;
  checkpoint @19 :Text;
  # Path of the newest checkpoint; empty if there is none.
  waitingFor @20 :Text;
  # What the job waits for, if it does not train or trains on fewer devices than it wants; otherwise
  # empty.
  warning @21 :Text;
  # A problem of a job that continues: a checkpoint that was not written or was damaged, or a state
  # directory of the head that cannot be written; otherwise empty.
  contextSwitchShare @22 :Float64;
  # Share, 0 to 1, of the workers' time for local steps that was spent between two local steps while
  # the next mini-batch was ready.
  dataWaitShare @23 :Float64;
  # Share of the same time in which no mini-batch was ready.
  samplesPerSecondNow @24 :Float64;
  # Mean over the last seconds of training (StageClock::kRateWindow); 0 while the job does not train
  # or has not completed a step.
  tenant @25 :Text;
  # Tenant to which the job belongs; empty for none.
  devicesWanted @26 :UInt32;
  # The largest number of devices that the job could use now: those of its stage and of the next one,
  # or of `esctl scale`, otherwise resources.max_devices; 0 while it is paused and when it is over.
  stepCounts @27 :List(UInt64);
  # Number of global steps by their duration, in the ranges of kStepTimeBounds
  # (actors/base/protocol/core/step_times.h); empty before the first step that this head has seen.
  stepSeconds @28 :Float64;
  # Sum of the durations of these steps.
  pauses @29 :List(PauseInfo);
  # The pauses that this head has seen end, by cause; causes without one are left out.
  messageBytes @30 :UInt64;
  # Bulk data that workers of the job have sent to each other: within messages or in pieces, ...
  sharedMemoryBytes @31 :UInt64;
  # ... in shared memory ...
  channelBytes @32 :UInt64;
  # ... and through channels between GPUs.
  checkpointsWritten @33 :UInt64;
  checkpointSeconds @34 :Float64;
  # Time that the writers needed for them.
  checkpointsFailed @35 :UInt64;
  repeatedSteps @36 :UInt64;
  # Global steps that were computed again after an interruption.
  startRetries @37 :UInt64;
  # Worker processes that ended before they were ready and were replaced.
  spent @38 :Float64;
  # What the devices have cost that the job has held, in the unit of the prices of the head.
  pricePerHour @39 :Float64;
  # What the devices that it holds cost in an hour.
  budget @40 :Float64;
  # The most that it may spend; 0 for no budget.
  endedUnixMs @41 :UInt64;
  # When it was over; 0 while it is not, and if a head of a release without this field saw its end.
  submitter @42 :Text;
  # Name of the key or token that submitted it; empty: not known.
  decisions @43 :DecisionsInfo;
}

struct DecisionsInfo {
  # What the evaluations of a job have decided up to now. A version is 0 if there is none.
  bestMetric @0 :Text;
  # checkpoint.keep_best; empty if the job keeps no best checkpoint.
  bestVersion @1 :UInt64;
  bestValue @2 :Float64;
  # Of that metric, at this version.
  bestCheckpoint @3 :Text;
  # Path of its checkpoint or, until this is complete, of the best one before it; empty for none.
  reductions @4 :UInt64;
  # How often the learning rate was lowered.
  reducedAt @5 :UInt64;
  # The version whose evaluation did it last.
  stoppedAt @6 :UInt64;
  # The version whose evaluation ended the job before its last step.
}

struct PauseInfo {
  cause @0 :Text;
  # change | link | worker_lost | audit | suspended
  count @1 :UInt64;
  seconds @2 :Float64;
}

struct SpanInfo {
  # The time between two pauses of a job.
  beginSeconds @0 :Float64;
  # Since this head has first seen the job train.
  seconds @1 :Float64;
  pauseSeconds @2 :Float64;
  # Pause before it; 0 for the first one.
  cause @3 :Text;
  # Cause of that pause; empty for the first span.
  firstStep @4 :UInt64;
  # Steps that were complete when it began.
  steps @5 :UInt64;
  devices @6 :List(Text);
  # Devices of the members, by rank.
}

struct NodeList {
  nodes @0 :List(NodeInfo);
  claims @1 :List(ClaimInfo);
  # Claims in the order of their names.
  warning @2 :Text;
  # As in JobList.
  unixMs @3 :UInt64;
  # The clock of the head when it answers, in milliseconds.
  quotas @4 :List(QuotaInfo);
  # No longer sent.
  decisionCounts @5 :List(UInt64);
  # Number of the scheduler's decisions by their duration, in the ranges of kDecisionTimeBounds
  # (actors/base/protocol/core/step_times.h); empty before the first one.
  decisionSeconds @6 :Float64;
  # Sum of these durations.
  queues @7 :List(QueueInfo);
  # The queues of the head (easyscaled --queues, --quota) in the order of its configuration. A client
  # with a tenant gets those that its jobs may be in, and the queues above them.
}

struct QuotaInfo {
  tenant @0 :Text;
  devices @1 :Text;
}

struct QueueInfo {
  name @0 :Text;
  parent @1 :Text;
  # Empty for a queue at the top.
  weight @2 :Float64;
  tenants @3 :List(Text);
  # Tenants whose jobs may be in it; empty: all, or those of the queues below it.
  types @4 :List(QueueDevices);
  # One for each device type of the cluster, ascending.
  running @5 :UInt32;
  # Number of jobs in it, or below it, that hold devices.
  waiting @6 :UInt32;
  # Number of the others.
  shares @7 :Bool;
  # Whether queues are ordered by decayed usage (easyscaled --share-half-life).
  usage @8 :Float64;
  # Then: device-seconds that its jobs have used, decayed until now.
  level @9 :UInt32;
  # Then: 0 for the leaf that is served first.
  tier @10 :UInt32;
  # Queues of a higher tier take devices from those of a lower one, among queues of one parent.
}

struct QueueDevices {
  type @0 :Text;
  guarantee @1 :UInt32;
  limited @2 :Bool;
  # Whether there is a limit.
  limit @3 :UInt32;
  # The most devices that it may have.
  used @4 :UInt32;
  # Devices that its jobs hold.
  entitled @5 :UInt32;
  # Devices that it gets before others borrow: its guarantee and its part by weight, as far as its
  # jobs could use them.
  reserved @6 :UInt32;
  # The part of its guarantee that reservations have added until they end.
}

struct ClaimInfo {
  name @0 :Text;
  deviceType @1 :Text;
  count @2 :UInt32;
  # Number of devices that the claim reserves.
  devices @3 :UInt32;
  # Number of devices that it holds by now.
  waits @4 :List(ClaimWait);
  # Jobs whose devices it waits for.
  queue @5 :Text;
  # Of a reservation for a queue; otherwise empty. Its jobs hold the devices, and not the claim.
  fromUnixMs @6 :UInt64;
  # Of a reservation; 0 for a claim without an end.
  untilUnixMs @7 :UInt64;
  begun @8 :Bool;
  # Whether its time has begun.
}

struct ClaimWait {
  job @0 :Text;
  devices @1 :UInt32;
  # Number of devices that this job has to leave.
  reason @2 :Text;
  # Why the job has not left them; empty if it is about to leave them.
}

struct NodeInfo {
  name @0 :Text;
  alive @1 :Bool;
  devices @2 :List(DeviceInfo);
  draining @3 :Bool;
  # The daemon of the node is about to end; jobs on the node move elsewhere.
  checkpoints @4 :Text;
  # Whose checkpoint directory the node sees under the head's path: "shared" if it is the directory
  # of the head, "own" if it belongs to the node, empty if it is not known.
  checkpointProblem @5 :Text;
  # Why a job cannot be saved on this node; empty if it can.
  clockAheadMs @6 :Int64;
  # By how much the clock of the node was ahead of the head's when it joined, in milliseconds; less
  # by the time of one message; 0 if it is not known.
  rack @7 :Text;
  # Where the node stands; empty if it has not told.
  islandDevices @8 :UInt32;
  # Number of devices of one type that are linked with each other; 0: all of the node.
  spot @9 :Bool;
  # The node may be taken away at any time, with a short notice.
  goneUnixMs @10 :UInt64;
  # When the node will be gone, in milliseconds since 1970; 0: nothing is announced.
  cutFrom @11 :List(Text);
  # The nodes with which it shares no job now, because their workers could not reach each other.
}

struct DeviceInfo {
  type @0 :Text;
  index @1 :UInt32;
  job @2 :Text;
  # The job that holds the device; empty if it is free.
  suspect @3 :Text;
  # Why the device is suspect and given to no job until an operator clears it; empty if it is not
  # suspect.
  suspectUntilUnixMs @4 :UInt64;
  # When the device is used again by itself, because only tries to use it have failed; 0: not by
  # itself.
}
