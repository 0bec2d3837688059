"""TorchElastic as a contestant of scripts/bench elastic: torchrun agents and their workers."""

import os
import re
import shutil
import signal
import subprocess
import tempfile

import runner
from elastic_ours import GLOBAL_BATCH, WORKERS, free_port, processes
from step_stream import StepStream

SCRIPT = os.path.join(runner.ROOT, "tests", "bench", "elastic", "ddp_resnet18.py")
PYTHON = "/usr/bin/python3"
RESTARTS = 100  # With the default 0 the job ends at the first failure.
LINE = re.compile(r"step (\d+) (workers \d+ run \d+)")
STOP_S = 10
# The default 0 of both does not work in torch 1.13 with Python 3.11. With 2 the errors of workers
# go to files, and their output, which contains the steps, does not change.
STREAMS = ["--redirects", "2", "--tee", "2"]


def parse_line(line):
    found = LINE.search(line)
    return (int(found.group(1)), found.group(2)) if found else None


class Torch:
    """`nodes`: {name: number of workers}; the first one has the store of the rendezvous. Those in
    `running` start first. `command`: another program than SCRIPT, with its interpreter; it gets the
    directory as its last argument. `workers`: of a full group."""

    def __init__(self, nodes, running, options, command=None, workers=WORKERS):
        self.directory = tempfile.mkdtemp(prefix="es-bench-")
        self.steps = StepStream(parse_line)
        self._nodes, self._running, self._options = nodes, running, options
        self._workers = workers
        self._command = [*command, self.directory] if command else [
            PYTHON, SCRIPT, self.directory, str(GLOBAL_BATCH)]
        self._first = next(iter(nodes))
        self._port = free_port()
        self._agents = {}

    def __enter__(self):
        try:
            for name in self._running:
                self._start(name)
            self.steps.wait("torchrun begins", self._size(self._workers))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # Each agent is a process group, with its workers unless these have sessions of their own.
        workers = [pid for name in self._agents for pid in self.worker_pids(name)]
        for agent in self._agents.values():
            try:
                os.killpg(agent.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            agent.wait(STOP_S)
        for pid in workers:
            processes.send(pid, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self, name):
        most = self._workers // self._nodes[name]  # This number of nodes makes a full group.
        interpreter, *script = self._command
        words = [interpreter, "-m", "torch.distributed.run", "--nnodes", f"1:{most}",
                 "--nproc_per_node", str(self._nodes[name]),
                 "--max_restarts", str(RESTARTS), *STREAMS, "--log_dir", self.directory,
                 "--rdzv_id", "bench", "--rdzv_backend", "c10d",
                 "--rdzv_endpoint", f"127.0.0.1:{self._port}", *self._conf(name),
                 *script]
        with open(os.path.join(self.directory, f"{name}.log"), "wb") as log:
            agent = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=log, start_new_session=True,
                                     env=runner.one_core_environment())
        self._agents[name] = agent
        self.steps.follow(os.dup(agent.stdout.fileno()))
        agent.stdout.close()

    def _conf(self, name):
        """The options without those of the rendezvous, and the rendezvous options as one
        argument."""
        conf = [f"is_host={int(name == self._first)}"]
        words = list(self._options)
        if "--rdzv_conf" in words:
            at = words.index("--rdzv_conf")
            conf.append(words[at + 1])
            del words[at:at + 2]
        return [*words, "--rdzv_conf", ",".join(conf)]

    @staticmethod
    def _size(workers):
        return lambda step: step.workers.startswith(f"workers {workers} ")

    def recovered(self, workers):
        """All workers start again, so another process reports the steps."""
        before = self.steps.steps[-1].workers
        size = self._size(workers)
        return lambda step: step.workers != before and size(step)

    continues = recovered

    # --- events: each determines its action, and returns a function that performs it

    def worker_pids(self, name):
        agent = self._agents[name].pid
        # Newer versions of torchrun have other children, too.
        return sorted(pid for pid in processes.all_pids() if processes.parent_of(pid) == agent
                      and self._command[1] in processes.words_of(pid))

    def kill_worker(self, name):
        victim = self.worker_pids(name)[-1]
        return lambda: processes.send(victim, signal.SIGKILL)

    def lose_node(self, name):
        return lambda: os.killpg(self._agents[name].pid, signal.SIGKILL)

    def freeze_node(self, name):
        return lambda: os.killpg(self._agents[name].pid, signal.SIGSTOP)

    def join_node(self, name):
        return lambda: self._start(name)

    def scale_in(self, name):
        """To terminate an agent is the only way in which torchrun gives a node back."""
        return self._agents[name].terminate
