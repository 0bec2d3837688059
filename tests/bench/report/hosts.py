"""A head and nodes that share no memory, like hosts of their own, over the loopback of one machine."""

import json
import os
import signal
import subprocess
from pathlib import Path

WIRE = ["--insecure-loopback"]
# Segments are opened by process id, so members in several namespaces share no memory.
NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def start(*command, log=None):
    """`log`: a file for the errors; none: those of this program."""
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=log,
                            text=True, start_new_session=True)


def sent_bytes():
    """What the loopback of this network namespace has sent, with all headers and heartbeats."""
    return int(Path("/proc/self/net/dev").read_text().split("lo:")[1].split()[8])


class Hosts:
    """`devices`: those of each node, such as ["cpu-avx2:1", "cpu-avx2:1"]. `programs`: a build
    directory."""

    def __init__(self, programs, devices, directory):
        self.esctl_program = programs / "actors/esctl/esctl"
        daemon = programs / "actors/easyscaled/easyscaled"
        self.processes = []
        self.log = directory / "daemons.log"
        try:
            self.endpoint = self._start(daemon, "--head", "--state", directory / "state",
                                        "--listen", "tcp://127.0.0.1:*", "--node", "head",
                                        "--devices", "none", "--data-root", "/",
                                        "--checkpoint-root", "/")
            for node, given in enumerate(devices):
                self._start(*NAMESPACE, daemon, "--join", self.endpoint, "--node", f"n{node}",
                            "--devices", given, "--run-dir", directory / f"n{node}")
        except BaseException:
            self.stop()
            raise

    def _start(self, *words):
        """Returns the endpoint of a daemon that is ready."""
        with self.log.open("a") as log:
            self.processes.append(start(*words, *WIRE, log=log))
        for line in self.processes[-1].stdout:
            if line.startswith("ready "):
                return line.split()[1]
        raise RuntimeError(f"a daemon has ended: {self.log.read_text()[-1000:]}")

    def words(self, *words):
        """A command of esctl."""
        return [str(word) for word in (self.esctl_program, *words, "--head", self.endpoint, *WIRE)]

    def json(self, *words):
        return json.loads(subprocess.run(self.words(*words, "--json"), check=True,
                                         stdout=subprocess.PIPE).stdout)

    def stop(self):
        for process in reversed(self.processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
