"""A real Slurm on this machine: munged, slurmctld and four slurmd, all in one directory.

No part of it needs systemd, a configuration of the machine or another user: SLURM_CONF names the
configuration, and munged has a key and a socket of its own. Each slurmd is a node n1 to n4 with the
address 127.0.0.1.
"""
import getpass
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo"]
NODES = ["n1", "n2", "n3", "n4"]
CPUS = 4  # of each node, whatever the machine has
GRACE_S = 60  # of the partition whose jobs are preempted

CONFIGURATION = """\
ClusterName=es
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A requeued job may start again after cred_expire seconds.
AuthInfo=socket={directory}/munge.socket,cred_expire=5
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=10
SlurmctldTimeout=10
KillWait={grace}
{nodes}
PartitionName=low Nodes=n[1-4] Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace}
PartitionName=high Nodes=n[1-4] State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing_programs():
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


def skip_without_slurm():
    missing = missing_programs()
    if missing:
        raise unittest.SkipTest(f"{', '.join(missing)}: not here; scripts/setup_slurm installs them")


def free_ports(count):
    """Different ports, as harness.free_port() finds them."""
    ports = set()
    while len(ports) < count:
        ports.add(harness.free_port())
    return list(ports)


class SlurmCluster:
    """REQUIRES: missing_programs() is empty. `environment` is that of the client commands."""

    def __init__(self, directory, environment):
        self.directory = Path(directory)
        self.directory.mkdir(mode=0o700)
        self.environment = {**environment, "SLURM_CONF": str(self.directory / "slurm.conf"),
                            "PATH": os.environ.get("PATH", "") + ":/usr/sbin"}
        self.processes = {}
        self._write_files()
        self._start("munged", "munged", "--foreground", "--force",
                    "--key-file", self.directory / "munge.key",
                    "--socket", self.directory / "munge.socket",
                    "--pid-file", self.directory / "munged.pid",
                    "--log-file", self.directory / "munged.log",
                    "--seed-file", self.directory / "munged.seed")
        harness.wait_until("munged listens", (self.directory / "munge.socket").exists,
                           state=self.logs)
        self._start("slurmctld", "slurmctld", "-D", "-f", self.directory / "slurm.conf")
        for node in NODES:
            self.start_node(node)
        harness.wait_until("all nodes are idle", lambda: self.node_states() == {
            node: "idle" for node in NODES}, state=self.logs)

    def _write_files(self):
        key = self.directory / "munge.key"
        key.touch(mode=0o400)
        key.chmod(0o600)
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        (self.directory / "state").mkdir()
        port, *node_ports = free_ports(1 + len(NODES))
        host = socket.gethostname()
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={CPUS} "
            "State=UNKNOWN" for node, node_port in zip(NODES, node_ports))
        (self.directory / "slurm.conf").write_text(CONFIGURATION.format(
            host=host, port=port, user=getpass.getuser(), directory=self.directory, nodes=nodes,
            grace=GRACE_S))

    def _start(self, name, *words):
        log = open(self.directory / f"{name}.out", "ab")
        with log:
            self.processes[name] = subprocess.Popen(
                [str(word) for word in words], env=self.environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True)

    def start_node(self, node):
        self._start(node, "slurmd", "-D", "-N", node, "-f", self.directory / "slurm.conf")

    # --- commands of a user

    def run(self, *words, check=True):
        ended = subprocess.run([str(word) for word in words], env=self.environment, text=True,
                               capture_output=True, cwd=self.directory, timeout=60)
        if check and ended.returncode != 0:
            raise AssertionError(f"{words}: {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def node_states(self):
        lines = self.run("sinfo", "--noheader", "--Node", "--partition", "low",
                         "--format", "%N %t", check=False).split("\n")
        return dict(line.split() for line in lines if line.strip())

    def jobs(self):
        """Of each job and array task that is not over: id, name, state, node."""
        lines = self.run("squeue", "--noheader", "--array", "--format", "%i|%j|%T|%N").split("\n")
        return [dict(zip(("id", "name", "state", "node"), line.strip().split("|")))
                for line in lines if line.strip()]

    def running(self, part_of_name):
        """node -> id of the running jobs whose names contain this text."""
        return {job["node"]: job["id"] for job in self.jobs()
                if part_of_name in job["name"] and job["state"] == "RUNNING"}

    def seconds_of(self, job):
        """For how long a job has run."""
        run_time = re.search(r"RunTime=([\d:]+)", self.run("scontrol", "show", "job", job))[1]
        hours, minutes, seconds = map(int, run_time.split(":"))
        return (60 * hours + minutes) * 60 + seconds

    # --- faults

    def crash_node(self, node):
        """Everything on the node ends at once, as if its machine had lost power."""
        children = descendants(self.processes[node].pid, self._step_daemons(node))
        for pid in [self.processes[node].pid, *children]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.processes.pop(node).wait()

    def _step_daemons(self, node):
        """The processes that run the jobs of this node. They have left the group of slurmd."""
        found = []
        for pid in harness.command_lines():
            try:
                values = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if (b"SLURMD_NODENAME=" + node.encode() in values
                    and b"SLURM_CONF=" + self.environment["SLURM_CONF"].encode() in values):
                found.append(pid)
        return found

    def logs(self):
        text = ""
        for file in sorted([*self.directory.glob("*.log"), *self.directory.glob("*.out")]):
            text += f"--- {file.name}\n" + "\n".join(
                file.read_text(errors="replace").splitlines()[-15:]) + "\n"
        return text

    def stop(self):
        if "slurmctld" in self.processes and self.processes["slurmctld"].poll() is None:
            self.run("scancel", "--signal=KILL", "--full", "--user", getpass.getuser(), check=False)
            self.run("scancel", "--user", getpass.getuser(), check=False)
            try:
                harness.wait_until("all jobs of Slurm have ended", lambda: not self.jobs(), 60)
            except AssertionError as error:
                print(error, flush=True)
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def descendants(pid, more):
    """The processes below these, and these themselves except the first."""
    parents = {}
    for child in harness.command_lines():
        try:
            parents[child] = int(Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
    found, new = set(), {pid, *more}
    while new:
        found |= new
        new = {child for child, parent in parents.items() if parent in new} - found
    return found - {pid}
