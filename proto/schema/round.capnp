@0x9b6df0a8c85e4207;
# A placement and every change of it: head (the job's intra-job scheduler) <-> worker, as rounds
# PREPARE, REPORT, INSTALL, READY, GO under a new generation. The envelope carries job, generation
# and sender. A worker drops what is below the generation it has promised; the head ignores what is
# not of the current generation or comes from an incarnation that it does not know.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Node = import "node.capnp";
$Cxx.namespace("es::wire");

struct Hello {
  # Worker -> head: the process is up and warm (device, graph, memory plan). Generation 0. Sent again
  # whenever the link to the head comes up.
  device @0 :Node.Device;
  address @1 :Text;
  # Endpoint where peers reach it.
  hostId @2 :Text;
  channelKind @3 :Text;
  channelDevice @4 :Text;
  # As in Member.
}

struct Prepare {
  # Head -> all known workers: promise the envelope's generation, stop, report. Journaled before.
}

struct Report {
  # Worker -> head: sealed. Nothing of an older generation counts here any more.
  hasVersion @0 :Bool;
  version @1 :UInt64;
}

struct Member {
  incarnation @0 :UInt64;
  rankBegin @1 :UInt32;
  rankEnd @2 :UInt32;
  address @3 :Text;
  hostId @4 :Text;
  channelKind @5 :Text;
  # What carries bytes between its device and another that says the same; empty: nothing.
  channelDevice @6 :Text;
  # The physical device.
}

struct Install {
  # Head -> all known workers, leavers included: get to the target version. A worker without ranks
  # stands by as a source until Release.
  target @0 :UInt64;
  members @1 :List(Member);
  # Ascending gapless ranks; the owner of bucket b is member b mod n.
  source :union {
    seed @2 :Void;
    # Version 0, computed from the job spec.
    peer :group {
      # Fetch it from this sealed worker.
      incarnation @3 :UInt64;
      address @11 :Text;
      hostId @12 :Text;
    }
    checkpoint @4 :Text;
    # Read it from this directory.
    carried :group {
      # From this directory of another node, through the head (ReadState).
      path @13 :Text;
      node @14 :Text;
    }
  }
  bucketCount @5 :UInt32;
  lastVersion @6 :UInt64;
  # The job ends at this version.
  pauses @7 :Bool;
  pauseAt @8 :UInt64;
  # A planned stop, when `pauses`: report Drained at this version.
  evaluatedThrough @9 :UInt64;
  acknowledgedThrough @10 :UInt64;
  # Evaluations and ledger lines up to these versions are known to the head.
}

struct Ready {
  # Worker -> head: I hold the target completely, digests checked.
  version @0 :UInt64;
}

struct Go {
  # Head -> members, after all are ready and the placement is journaled: start.
}

struct Release {
  # Head -> leavers: exit.
}

struct Drain {
  # Head -> members: stop at the next common boundary.
}

struct Drained {
  # Member -> head: paused at this version.
  version @0 :UInt64;
}

struct Committed {
  # Member -> head at each commit, and again after Go for lines that are not acknowledged. The same
  # version must say the same on every worker, bit by bit; else the job stops as non-deterministic.
  line @0 :Common.LedgerLine;
}

struct Acknowledge {
  # Head -> members: ledger lines up to here are in the journal and need not be kept.
  through @0 :UInt64;
}

struct Suspect {
  # Member -> head: no progress within the step's deadline; what is missing is to come from this one.
  step @0 :UInt64;
  awaited @1 :UInt64;
}

struct WriteCheckpoint {
  # Head -> one member: write the version you hold at your next commit boundary, or now when you do
  # not step. Forgotten at Prepare: the head then asks again.
  request @0 :UInt64;
  directory @1 :Text;
  # The new directory; of a periodic checkpoint its parent.
  periodic @2 :Bool;
  # Part of the job's own series: the name is step-VERSION.
  at @3 :UInt64;
  # Not before this version.
  remove @4 :List(Text);
  # Earlier checkpoints of the series, to remove once the new one is on the disk and verified.
  makeParent @5 :Bool;
  # Make the directory's parent when it is not there.
}

struct CheckpointWritten {
  # Member -> head. With an error text nothing was left behind.
  request @0 :UInt64;
  path @1 :Text;
  version @2 :UInt64;
  params @3 :Common.Digest;
  state @4 :Common.Digest;
  error @5 :Text;
  errorKind @6 :UInt8;  # ErrorKind, what the one who asked is to make of the error
}

struct CheckpointUnreadable {
  # Worker -> head: the source of the Install is damaged or cannot be read here.
  path @0 :Text;
  error @1 :Text;
  gone @2 :Bool;
  # It was read, and is damaged or not there. False: it may be whole all the same.
}

struct Evaluated {
  # Owner of rank 0 -> head: the evaluation set under this version and rank 0's statistics.
  version @0 :UInt64;
  totals @1 :Data;
  # What the metrics are computed from, encoded (store/metrics/metric.h).
}

struct Failed {
  # Worker -> head: the job itself cannot go on, on whatever worker.
  error @0 :Text;
}

struct WorkerStats {
  # Worker -> head after each commit, for the companion and for people; no bit depends on it.
  version @0 :UInt64;
  localStepSeconds @1 :Float64;
  # Mean duration of its local steps of this global step.
  peakRssMib @2 :Float64;
  pid @3 :UInt64;
  liveGradientBuffersMax @4 :UInt32;
  # Most gradient buffers that were in use at once in this generation.
  estSeconds @5 :List(Float64);
  # Duration of each of these local steps, by rank.
  contextSwitchSeconds @6 :Float64;
  # Between them, with the next mini-batch at hand.
  dataWaitSeconds @7 :Float64;
  # Before and between them, without.
  steps @8 :UInt32 = 1;
  # Global steps that localStepSeconds is the mean of. A worker that computes sends one for each step.
}

struct Audit {
  # Head -> members: the opinions about an audited step differ. Compute the local step of this rank
  # once more, from the version that you hold, and answer Audited.
  step @0 :UInt64;
  rank @1 :UInt32;
}

struct Audited {
  # Member -> head: what the local step of this rank gave on my device. Sent unasked by the rank's
  # owner and by its auditor in every audited step (actors/protocol/audit.h), and after Audit.
  step @0 :UInt64;
  rank @1 :UInt32;
  digest @2 :Common.Digest;
  # Of the gradient, bucket by bucket, and of the EST's next context.
}

struct AuditPassed {
  # Head -> members: the opinions agree, the update of this step may begin.
  step @0 :UInt64;
}
