"""The memory of worker processes, as the kernel counts it, in MiB."""

import os
import re
import threading
from pathlib import Path

import elastic_ours

processes = elastic_ours.processes
TICK_S = 0.2


def workers_of(root):
    """The worker processes among the descendants of a process."""
    def descends(pid):
        while pid and pid != root:
            pid = processes.parent_of(pid)
        return pid == root
    return [pid for pid in processes.all_pids()
            if "worker" in processes.words_of(pid)[:2] and descends(pid)]


def begin_peak_anew(pid):
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def shared_bytes(pid):
    """Of the shared memory that a worker has made itself. Its peers have mapped the same pages, and
    RssShmem and VmHWM have those of the peers too."""
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(link).startswith("/memfd:es."):
            found += 512 * link.stat().st_blocks
    return found


def memory_mib(pid):
    """`Own`: what the worker takes of the machine, its own memory and the shared memory that it has
    made. Error: OSError if the process has ended."""
    text = Path(f"/proc/{pid}/status").read_text()
    mib = {key: int(re.search(rf"^{key}:\s+(\d+)", text, re.MULTILINE)[1]) / 1024
           for key in ("VmHWM", "RssAnon", "RssFile")}
    return mib | {"Own": mib["RssAnon"] + shared_bytes(pid) / 2**20}


class Watch:
    """The largest values of every worker of a process that were seen, asked for repeatedly."""

    def __init__(self, root):
        self.largest = {}  # pid -> {name: MiB}
        self._root = root
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set():
            for pid in workers_of(self._root):
                self.look(pid)
            self._stop.wait(TICK_S)

    def look(self, pid):
        try:
            now = memory_mib(pid)
        except (OSError, TypeError):  # It has ended, and has no values any more.
            return
        before = self.largest.setdefault(pid, now)
        self.largest[pid] = {key: max(value, before[key]) for key, value in now.items()}

    def stop(self):
        """Returns the values of every worker."""
        self._stop.set()
        self._thread.join()
        return list(self.largest.values())
