"""Observes a job from outside while it runs: its steps and its pauses. Also observes the
daemons."""
import threading
import time

import processes

OVER = ("finished", "failed", "cancelled")
LONG_PAUSE_S = 8  # Pauses longer than this are printed.


class Watch:
    """Asks for the state of one job repeatedly, on a thread of its own."""

    def __init__(self, cluster, job, say=None):
        self.cluster, self.job, self.say = cluster, job, say
        self.latest = None       # The newest description.
        # The longest time between two new steps, by the answers of the head.
        self.worst_pause = 0.0
        self._moved = None       # The time of the answer with the newest step.
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set():
            details = self.cluster.describe(self.job)
            if details:
                self._see(details)
            if self.over():
                return
            self._stop.wait(processes.TICK_S)

    def _see(self, details):
        now = time.monotonic()
        steps, before = details["steps"], self.steps
        if steps > before:
            if before > 0:
                self._pause(now - self._moved, before)
            self._moved = now
        self.latest = details

    def _pause(self, seconds, step):
        self.worst_pause = max(self.worst_pause, seconds)
        if self.say and seconds > LONG_PAUSE_S:
            self.say(f"long pause: {seconds:.1f} s after step {step}; the end of the log:\n"
                     + self.cluster.job_log(self.job)[-1500:])

    @property
    def steps(self):
        return self.latest["steps"] if self.latest else 0

    def over(self):
        return self.latest is not None and self.latest["state"] in OVER

    def stop(self):
        self._stop.set()
        self._thread.join()


class Resources:
    """Memory and file descriptors of the daemons while there is no job."""

    GROWTH = 0.05
    SLACK_KIB = 8192  # For arenas of the allocator and tables of the database.

    def __init__(self, cluster):
        self.cluster = cluster
        self.before = self._sample()

    def _sample(self):
        return {name: (daemon.pid, processes.resident_kib(daemon.pid),
                       processes.open_files(daemon.pid))
                for name, daemon in self.cluster.daemons.items() if daemon.runs()}

    def grown(self):
        """Describes what has grown. A daemon that was replaced may also have less."""
        wrong = []
        for name, (pid, memory, files) in self._sample().items():
            pid_before, memory_before, files_before = self.before[name]
            more = {kind: (files_before.get(kind, 0), count) for kind, count in files.items()
                    if count > files_before.get(kind, 0)}
            if pid == pid_before:
                more.update({kind: (count, 0) for kind, count in files_before.items()
                             if kind not in files})
            if more:
                wrong.append(f"file descriptors of {name}, before and after: {more}")
            if memory > memory_before * (1 + self.GROWTH) + self.SLACK_KIB:
                wrong.append(f"memory of {name}: {memory_before} KiB before, {memory} KiB after")
        return wrong
