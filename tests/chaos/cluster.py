"""A head and its nodes on this machine, as real processes, and esctl with their endpoint."""
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import processes
from network import Network

READY_S = 60
ESCTL_S = 40
STOP_S = 30
ALL_CLASSES = ("cpu-avx512", "cpu-avx2", "cpu-scalar")  # The fastest class first.


class ChaosError(Exception):
    """A promise is broken, or a process hangs."""


class Answer:
    def __init__(self, words, code, out, err):
        self.words, self.code, self.out, self.err = words, code, out, err

    @property
    def ok(self):
        return self.code == 0

    @property
    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"esctl {' '.join(self.words)}: status {self.code}: {self.err.strip()[-500:]}"


def wait_until(what, probe, deadline_s):
    end = time.monotonic() + deadline_s
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise ChaosError(f"not within {deadline_s:g} s: {what}")
        processes.nap()


def make_directory():
    """The path is short, because paths of sockets in it have a limited length."""
    return Path(tempfile.mkdtemp(prefix="es-chaos-"))


# A command for a mount namespace of its own. The arguments before MOUNTED are pairs of a source and
# the directory on which it is mounted. The program after MOUNTED replaces the shell.
MOUNTS = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
          'while [ "$1" != MOUNTED ]; do mount --bind "$1" "$2" || exit 1; shift 2; done; '
          'shift; exec "$@"', "sh"]


def why_no_own_disks():
    """Returns why nodes cannot have disks of their own here; empty when they can."""
    if os.geteuid() != 0:
        return "mount namespaces need root"
    if shutil.which("unshare") is None:
        return "the program unshare (package util-linux) is not here"
    ended = subprocess.run([*MOUNTS, "/tmp", "/mnt", "MOUNTED", "true"], capture_output=True,
                           text=True)
    return ended.stderr.strip() if ended.returncode != 0 else ""


class Cluster:
    """`nodes`: {name: devices}; the first one is the node of the head. With `networked` each node
    is a host of its own in a network namespace. `own_disks`: paths at which the other nodes have
    directories of their own, and also at the path of the head's state; empty: all nodes share all
    paths. `environment`: for all daemons and their workers. `failing_disk`: the library that lets
    the head's journal fail while the file `switch` exists."""

    def __init__(self, programs, nodes, networked=False, environment=None, head_options=(),
                 own_disks=(), failing_disk=None, daemon_options=()):
        self.esctl_program, self.easyscaled_program = programs
        self.directory = make_directory()
        self.names = list(nodes)
        self.devices = dict(nodes)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("ES_")}
        self.environment.update(HOME=str(self.directory), TMPDIR=str(self.directory))
        self.client_environment = dict(self.environment)
        self.environment.update(environment or {})
        self.switch = self.directory / "switch"
        if failing_disk:
            self.environment.update(LD_PRELOAD=str(failing_disk),
                                    ES_FAILING_DIR=str(self.directory / "state" / "db"),
                                    ES_FAILING_SWITCH=str(self.switch))
        self.network = Network(self.names[1:]) if networked else None
        self.own_disks = [self.state, *own_disks] if own_disks else []
        self.keys = self.directory / "keys"
        if networked:
            self.esctl_here("keygen", self.keys)
        self.wire = ["--keys", str(self.keys)] if networked else []
        self.endpoint = (f"tcp://{Network.HUB_ADDRESS}:7070" if networked
                         else f"ipc://{self.directory}/head.sock")
        self.head_options = list(head_options)
        self.daemon_options = list(daemon_options)
        self.daemons = {name: self._daemon(name) for name in self.names}

    def _daemon(self, name):
        words = [self.easyscaled_program, "--node", name, "--run-dir", self.directory / name]
        if self.devices[name]:
            words += ["--devices", self.devices[name]]
        if name == self.names[0]:
            words += ["--head", "--state", self.directory / "state", "--listen", self.endpoint,
                      *self.head_options]
            # The clients of the head write to the directories with faults.
            if self.endpoint.startswith("tcp:"):
                words += ["--data-root", "/", "--checkpoint-root", "/"]
        else:
            words += ["--join", self.endpoint, "--rescue", self.directory / "rescue"]
        words = [str(word) for word in [*words, *self.daemon_options, *self.wire]]
        if self.own_disks and name != self.names[0]:
            words = [*self._own_disks_of(name), *words]
        if self.network:
            at_head = name == self.names[0]
            words += ["--address",
                      Network.HUB_ADDRESS if at_head else self.network.address(name)]
            words = self.network.inside(None if at_head else name, words)
        return processes.Daemon(name, words, self.environment, self.directory / f"{name}.log")

    def _own_disks_of(self, name):
        mounts = list(MOUNTS)
        for path in self.own_disks:
            own = self.directory / f"disk-of-{name}" / path.name
            own.mkdir(parents=True)
            path.mkdir(exist_ok=True)
            mounts += [str(own), str(path)]
        return [*mounts, "MOUNTED"]

    @property
    def head(self):
        return self.daemons[self.names[0]]

    @property
    def state(self):
        return self.directory / "state"

    def start(self):
        for name in self.names:
            self.start_daemon(name)

    def start_daemon(self, name):
        daemon = self.daemons[name]
        daemon.start()
        wait_until(f"{name} is ready", lambda: daemon.said("^ready ") or not daemon.runs(), READY_S)
        return daemon.runs()

    def workers(self, job=None):
        """Worker processes on all nodes, in the order of the nodes and their devices."""
        return [worker for name in self.names if self.daemons[name].process
                for worker in self.daemons[name].workers() if job in (None, worker.job)]

    # --- esctl

    def esctl_here(self, *words, deadline_s=ESCTL_S, inside=False):
        command = [str(word) for word in (self.esctl_program, *words)]
        if inside and self.network:
            command = self.network.inside(None, command)
        try:
            ended = subprocess.run(command, env=self.client_environment, text=True,
                                   stdin=subprocess.DEVNULL, capture_output=True,
                                   timeout=deadline_s, cwd=self.directory)
        except subprocess.TimeoutExpired:
            return Answer(command[1:], None, "", f"no answer in {deadline_s} s")
        return Answer(command[1:], ended.returncode, ended.stdout, ended.stderr)

    def esctl(self, *words, deadline_s=ESCTL_S):
        """Returns the answer. It may be a refusal, or the error that the head does not answer."""
        return self.esctl_here(*words, "--head", self.endpoint, *self.wire, "--json",
                               deadline_s=deadline_s, inside=True)

    def ask(self, *words):
        answer = self.esctl(*words)
        if not answer.ok:
            raise ChaosError(str(answer))
        return answer.json

    def describe(self, job):
        """Returns None while the head does not answer."""
        answer = self.esctl("describe", job, deadline_s=10)
        return answer.json if answer.ok else None

    def job_log(self, job):
        return (self.state / "logs" / f"{job}.log").read_text()

    # --- the end

    def dump(self, job=None):
        """What a reader needs to examine a run that failed."""
        text = ""
        for name in self.names:
            text += f"--- {name}: {'runs' if self.daemons[name].runs() else 'does not run'}\n"
            text += "".join(f"    worker {w.incarnation} on {w.device}, pid {w.pid}, {w.job}\n"
                            for w in self.daemons[name].workers()) if (
                                self.daemons[name].process) else ""
        if job:
            text += f"--- describe {job}\n{self.esctl('describe', job, deadline_s=10).out}\n"
        logs = [*self.directory.glob("*.log"), *self.directory.glob("state/logs/*.log"),
                *self.directory.glob("*/worker-*.log")]
        for log in sorted(logs):
            tail = log.read_text(errors="replace")[-4000:]
            if tail.strip():
                text += f"--- {log.relative_to(self.directory)}\n{tail}\n"
        return text

    def stop(self):
        """Ends all processes in good order. Returns a text about what went wrong."""
        wrong = []
        for name in reversed(self.names):
            daemon = self.daemons[name]
            if daemon.runs() and (code := daemon.stop(STOP_S)) != 0:
                wrong.append(f"{name} ended with status {code} after SIGTERM")
        wrong += self.left_behind()
        return wrong

    def left_behind(self):
        mine = str(self.directory)
        left = [f"process {pid} is left: {' '.join(words)[:200]}" for pid in processes.all_pids()
                if mine in " ".join(words := processes.words_of(pid))]
        left += [f"shared memory is left: {path.name}" for path in Path("/dev/shm").glob("es.*")
                 if self.directory.name in path.name]
        return left

    def close(self):
        """Removes everything of this cluster from the machine, in every case."""
        for daemon in self.daemons.values():
            daemon.kill()
        for pid in processes.all_pids():
            if str(self.directory) in " ".join(processes.words_of(pid)):
                processes.send(pid, 9)
        if self.network:
            self.network.close()
        shutil.rmtree(self.directory, ignore_errors=True)
