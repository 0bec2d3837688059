"""The kill points (proto/base/kill_point.h), who dies there, and what makes somebody get there."""

# Who may die at a point.
WORKER, HEAD, NODE = "worker", "head", "node"

# What is done to a job until somebody has got to the point.
STEP = "step"              # nothing: every step passes it
SCALE = "scale"            # other devices: joiners, leavers, rounds, processes
CHECKPOINT = "checkpoint"  # an on-demand checkpoint
SUBMIT = "submit"          # another, small job
NODE_BACK = "node"         # a node is lost and comes back
CLAIM = "claim"            # a claim of a device for a serving job, and its release

POINTS = {
    # A step of a worker, in order.
    "slice.end": (WORKER, STEP),         # one EST's local step is done, nobody was told
    "send.Contrib": (WORKER, STEP),
    "sent.Contrib": (WORKER, STEP),
    "got.Contrib": (WORKER, STEP),       # the owner of a bucket, before it counts
    "reduce.before": (WORKER, STEP),     # the owner, before the gradient sum of a bucket
    "reduce.after": (WORKER, STEP),
    "send.Reduced": (WORKER, STEP),
    "sent.Reduced": (WORKER, STEP),      # the owner in mid-broadcast: one member has it
    "got.Reduced": (WORKER, STEP),
    "update.before": (WORKER, STEP),     # all buckets staged
    "update.after": (WORKER, STEP),      # the version is made, nobody was told
    "send.Committed": (WORKER, STEP),
    "sent.Committed": (WORKER, STEP),
    "evaluate": (WORKER, STEP),
    # A round, in order.
    "send.Drain": (HEAD, SCALE),
    "sent.Drain": (HEAD, SCALE),
    "got.Drain": (WORKER, SCALE),
    "send.Drained": (WORKER, SCALE),
    "sent.Drained": (WORKER, SCALE),
    "journal.before": (HEAD, SCALE),     # a generation, or what else of a job is kept
    "journal.after": (HEAD, SCALE),
    "send.Prepare": (HEAD, SCALE),
    "sent.Prepare": (HEAD, SCALE),       # one worker has it
    "got.Prepare": (WORKER, SCALE),
    "send.Report": (WORKER, SCALE),
    "sent.Report": (WORKER, SCALE),
    "got.Report": (HEAD, SCALE),
    "send.Install": (HEAD, SCALE),
    "sent.Install": (HEAD, SCALE),       # between two of them
    "got.Install": (WORKER, SCALE),
    "send.Fetch": (WORKER, SCALE),
    "got.Fetch": (WORKER, SCALE),        # the source
    "export.begin": (WORKER, SCALE),     # the source, while it serves
    "send.State": (WORKER, SCALE),
    "sent.State": (WORKER, SCALE),
    "got.State": (WORKER, SCALE),
    "load.begin": (WORKER, SCALE),
    "load.end": (WORKER, SCALE),         # held and verified, nobody was told
    "send.Ready": (WORKER, SCALE),
    "sent.Ready": (WORKER, SCALE),
    "got.Ready": (HEAD, SCALE),
    "send.Go": (HEAD, SCALE),
    "sent.Go": (HEAD, SCALE),            # one member steps
    "got.Go": (WORKER, SCALE),
    "send.Release": (HEAD, SCALE),
    "got.Release": (WORKER, SCALE),
    "exit": (WORKER, SCALE),             # a leaver
    # Processes.
    "send.StartWorker": (HEAD, SCALE),
    "sent.StartWorker": (HEAD, SCALE),
    "got.StartWorker": (NODE, SCALE),
    "spawn.before": (NODE, SCALE),
    "spawn.after": (NODE, SCALE),
    "send.Hello": (WORKER, SCALE),       # a joiner
    "sent.Hello": (WORKER, SCALE),
    "got.Hello": (HEAD, SCALE),
    "reap.before": (NODE, SCALE),
    "reap.after": (NODE, SCALE),         # the process is gone, the head does not know
    "send.WorkerExited": (NODE, SCALE),
    "send.NodeHello": (NODE, NODE_BACK),
    "got.NodeHello": (HEAD, NODE_BACK),
    # The ledger and the clients.
    "got.Committed": (HEAD, STEP),
    "ledger.before": (HEAD, STEP),
    "ledger.after": (HEAD, STEP),
    "got.SubmitJob": (HEAD, SUBMIT),
    "submit.before": (HEAD, SUBMIT),     # before the job is in the journal
    "submit.journaled": (HEAD, SUBMIT),  # before it is acknowledged
    "send.JobAccepted": (HEAD, SUBMIT),
    "sent.JobAccepted": (HEAD, SUBMIT),  # just acknowledged
    # Claims of serving jobs.
    "claim.journaled": (HEAD, CLAIM),    # it is in the journal, nobody was told
    "claim.erased": (HEAD, CLAIM),       # it is not any more, nobody was told
    # A checkpoint.
    "send.WriteCheckpoint": (HEAD, CHECKPOINT),
    "got.WriteCheckpoint": (WORKER, CHECKPOINT),
    "checkpoint.copy": (WORKER, CHECKPOINT),
    "checkpoint.begin": (WORKER, CHECKPOINT),    # the new directory is there, empty
    "checkpoint.middle": (WORKER, CHECKPOINT),   # some of its files are written
    "checkpoint.rename": (WORKER, CHECKPOINT),   # all are, under a provisional name
    "checkpoint.renamed": (WORKER, CHECKPOINT),  # nobody was told
    "send.CheckpointWritten": (WORKER, CHECKPOINT),
    "got.CheckpointWritten": (HEAD, CHECKPOINT),
}

# What other tests get to: the head after a failed audit (tests/e2e/audit_test.py), state that comes
# in parts from another host (tests/e2e/other_host_test.py), and gradients that go from device to
# device and are summed there (tests/e2e/channel_test.py).
ELSEWHERE = {"rewind.before", "rewind.after", "channel.piece", "channel.direct",
             "reduce.on_device"}


def environment(point, token):
    """Arms a point in all processes of a cluster: the one that removes the token dies."""
    return {"ES_KILL_POINT": point, "ES_KILL_TOKEN": str(token)}
