"""Completed steps as an observer outside sees them, with the time at which a program prints
them."""

import os
import re
import statistics
import threading
import time
from dataclasses import dataclass

import runner

# A display on a terminal begins with "\r", and erases the rest of the line at its end.
LINE_END = re.compile(rb"[\r\n]|\x1b\[K")


@dataclass
class Step:
    time: float   # The value of time.monotonic() when its line arrived.
    number: int   # The number of the step, as the program counts.
    # The workers that computed it. They change when they are started again or others take part.
    workers: str


class StepStream:
    """Collects the steps that any number of outputs report. One thread reads each output.

    `parse` turns a line of text into (number, workers) or None."""

    def __init__(self, parse):
        self._parse = parse
        self._steps = []
        self._news = threading.Condition()

    def follow(self, descriptor):
        """Reads the file descriptor to its end and closes it."""
        threading.Thread(target=self._read, args=(descriptor,), daemon=True).start()

    def _read(self, descriptor):
        rest = b""
        while True:
            try:
                chunk = os.read(descriptor, 65536)
            except OSError:  # The program of the terminal has ended.
                chunk = b""
            if not chunk:
                os.close(descriptor)
                return
            now = time.monotonic()
            *lines, rest = LINE_END.split(rest + chunk)
            for line in lines:
                self._take(now, line.decode(errors="replace"))

    def _take(self, now, line):
        found = self._parse(line)
        if not found:
            return
        with self._news:
            # A progress display repeats a step when another part of the state of the job has
            # changed.
            if not self._steps or self._steps[-1].number != found[0]:
                self._steps.append(Step(now, *found))
                self._news.notify_all()

    @property
    def steps(self):
        with self._news:
            return list(self._steps)

    def wait(self, what, holds, after=0.0, deadline_s=120):
        """Returns the first step after `after` for which `holds` is true."""
        def search():
            return next((s for s in self._steps if s.time > after and holds(s)), None)
        with self._news:
            found = self._news.wait_for(search, deadline_s)
        if found is None:
            raise runner.BenchError(f"no step within {deadline_s} s: {what}")
        return found

    def wait_for_more(self, what, count, deadline_s=120):
        """Waits for this number of further steps. Returns the last one."""
        with self._news:
            wanted = len(self._steps) + count
            if not self._news.wait_for(lambda: len(self._steps) >= wanted, deadline_s):
                raise runner.BenchError(f"fewer than {count} steps within {deadline_s} s: {what}")
            return self._steps[-1]

    def usual_gap(self, count):
        """The median time between the newest `count` + 1 steps."""
        times = [s.time for s in self.steps[-count - 1:]]
        return statistics.median(b - a for a, b in zip(times, times[1:]))

    def longest_gap(self, begin, end):
        """The longest time without a completed step, from the step at `begin` to the one at
        `end`."""
        times = [s.time for s in self.steps if begin <= s.time <= end]
        return max(b - a for a, b in zip(times, times[1:]))
