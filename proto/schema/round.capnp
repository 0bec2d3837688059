@0x9b6df0a8c85e4207;
# Messages of a round, which makes every change of a placement: head (the job's intra-job scheduler)
# <-> worker. The order PREPARE, REPORT, INSTALL, READY, GO is described in docs/PROTOCOL.md.
#
# The envelope carries the job, the generation and the sender. A worker drops a message of a
# generation below the one that it has promised. The head ignores a message that is not of the
# current generation, and one from an incarnation that it does not know.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Node = import "node.capnp";
$Cxx.namespace("es::wire");

struct Hello {
  # Worker -> head: the process has started and its device, graph and memory plan are ready. The
  # generation is 0. The worker repeats the message whenever its link to the head is restored.
  device @0 :Node.Device;
  address @1 :Text;
  # Endpoint at which other workers reach this one.
  hostId @2 :Text;
  channelKind @3 :Text;
  channelDevice @4 :Text;
  # As in Member.
  kernels @5 :Text;
  # With which kernels it computes, as a checkpoint says it (store/checkpoint/FORMAT.md). At D0 and
  # D1 the head takes no worker whose text differs from that of the job's others of this type.
}

struct Prepare {
  # Head -> all known workers: promise the envelope's generation, stop, and report. The head
  # journals the generation before it sends this.
}

struct Report {
  # Worker -> head: the worker is sealed. No message of an older generation can change its state any
  # more.
  hasVersion @0 :Bool;
  version @1 :UInt64;
  held @2 :List(UInt32);
  # In a job with sharded state: the buckets whose moments the worker holds, in ascending order, and
  summed @3 :List(UInt32);
  # those of them whose sum of step `version` it holds.
  ahead @4 :Bool;
  # Its shards are those of `version` + 1.
}

struct Member {
  incarnation @0 :UInt64;
  rankBegin @1 :UInt32;
  rankEnd @2 :UInt32;
  address @3 :Text;
  hostId @4 :Text;
  channelKind @5 :Text;
  # Means by which bytes pass between its device and a device with an equal value; empty if there is
  # none.
  channelDevice @6 :Text;
  # Identifier of the physical device.
}

struct Install {
  # Head -> all known workers, including those that leave: obtain the target version. A worker
  # without ranks stays available as a source until Release.
  target @0 :UInt64;
  members @1 :List(Member);
  # The members, by ascending ranks without gaps. The owner of bucket b is member b mod n.
  source :union {
    seed @2 :Void;
    # The target is version 0, which is computed from the job spec.
    peer :group {
      # Fetch the target from this sealed worker.
      incarnation @3 :UInt64;
      address @11 :Text;
      hostId @12 :Text;
    }
    checkpoint @4 :Text;
    # Read the target from this directory.
    carried :group {
      # Read the target from this directory of another node, through the head (ReadState).
      path @13 :Text;
      node @14 :Text;
    }
  }
  bucketCount @5 :UInt32;
  lastVersion @6 :UInt64;
  # The job ends at this version.
  pauses @7 :Bool;
  pauseAt @8 :UInt64;
  # Version of a planned stop, if `pauses` is set. The member reports Drained at this version.
  evaluatedThrough @9 :UInt64;
  acknowledgedThrough @10 :UInt64;
  # The head knows evaluations and ledger lines up to these versions.
  decisions @15 :Text;
  # What the evaluations before the target have decided (actors/base/protocol/core/decisions.h); empty
  # for a job whose evaluations decide nothing.
  holders @16 :List(Holders);
  # By bucket, in a job with sharded state; empty: every member holds all moments.
  shardSources @17 :List(ShardSource);
  # By bucket, if the source is a peer: a worker that has the shard of the target, or makes it in this
  # round.
}

struct Holders {
  # Incarnations of the two members that hold the moments of a bucket, which are equal if there is
  # only one member. The owner sums the bucket.
  owner @0 :UInt64;
  buddy @1 :UInt64;
}

struct ShardSource {
  incarnation @0 :UInt64;
  address @1 :Text;
  hostId @2 :Text;
}

struct Ready {
  # Worker -> head: the worker holds the whole target, and its digests are verified.
  version @0 :UInt64;
}

struct Go {
  # Head -> members: start. Sent after all members are ready and the placement is journaled.
}

struct Release {
  # Head -> workers without ranks: exit.
}

struct Drain {
  # Head -> members: stop at the next common step boundary.
}

struct Drained {
  # Member -> head: the member has paused at this version.
  version @0 :UInt64;
}

struct Committed {
  # Member -> head at each commit, and again after Go for lines that are not acknowledged. Every
  # worker must report the same bits for the same version; otherwise the job stops as
  # non-deterministic.
  line @0 :Common.LedgerLine;
}

struct Acknowledge {
  # Head -> members: the ledger lines up to this version are in the journal. Workers need not keep
  # them.
  through @0 :UInt64;
}

struct Suspect {
  # Member -> head: there was no progress within the time limit of the step. The worker `awaited`
  # has to send what is missing.
  step @0 :UInt64;
  awaited @1 :UInt64;
}

struct WriteCheckpoint {
  # Head -> one member: write the version that you hold at your next commit, or now if you do not
  # train. A member forgets the request at Prepare, and the head then repeats it.
  request @0 :UInt64;
  directory @1 :Text;
  # The new directory; for a periodic checkpoint its parent directory.
  periodic @2 :Bool;
  # True if the checkpoint belongs to the job's own series. Its name is then step-VERSION.
  at @3 :UInt64;
  # The earliest version that may be written.
  makeParent @4 :Bool;
  # Create the parent of the directory if it does not exist.
}

struct CheckpointWritten {
  # Member -> head: the result of WriteCheckpoint. With an error text, no files are left behind.
  request @0 :UInt64;
  path @1 :Text;
  version @2 :UInt64;
  params @3 :Common.Digest;
  state @4 :Common.Digest;
  error @5 :Text;
  errorKind @6 :UInt8;  # es::ErrorKind of the error, for the requester
  seconds @7 :Float64;  # Time that the writer needed, for display
}

struct CheckpointUnreadable {
  # Worker -> head: the source of the Install is damaged or cannot be read on this node.
  path @0 :Text;
  error @1 :Text;
  gone @2 :Bool;
  # True if the checkpoint was read and is damaged, or does not exist. False if it may still be
  # whole.
}

struct Evaluated {
  # Owner of rank 0 -> head: the evaluation of this version, with the statistics of rank 0.
  version @0 :UInt64;
  totals @1 :Data;
  # The totals from which the metrics are computed, encoded (store/metrics/metric.h).
}

struct Failed {
  # Worker -> head: the job cannot continue on this worker.
  error @0 :Text;
  elsewhere @1 :Bool;
  # It may be able to continue on another device, because something is missing here, such as memory.
}

struct WorkerStats {
  # Worker -> head after each commit, for the companion and for display. No bit depends on it.
  version @0 :UInt64;
  localStepSeconds @1 :Float64;
  # Mean duration of its local steps of this global step.
  peakRssMib @2 :Float64;
  pid @3 :UInt64;
  liveGradientBuffersMax @4 :UInt32;
  # Largest number of gradient buffers that were in use at the same time in this generation.
  estSeconds @5 :List(Float64);
  # Duration of each of these local steps, by rank.
  contextSwitchSeconds @6 :Float64;
  # Time between local steps while the next mini-batch was ready.
  dataWaitSeconds @7 :Float64;
  # Time before and between local steps while no mini-batch was ready.
  steps @8 :UInt32 = 1;
  # Number of global steps over which localStepSeconds is the mean. A worker sends one message for
  # each global step.
  messageBytes @9 :UInt64;
  # Bulk data (gradients, sums, versions) that it has sent to other workers since its last message of
  # this kind: within messages or in pieces, ...
  sharedMemoryBytes @10 :UInt64;
  # ... in shared memory ...
  channelBytes @11 :UInt64;
  # ... and through channels between GPUs.
}

struct Audit {
  # Head -> members: the digests of an audited step differ. Compute the local step of this rank once
  # more, from the version that you hold, and answer Audited.
  step @0 :UInt64;
  rank @1 :UInt32;
}

struct Audited {
  # Member -> head: the result of the local step of this rank on the member's device. In every
  # audited step the owner of the rank and its auditor (actors/base/protocol/core/audit.h) send it without a
  # request; after Audit, every member sends it.
  step @0 :UInt64;
  rank @1 :UInt32;
  digest @2 :Common.Digest;
  # Digest of the gradient, bucket by bucket, and of the EST's next context.
}

struct AuditPassed {
  # Head -> members: the digests agree; the update of this step may begin.
  step @0 :UInt64;
}

struct Decided {
  # Head -> members: the evaluation of version `step` is stored and has decided how the job goes on;
  # the update of this step may begin.
  step @0 :UInt64;
  decisions @1 :Text;
  # As in Install, with this evaluation.
}
