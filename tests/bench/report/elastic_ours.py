"""EasyScale as a contestant of scripts/bench elastic and checkpoint: daemons, a job and its
steps."""

import fcntl
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios

import runner
from step_stream import StepStream

sys.path.append(os.path.join(runner.ROOT, "tests", "chaos"))
import processes  # noqa: E402
from cluster import ChaosError, Cluster  # noqa: E402

GLOBAL_BATCH = 32
WORKERS = 2
JOB = """name = "bench"
max_p = {workers}
batch_size = {batch}
steps = 1000000
level = "D2"
[model]
name = "resnet18"
[data]
kind = "synthetic"
height = 32
width = 32
channels = 3
samples = 4096
eval_samples = 32
[optimizer]
kind = "sgd"
learning_rate = 0.01
momentum = 0.9
[resources]
device_types = ["{device}"]
"""
SHOWN = re.compile(r"step (\d+)/\d+ .* samples/s (?:.* left)? *([\w:+-]+:\d+) ")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def parse_progress(line):
    found = SHOWN.search(line)
    return (int(found.group(1)), found.group(2)) if found else None


def submit_and_follow(words, steps, environment=None):
    """Submits a job on a terminal, where esctl shows every step, and returns this process. `steps`:
    a StepStream."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 400, 0, 0))
    follower = subprocess.Popen([*map(str, words), "--follow"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    steps.follow(ours)
    return follower


class LoopbackCluster(Cluster):
    """A cluster whose nodes use TCP, like separate hosts."""

    def __init__(self, programs, nodes):
        super().__init__(programs, nodes)
        self.wire = ["--insecure-loopback"]
        self.endpoint = f"tcp://127.0.0.1:{free_port()}"
        self.daemons = {name: self._daemon(name) for name in self.names}


class Ours:
    """`nodes`: {name: number of devices}; the first one is the node of the head. Those in `running`
    start first. `job_file`: another job than that of JOB."""

    def __init__(self, programs, nodes, running, workers=WORKERS, job_file=None):
        self.device = f"cpu-{runner.kernel_class()}"
        self.cluster = LoopbackCluster(
            programs, {name: f"{self.device}:{count}" for name, count in nodes.items()})
        self.steps = StepStream(parse_progress)
        self._follower = None
        self._running, self._workers = running, workers
        self._job_file = job_file or self.cluster.directory / "job.toml"
        if not job_file:
            self._job_file.write_text(
                JOB.format(device=self.device, workers=workers, batch=GLOBAL_BATCH // workers))

    def add_to_job(self, text, **values):
        """Adds text to the job file, with `directory` for files of the job. Returns that
        directory."""
        directory = self.cluster.directory / "files"
        with self._job_file.open("a") as job:
            job.write(text.format(directory=directory, **values))
        return directory

    def __enter__(self):
        try:
            for name in self._running:
                if not self.cluster.start_daemon(name):
                    raise runner.BenchError(f"node {name} did not start:\n{self.cluster.dump()}")
            self._submit()
            self.steps.wait("the job begins", self.recovered(self._workers))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._follower and self._follower.poll() is None:
            self._follower.kill()
        if self._follower:
            self._follower.wait()
        self.cluster.close()

    def _submit(self):
        self._follower = submit_and_follow(
            [self.cluster.esctl_program, "submit", self._job_file, "--head", self.cluster.endpoint,
             *self.cluster.wire], self.steps, self.cluster.client_environment)

    def placement(self, count):
        return f"{self.device}:{count}"

    def recovered(self, workers):
        """Returns whether a step was made by this number of workers, after an event that has
        changed it."""
        return lambda step: step.workers == self.placement(workers)

    def continues(self, _):
        """Returns whether a step shows that training continues after a loss. The first step
        afterwards may only be a late report, unless other workers computed it. The second step
        cannot."""
        before = self.steps.steps[-1]
        return lambda step: step.workers != before.workers or step.number > before.number + 1

    # --- events: each determines its action, and returns a function that performs it

    def worker_pids(self, name):
        return [worker.pid for worker in self.cluster.daemons[name].workers()]

    def kill_worker(self, name):
        victim = self.worker_pids(name)[-1]
        return lambda: processes.send(victim, signal.SIGKILL)

    def job(self):
        return self.cluster.ask("ps")["jobs"][0]["job"]

    def lose_node(self, name):
        return lambda pids=self._pids_of(name): _send_all(pids, signal.SIGKILL)

    def freeze_node(self, name):
        return lambda pids=self._pids_of(name): _send_all(pids, signal.SIGSTOP)

    def join_node(self, name):
        return self.cluster.daemons[name].start

    def scale_in(self, _):
        job = self.job()
        return lambda: self.cluster.ask("scale", job, self.placement(self._workers - 1))

    def _pids_of(self, name):
        daemon = self.cluster.daemons[name]
        return [daemon.pid, *self.worker_pids(name)]


def _send_all(pids, number):
    for pid in pids:
        processes.send(pid, number)
