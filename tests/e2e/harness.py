"""Harness of the end-to-end tests: the real programs on this machine, used as a user would.

A test file ends with `harness.main()`; the build gives it the programs:

    NAME_test.py ESCTL EASYSCALED SOURCE_ROOT [arguments of unittest]

Every test case has a directory of its own. Whatever it starts lives in it, and after the test no
process may have the directory in its command line and no shared memory may carry its job names.
Nothing here sleeps: tests wait for a line of output, for the end of a process, or with wait_until.
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

# The deadlines are long: on a busy machine too, only a hang exceeds them.
DEADLINE_S = 240
POLL_S = 0.02
SKIPPED = 77  # The exit status that Meson takes for "skipped".

EXIT_FAILURE, EXIT_USAGE, EXIT_NOT_FOUND, EXIT_REFUSED = 1, 2, 3, 4

ALL_CLASSES = ["cpu-scalar", "cpu-avx2", "cpu-avx512"]

esctl_program = None
easyscaled_program = None
source_root = None


def main():
    """Runs the tests of the calling file."""
    global esctl_program, easyscaled_program, source_root
    if len(sys.argv) < 4:
        sys.exit(f"usage: {sys.argv[0]} ESCTL EASYSCALED SOURCE_ROOT [arguments of unittest]")
    esctl_program, easyscaled_program, source_root = (
        Path(argument).resolve() for argument in sys.argv[1:4])
    ended = unittest.main(module="__main__", argv=sys.argv[:1] + sys.argv[4:], verbosity=2,
                          exit=False).result
    if not ended.wasSuccessful():
        sys.exit(1)
    if ended.testsRun > 0 and len(ended.skipped) == ended.testsRun:
        sys.exit(SKIPPED)


def seeded_random(name):
    """The random numbers of a test; ES_SEED replays a run."""
    seed = int(os.environ.get("ES_SEED", "20231112"))
    print(f"seed {name}: replay with ES_SEED={seed}", flush=True)
    return random.Random(f"{name} {seed}")


def one_flipped_bit(directory):
    """The environment in which one bit of a gradient is flipped, in the first process that comes
    to a step. Comparisons of bits must notice it (tests/support/broken_bits.py)."""
    token = directory / "fault-token"
    token.touch()
    return {"ES_FAULT": f"flip-gradient:*:{os.environ['ES_BREAK_BITS']}:*",
            "ES_FAULT_TOKEN": str(token)}


def free_port():
    """The number of a TCP port of the loopback address that is free, and that the kernel gives to
    no connection: a client that tries to connect while nothing listens there may otherwise get
    this very port, and occupies it."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [port for port in range(10_000, 65_536) if not low <= port <= high]
    while True:
        port = random.SystemRandom().choice(ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass  # It is in use.


def stage_from(first):
    """A pattern for the progress of a run in this stage or a later one: a busy machine may show the
    first stages late."""
    return f"stage ({'|'.join(map(str, range(first, 1000)))}) "


def wait_until(what, probe, deadline_s=DEADLINE_S, state=lambda: ""):
    """Returns the first true value of probe(). Only this function polls. After the deadline the
    error contains the result of state()."""
    pause = threading.Event()
    end = time.monotonic() + deadline_s
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}\n{state()}")
        pause.wait(POLL_S)


class Ended:
    """A process that has ended: code, out, err."""

    def __init__(self, words, code, out, err):
        self.words, self.code, self.out, self.err = words, code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    def __str__(self):
        command = " ".join(str(word) for word in self.words)
        return f"{command}\nexit status {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


class Running:
    """A process whose lines of output can be waited for."""

    def __init__(self, words, environment, directory):
        self.words = words
        self.process = subprocess.Popen([str(word) for word in words], env=environment, text=True,
                                        cwd=directory, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._lines = {"out": [], "err": []}
        self._news = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, "out"), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, "err"), daemon=True)]
        self._open = len(self._readers)
        for reader in self._readers:
            reader.start()

    def _read(self, stream, name):
        for line in stream:
            with self._news:
                self._lines[name].append(line)
                self._news.notify_all()
        stream.close()
        with self._news:
            self._open -= 1
            self._news.notify_all()

    @property
    def pid(self):
        return self.process.pid

    @property
    def out(self):
        return "".join(self._lines["out"])

    @property
    def err(self):
        return "".join(self._lines["err"])

    def wait_for_line(self, pattern, stream="err", deadline_s=DEADLINE_S):
        """The match in the first line that contains the pattern."""
        expression = re.compile(pattern)

        def search():
            for line in self._lines[stream]:
                match = expression.search(line)
                if match:
                    return match
            return "closed" if self._open == 0 else None

        with self._news:
            found = self._news.wait_for(search, deadline_s)
        if found in (None, "closed"):
            raise AssertionError(f"no line with {pattern!r} on {stream}: {self._ended_so_far()}")
        return found

    def _ended_so_far(self):
        return Ended(self.words, self.process.poll(), self.out, self.err)

    def wait(self, deadline_s=DEADLINE_S):
        """Waits for its end."""
        try:
            code = self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {deadline_s} s: {self._ended_so_far()}")
        for reader in self._readers:
            reader.join(deadline_s)
        return Ended(self.words, code, self.out, self.err)

    def stop(self, number, deadline_s=DEADLINE_S):
        """Sends a signal and waits for the end of the process."""
        self.process.send_signal(number)
        return self.wait(deadline_s)


def command_lines():
    """pid -> command line of every process; a zombie has none."""
    lines = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # It has just ended.
            lines[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace")
    return lines


class EndToEndTest(unittest.TestCase):
    """A test case with a directory, programs that run in it, and a check that nothing is left."""

    _classes = None

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="es-"))
        self.word = self.directory.name  # A part of the names of all jobs of this test.
        # The directory in which `esctl run` makes its own directory.
        self.temporary = self.directory / "tmp"
        self.temporary.mkdir()
        self._running = []
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("ES_", "XDG_"))}
        self.environment.update(HOME=str(self.directory), TMPDIR=str(self.temporary),
                                EASYSCALED=str(easyscaled_program))
        if "ES_BREAK_BITS" in os.environ:
            self.environment.update(one_flipped_bit(self.directory))
        self.addCleanup(self._end)

    def _end(self):
        for running in self._running:
            if running.process.poll() is None:
                running.process.send_signal(signal.SIGTERM)
        for running in self._running:
            try:
                running.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()
        left = self.left_behind()
        for pid in left["processes"]:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.assertEqual(left, {"processes": {}, "memory": [], "directories": []})

    def left_behind(self):
        """Things that a finished command must not leave: processes, shared memory, private
        directories."""
        mine = str(self.directory)
        return {
            "processes": {pid: line for pid, line in command_lines().items() if mine in line},
            "memory": sorted(p.name for p in Path("/dev/shm").glob(f"es.*{self.word}*")),
            "directories": sorted(p.name for p in self.temporary.iterdir())}

    def assert_nothing_left(self):
        self.assertEqual(self.left_behind(), {"processes": {}, "memory": [], "directories": []})

    # --- programs

    def start(self, *words):
        running = Running(words, self.environment, self.directory)
        self._running.append(running)
        return running

    def start_esctl(self, *words):
        return self.start(esctl_program, *words)

    def esctl(self, *words, code=0, deadline_s=DEADLINE_S):
        """Runs a command of esctl to its end, and checks the exit status."""
        ended = self.start_esctl(*words).wait(deadline_s)
        self.assertEqual(ended.code, code, str(ended))
        return ended

    def run_job(self, job, *options, deadline_s=DEADLINE_S):
        """The summary of `esctl run`."""
        return self.esctl("run", job, "--json", "--quiet", *options, deadline_s=deadline_s).json

    def assert_bits_of_fixed_run(self, job, taken, device):
        """`taken`: the answer of `esctl checkpoint`. At that step the job has the parameters and
        the state of the same job on one device of a type."""
        fixed = self.run_job(job, "--steps", taken["version"], "--devices", f"{device}:1",
                             deadline_s=4 * DEADLINE_S)  # The job may have made many steps.
        self.assertEqual(digests(taken), digests(fixed))

    def write_job(self, text, name="job.toml"):
        path = self.directory / name
        path.write_text(text)
        return path

    # --- the machine

    def classes(self):
        """The kernel classes that this machine executes, as the programs find them."""
        if EndToEndTest._classes is None:
            daemon = self.start_daemon("classes")
            devices = daemon.json("nodes")["nodes"][0]["devices"]
            daemon.stop()
            EndToEndTest._classes = {device["type"] for device in devices}
        return EndToEndTest._classes

    def can_use(self, stages):
        """Returns whether the machine has all classes of these stages. Prints a note if not."""
        missing = [c for c in ALL_CLASSES if c in stages and c not in self.classes()]
        if missing:
            print(f"skipped: {stages}: this machine has no {', '.join(missing)}", flush=True)
        return not missing

    def fast_class(self):
        return "cpu-avx2" if "cpu-avx2" in self.classes() else "cpu-scalar"

    def other_class(self):
        return "cpu-avx512" if "cpu-avx512" in self.classes() else "cpu-scalar"

    # --- daemons

    def start_daemon(self, name="head", devices="", options=(), esctl_options=()):
        """A head that is ready. Its socket and its state are in a directory of its own."""
        directory = self.directory / name
        directory.mkdir(mode=0o700)
        endpoint = f"ipc://{directory}/head.sock"
        words = [easyscaled_program, "--head", "--state", directory / "state", "--listen", endpoint,
                 "--node", name]
        if devices:
            words += ["--devices", devices]
        running = self.start(*words, *options)
        return Daemon(self, running, esctl_options)


class Daemon:
    """A running head, and esctl with its endpoint."""

    def __init__(self, test, running, esctl_options=()):
        self.test, self.running = test, running
        self.endpoint = running.wait_for_line(r"^ready (\S+)", stream="out").group(1)
        self.wire = list(esctl_options)

    def esctl(self, *words, code=0):
        return self.test.esctl(*words, "--head", self.endpoint, *self.wire, code=code)

    def kill_one_of_two(self, job, device, steps):
        """Kills the worker on a device of this type, and waits until another one has trained so long."""
        def trains(d):
            return (d["state"] == "running" and len(d["workers"]) == 2
                    and all(w["pid"] > 0 for w in d["workers"]))
        before = self.wait_for(job, "two workers train", lambda d: trains(d) and d["steps"] >= 3)
        [pid] = [w["pid"] for w in before["workers"] if device in w["device"]]
        os.kill(pid, signal.SIGKILL)
        self.wait_for(job, "another worker trains", lambda d: (
            trains(d) and d["steps"] > before["steps"] + steps
            and pid not in {w["pid"] for w in d["workers"]}))

    def json(self, *words):
        return self.esctl(*words, "--json").json

    def submit(self, job, *options):
        """The id of the accepted job."""
        return self.json("submit", job, *options)["job"]

    def describe(self, job):
        return self.json("describe", job)

    def suspects(self):
        """The devices that audits have taken out of use, as NODE/TYPE:INDEX."""
        return [f"{node['name']}/{device['type']}:{device['index']}"
                for node in self.json("nodes")["nodes"] for device in node["devices"]
                if device["suspect"]]

    def wait_for(self, job, what, holds):
        """The first description of the job for which `holds` is true. The job may not fail
        meanwhile."""
        last = {}

        def probe():
            details = self.describe(job)
            last.update(details)
            if details["state"] == "failed" and what != "failed":
                raise AssertionError(f"{job} failed while waiting for {what}: {details['error']}")
            return details if holds(details) else None
        return wait_until(f"{job}: {what}", probe, state=lambda: f"last seen: {last}")

    def wait_for_state(self, job, state):
        return self.wait_for(job, state, lambda details: details["state"] == state)

    def whole_log(self, job):
        """The log of a job that is over. Its last line comes when its workers have ended."""
        return wait_until(f"{job}: the end of its log", lambda: (
            lambda log: log if " job ended: " in log else None)(self.esctl("logs", job).out))

    def wait_for_step(self, job, step):
        return self.wait_for(job, f"step {step}", lambda details: details["steps"] >= step)

    def stop(self):
        """Sends SIGTERM. The daemon must end in good order."""
        ended = self.running.stop(signal.SIGTERM)
        self.test.assertEqual(ended.code, 0, str(ended))
        return ended


def digests(summary):
    return summary["params_digest"], summary["state_digest"]
