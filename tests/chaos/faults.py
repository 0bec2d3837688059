"""How each kind of fault is injected into a cluster, and undone.

`inject(run, fault)` returns a line that describes the fault and its victim, or None when there was
no victim. The undo of a fault is put on the agenda of the run."""
import errno
import os
import signal

import processes
from cluster import ChaosError

EXIT_REFUSED = 4  # The job is not paused, or it has ended.
RETRIES, RETRY_S = 50, 0.2


def inject(run, fault):
    return _KINDS[fault.kind](run, fault)


# --- kill

def _kill(run, fault):
    if fault.variant == "node":
        return _kill_node(run, fault)
    workers = run.wait_for_workers()
    if not workers:
        return None
    if fault.variant == "worker":
        victims = [fault.pick(workers)]
    elif fault.variant == "some":
        victims = fault.pick_some(workers)
    else:
        spared = fault.pick(workers)
        victims = [w for w in workers if w is not spared]
        if not victims:
            return None
    for worker in victims:
        processes.send(worker.pid, signal.SIGKILL)
    return "workers " + ", ".join(f"{w.incarnation} on {w.device}" for w in victims)


def _kill_node(run, fault):
    name = fault.pick(run.cluster.names[1:])
    if not run.take_down(name, fault.seconds):
        return None
    return f"{name}, back after {fault.seconds:.1f} s"


def _head(run, fault):
    name = run.cluster.names[0]
    if not run.take_down(name, fault.seconds):
        return None
    return f"back after {fault.seconds:.1f} s"


# --- stop and cancel

def _stop(run, fault):
    name = fault.pick(run.cluster.names[1:])
    if not run.stop_down(name, fault.seconds):
        return None
    return f"{name}, back after {fault.seconds:.1f} s"


def _cancel(run, fault):
    answer = run.cluster.esctl("cancel", run.job)
    if answer.ok or answer.code != EXIT_REFUSED:  # The result may not be known.
        run.cancelled.add(run.job)
    return run.job + ("" if answer.ok else f": {answer.err.strip()[-200:]}")


# --- freeze

def _freeze(run, fault):
    cluster = run.cluster
    if fault.variant == "worker":
        workers = run.wait_for_workers()
        if not workers:
            return None
        worker = fault.pick(workers)
        _stop_for(run, worker.pid, fault.seconds)
        return f"worker {worker.incarnation} on {worker.device} for {fault.seconds:.1f} s"
    name = cluster.names[0] if fault.variant == "head" else fault.pick(cluster.names[1:])
    daemon = cluster.daemons[name]
    if not daemon.runs():
        return None
    _stop_for(run, daemon.pid, fault.seconds)
    return f"{name} for {fault.seconds:.1f} s"


def _stop_for(run, pid, seconds):
    processes.send(pid, signal.SIGSTOP)
    words = processes.words_of(pid)

    def wake():
        if words and processes.words_of(pid) == words:  # The pid belongs to the same process still.
            processes.send(pid, signal.SIGCONT)

    run.agenda.add(seconds, wake)


# --- scale

def _scale(run, fault):
    if fault.variant == "pause":
        return _pause(run, fault)
    devices = "auto" if fault.variant == "auto" else fault.pick(run.device_sets)
    answer = run.cluster.esctl("scale", run.job, devices)
    return f"to {devices}" + ("" if answer.ok else f": {answer.err.strip()[-200:]}")


def _pause(run, fault):
    """Takes all devices of the job away, and gives devices back."""
    job, cluster = run.job, run.cluster
    paused = cluster.esctl("pause", job)

    def resume():
        for _ in range(RETRIES):  # The head may be away, or the pause is still running.
            answer = cluster.esctl("resume", job)
            if answer.ok or (paused.ok and answer.code == EXIT_REFUSED):
                return
            processes.nap(RETRY_S)

    run.agenda.add(fault.seconds, resume)
    return f"for {fault.seconds:.1f} s" + ("" if paused.ok else f": {paused.err.strip()[-200:]}")


# --- partition

def _partition(run, fault):
    network = run.cluster.network
    name = fault.pick(run.cluster.names[1:])
    if fault.variant != "flapping":
        network.cut(name, fault.variant != "from the head", fault.variant != "to the head")
        run.agenda.add(fault.seconds, lambda: network.mend(name))
        return f"{name} for {fault.seconds:.1f} s"
    turns = 2 + int(fault.picks[1] * 6)
    for turn in range(turns):
        begin = fault.seconds * turn / turns
        run.agenda.add(begin, lambda: network.cut(name, True, True))
        run.agenda.add(begin + fault.seconds / turns / 2, lambda: network.mend(name))
    return f"{name}, {turns} times in {fault.seconds:.1f} s"


# --- disk

def _disk(run, fault):
    disk = run.disk
    if fault.variant == "full" and disk.is_real:
        disk.fill()
        run.agenda.add(fault.seconds, disk.make_room)
        # The checkpoint that is removed while this one is written may leave enough room.
        return f"for {fault.seconds:.1f} s, " + _checkpoint(run, disk.path, fault)
    if fault.variant != "well":
        return _refused_checkpoint(run, disk.path / "nowhere" / "checkpoint")
    return _checkpoint(run, run.cluster.directory, fault)


def _checkpoint(run, parent, fault):
    directory = parent / f"checkpoint-{fault.number}"
    answer = run.cluster.esctl("checkpoint", run.job, "--to", directory)
    if not answer.ok:
        return f"{directory.name} not written: {answer.err.strip()[-200:]}"
    run.checkpoints.append(answer.json)
    return f"{directory.name} of version {answer.json['version']} written"


def _refused_checkpoint(run, directory):
    answer = run.cluster.esctl("checkpoint", run.job, "--to", directory)
    if answer.ok:
        raise ChaosError(f"a checkpoint was written to {directory}, which has no parent")
    return f"{directory.name} not written, as it must be: {answer.err.strip()[-160:]}"


# --- state

_STATE_ERRORS = {"full": errno.ENOSPC, "read-only": errno.EROFS, "broken": errno.EIO}


def _state(run, fault):
    """Lets the disk of the head's journal fail. During that time a request is refused, or it is
    durable."""
    cluster = run.cluster
    if cluster.names[0] in run.expects_down or not cluster.head.runs():
        return None
    number = _STATE_ERRORS[fault.variant]
    cluster.switch.write_text(str(number))
    run.agenda.add(fault.seconds, run.mend_state)
    name = f"refused-{fault.number}"
    answer = cluster.esctl("claim", "--type", run.device_sets[0].partition(":")[0], "--count", 1,
                           "--name", name)
    if answer.ok and cluster.switch.exists():
        raise ChaosError(f"claim {name} was accepted on a disk that fails: {os.strerror(number)}")
    # The request came too late, or its result is not known.
    if answer.ok or answer.code != EXIT_REFUSED:
        run.agenda.add(fault.seconds, lambda: cluster.esctl("release", name))
    return f"{os.strerror(number)} for {fault.seconds:.1f} s: {answer.err.strip()[-160:]}"


_KINDS = {"state": _state, "kill": _kill, "head": _head, "freeze": _freeze, "scale": _scale,
          "partition": _partition, "disk": _disk, "stop": _stop, "cancel": _cancel}
