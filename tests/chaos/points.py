"""The kill points (proto/base/kill_point.h), which process dies there, and what makes a process
reach the point."""

# Which processes may die at a point.
WORKER, HEAD, NODE = "worker", "head", "node"

# What happens to a job until a process has reached the point.
STEP = "step"              # Nothing: every step passes the point.
SCALE = "scale"            # Other devices: members join and leave, with rounds and new processes.
CHECKPOINT = "checkpoint"  # A checkpoint on request.
SUBMIT = "submit"          # The submission of another, small job.
NODE_BACK = "node"         # The loss and the return of a node.
CLAIM = "claim"            # A claim of a device for a serving job, and its release.

POINTS = {
    # A step of a worker, in order.
    "slice.end": (WORKER, STEP),         # The local step of one EST is done and not reported.
    "send.Contrib": (WORKER, STEP),
    "sent.Contrib": (WORKER, STEP),
    "got.Contrib": (WORKER, STEP),       # The owner of a bucket, before it counts the part.
    "reduce.before": (WORKER, STEP),     # The owner, before the gradient sum of a bucket.
    "reduce.after": (WORKER, STEP),
    "send.Reduced": (WORKER, STEP),
    "sent.Reduced": (WORKER, STEP),      # The owner, after one of several members has got it.
    "got.Reduced": (WORKER, STEP),
    "update.before": (WORKER, STEP),     # All buckets are staged.
    "update.after": (WORKER, STEP),      # The version is made and not reported.
    "send.Committed": (WORKER, STEP),
    "sent.Committed": (WORKER, STEP),
    "evaluate": (WORKER, STEP),
    # A round, in order.
    "send.Drain": (HEAD, SCALE),
    "sent.Drain": (HEAD, SCALE),
    "got.Drain": (WORKER, SCALE),
    "send.Drained": (WORKER, SCALE),
    "sent.Drained": (WORKER, SCALE),
    "journal.before": (HEAD, SCALE),     # Any record of a job, such as a generation.
    "journal.after": (HEAD, SCALE),
    "send.Prepare": (HEAD, SCALE),
    "sent.Prepare": (HEAD, SCALE),       # One worker has it.
    "got.Prepare": (WORKER, SCALE),
    "send.Report": (WORKER, SCALE),
    "sent.Report": (WORKER, SCALE),
    "got.Report": (HEAD, SCALE),
    "send.Install": (HEAD, SCALE),
    "sent.Install": (HEAD, SCALE),       # One of the members has it.
    "got.Install": (WORKER, SCALE),
    "send.Fetch": (WORKER, SCALE),
    "got.Fetch": (WORKER, SCALE),        # The source.
    "export.begin": (WORKER, SCALE),     # The source, while it sends.
    "send.State": (WORKER, SCALE),
    "sent.State": (WORKER, SCALE),
    "got.State": (WORKER, SCALE),
    "load.begin": (WORKER, SCALE),
    "load.end": (WORKER, SCALE),         # The version is held and verified, and not reported.
    "send.Ready": (WORKER, SCALE),
    "sent.Ready": (WORKER, SCALE),
    "got.Ready": (HEAD, SCALE),
    "send.Go": (HEAD, SCALE),
    "sent.Go": (HEAD, SCALE),            # One member steps.
    "got.Go": (WORKER, SCALE),
    "send.Release": (HEAD, SCALE),
    "got.Release": (WORKER, SCALE),
    "exit": (WORKER, SCALE),             # A member that leaves.
    # Processes.
    "send.StartWorker": (HEAD, SCALE),
    "sent.StartWorker": (HEAD, SCALE),
    "got.StartWorker": (NODE, SCALE),
    "spawn.before": (NODE, SCALE),
    "spawn.after": (NODE, SCALE),
    "send.Hello": (WORKER, SCALE),       # A member that joins.
    "sent.Hello": (WORKER, SCALE),
    "got.Hello": (HEAD, SCALE),
    "reap.before": (NODE, SCALE),
    "reap.after": (NODE, SCALE),         # The process has ended, and the head does not know it.
    "send.WorkerExited": (NODE, SCALE),
    "send.NodeHello": (NODE, NODE_BACK),
    "got.NodeHello": (HEAD, NODE_BACK),
    # The ledger and the clients.
    "got.Committed": (HEAD, STEP),
    "ledger.before": (HEAD, STEP),
    "ledger.after": (HEAD, STEP),
    "got.SubmitJob": (HEAD, SUBMIT),
    "submit.before": (HEAD, SUBMIT),     # Before the job is in the journal.
    "submit.journaled": (HEAD, SUBMIT),  # Before the job is acknowledged.
    "send.JobAccepted": (HEAD, SUBMIT),
    "sent.JobAccepted": (HEAD, SUBMIT),  # Just after the acknowledgement.
    # Claims of serving jobs.
    "claim.journaled": (HEAD, CLAIM),    # In the journal, and not acknowledged.
    "claim.erased": (HEAD, CLAIM),       # Removed from the journal, and not acknowledged.
    # A checkpoint.
    "send.WriteCheckpoint": (HEAD, CHECKPOINT),
    "got.WriteCheckpoint": (WORKER, CHECKPOINT),
    "checkpoint.copy": (WORKER, CHECKPOINT),
    "checkpoint.begin": (WORKER, CHECKPOINT),    # The new directory exists and is empty.
    "checkpoint.middle": (WORKER, CHECKPOINT),   # Some of its files are written.
    "checkpoint.rename": (WORKER, CHECKPOINT),   # All of them are, under a provisional name.
    "checkpoint.renamed": (WORKER, CHECKPOINT),  # Not reported yet.
    "send.CheckpointWritten": (WORKER, CHECKPOINT),
    "got.CheckpointWritten": (HEAD, CHECKPOINT),
}

# Points that other tests reach: the head before and after it stores an evaluation
# (tests/e2e/head_restart_test.py), the head after a failed audit (tests/e2e/audit_test.py), a saved
# state that is sent in parts from another host (tests/e2e/other_host_test.py), gradients that go
# from device to device and are summed there (tests/e2e/channel_test.py), the step of a job with
# sharded state (tests/e2e/shard_test.py), and the recovery of a damaged state directory
# (tests/store/recovery/damage_test.cc).
SHARDS = {"shards.held", "shards.before", "shards.after", "shards.commit", "slice.held_up",
          "gradient.left"}
ELSEWHERE = SHARDS | {"evaluation.before", "evaluation.after", "rewind.before", "rewind.after",
                      "channel.piece", "channel.direct", "reduce.on_device", "recover.move"}


def environment(point, token):
    """Arms a point in all processes of a cluster: the process that removes the token dies."""
    return {"ES_KILL_POINT": point, "ES_KILL_TOKEN": str(token)}
