"""Processes of a cluster under test: how they are started and signalled, and what the kernel
reports about them."""
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

TICK_S = 0.02


def nap(seconds=TICK_S):
    """A pause in a loop that polls for a condition."""
    threading.Event().wait(seconds)


def parent_of(pid):
    """The parent of a process; None when the process has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def words_of(pid):
    try:
        return (Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                .rstrip("\0").split("\0"))
    except OSError:
        return []


def all_pids():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def send(pid, number):
    """Signals a process that may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def resident_kib(pid):
    """Memory of the process alone, because shared memory changes with other processes. Pages that
    the kernel has written to swap, because the process was idle, are included."""
    text = Path(f"/proc/{pid}/status").read_text()
    return sum(int(kib) for kib in re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+)", text, re.MULTILINE))


# The files that a database has open change when it compacts them.
_OF_DATABASE = re.compile(r"/db/")


def open_files(pid):
    """How many file descriptors lead to each target: {"socket": 12, "/path/of/a/log": 1}."""
    counts = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if _OF_DATABASE.search(target):
            continue
        kind = re.sub(r":.*", "", target) if not target.startswith("/") else target
        counts[kind] = counts.get(kind, 0) + 1
    return counts


class Worker:
    """A worker process of a daemon, found by its command line."""

    def __init__(self, pid, words):
        self.pid = pid
        self.job = _option(words, "--job")
        self.incarnation = int(_option(words, "--incarnation") or 0)
        self.device = f"{_option(words, '--device')}#{_option(words, '--device-index')}"


def _option(words, name):
    return words[words.index(name) + 1] if name in words else None


class Daemon:
    """An easyscaled that can be killed, frozen and started again. Its output is in one file."""

    def __init__(self, name, words, environment, log_file):
        self.name, self.words, self.environment, self.log_file = name, words, environment, log_file
        self.process = None

    def start(self):
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen([str(word) for word in self.words], stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL,
                                            env=self.environment)
        self._output_begin = begin

    @property
    def pid(self):
        return self.process.pid

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def said(self, pattern):
        """The first match in its output since its start."""
        with self.log_file.open("rb") as log:
            log.seek(self._output_begin)
            return re.search(pattern, log.read().decode(errors="replace"), re.MULTILINE)

    def kill(self):
        if self.runs():
            self.process.kill()
            self.process.wait()

    def stop(self, deadline_s):
        """Sends SIGTERM. Returns the exit status, None when the process had to be killed."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def workers(self):
        """Its worker processes, ordered by device, so that a choice by number is the same in a
        replay."""
        found = []
        for pid in all_pids():
            if parent_of(pid) == self.pid:
                words = words_of(pid)
                if "worker" in words[:2]:
                    found.append(Worker(pid, words))
        return sorted(found, key=lambda worker: (worker.device, worker.incarnation))
