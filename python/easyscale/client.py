"""A client of a head: the jobs of a cluster, and what can be done with them.

    client = es.Client("tcp://10.0.0.1:7070", keys="keys")
    for view in client.follow("resnet18-1"):
        print(view["steps"], view["loss_last"])

Answers are dicts with the keys that `esctl --json` prints (docs/reference/command-line.md). A step
is a whole number, a speed is in samples per second, and a digest is hexadecimal text.
"""
from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .errors import FailedError, NotFoundError
from .programs import run_json, run_lines

AWAY_SECONDS = 300.0
ENDED = ("finished", "failed", "cancelled", "timed-out")
Answer = dict[str, Any]


class Client:
    """Talks to one head through `esctl`.

    `head` is an endpoint, ipc:///PATH or tcp://HOST:PORT; without it ES_HEAD or the default of
    `esctl` is used. `keys` is the directory of CURVE keys that tcp needs. Every method raises
    UsageError, NotFoundError, RefusedError or FailedError with the text of `esctl`.
    """

    def __init__(self, head: str | None = None, keys: str | Path | None = None,
                 insecure_loopback: bool = False):
        self.watch: Callable[[], None] | None = None  # called while an answer is awaited
        # The options of `esctl` that name the head.
        self.options = [*(["--head", head] if head else []),
                         *(["--keys", str(keys)] if keys else []),
                         *(["--insecure-loopback"] if insecure_loopback else [])]

    def submit(self, job_file: str | Path, stages: str | None = None,
               from_checkpoint: str | Path | None = None) -> str:
        """Submits a job file and returns the id of the job."""
        options = [*(["--stages", stages] if stages else []),
                   *(["--from", str(from_checkpoint)] if from_checkpoint else [])]
        return self._ask("submit", str(job_file), *options)["job"]

    def jobs(self) -> list[Answer]:
        """All jobs in the order in which they were submitted, as `describe` returns them."""
        return self._ask("ps", "--all")["jobs"]

    def describe(self, job: str) -> Answer:
        """A job: state, steps, losses, speed, digests, stages, evaluations, workers, job file."""
        return self._ask("describe", job)

    def follow(self, job: str, interval: float = 0.5) -> Iterator[Answer]:
        """Yields `describe(job)` whenever it has changed, until the job has ended.

        The head is asked every `interval` seconds, and more often at the beginning. The job goes on
        while its head is restarted or its machine is very busy, so a head that has answered once
        may be away for AWAY_SECONDS before its error is raised.
        """
        last: Answer | None = None
        pause = min(0.05, interval)
        answered = 0.0
        while last is None or last["state"] not in ENDED:
            if last is not None:
                time.sleep(pause)
                pause = min(interval, 1.5 * pause)
            try:
                view = self.describe(job)
            except (FailedError, NotFoundError):
                if self.watch:
                    self.watch()  # raises if the head will not come back
                if last is None or time.monotonic() > answered + AWAY_SECONDS or self._answers():
                    raise
                continue
            answered = time.monotonic()
            if view != last:
                last = view
                yield view

    def _answers(self) -> bool:
        """Whether the head answers, so that an error is one of the job."""
        try:
            self._ask("nodes")
        except (FailedError, NotFoundError):
            return False
        return True

    async def async_follow(self, job: str, interval: float = 0.5) -> AsyncIterator[Answer]:
        """Like `follow`, for `async for`; the event loop is not blocked."""
        views = self.follow(job, interval)
        while (view := await asyncio.to_thread(next, views, None)) is not None:
            yield view

    def scale(self, job: str, devices: str) -> Answer:
        """Moves a running job to exactly these devices: "cpu-avx2:2", or "auto"."""
        return self._ask("scale", job, devices)

    def budget(self, job: str, amount: float) -> Answer:
        """Changes the most that a job may spend; 0 for no budget. A job paused by it continues."""
        return self._ask("budget", job, str(amount))

    def pause(self, job: str) -> Answer:
        """Saves a job at its next step boundary and frees its devices."""
        return self._ask("pause", job)

    def resume(self, job: str, accept_loss: bool = False) -> Answer:
        """Continues a paused job; `accept_loss` gives up saved states that no node can read."""
        return self._ask("resume", job, *(["--accept-loss"] if accept_loss else []))

    def checkpoint(self, job: str, to: str | Path | None = None) -> Answer:
        """Writes a checkpoint at the next step boundary: path, version (a step), digests.

        `to` is a new directory on the node; without it the head chooses one.
        """
        return self._ask("checkpoint", job, *(["--to", str(to)] if to else []))

    def cancel(self, job: str) -> Answer:
        """Stops a job; its weights are lost unless a checkpoint was written before."""
        return self._ask("cancel", job)

    def remove(self, *jobs: str) -> Answer:
        """Removes jobs that are over, with their ledgers, evaluations and logs.

        Their checkpoints stay.
        """
        return self._ask("rm", *jobs)

    def logs(self, job: str, follow: bool = False, worker: int | None = None,
             node: str | None = None) -> Iterator[str]:
        """Yields the lines of a job's log, with `follow` until the job ends.

        With the number of a `worker` those of its log, with `follow` until it ends. Name the `node`
        of a worker that has ended.
        """
        words = [*(["--follow"] if follow else []),
                 *(["--worker", str(worker)] if worker is not None else []),
                 *(["--node", node] if node is not None else [])]
        return (line["line"] for line in run_lines(["logs", job, *words, *self.options]))

    def ledger(self, job: str | Path, first: int = 0, last: int = 0) -> list[Answer]:
        """The steps `first` to `last` (0: all) of a job or of a ledger file.

        A step has its number, the loss of every EST, their bits, and the parameters' digest.
        """
        limits = [*(["--from", str(first)] if first else []), *(["--to", str(last)] if last else [])]
        return self._ask("ledger", str(job), *limits)["lines"]

    def diff(self, a: str | Path, b: str | Path, deep: bool = False) -> Answer:
        """Compares two runs, each a job or a ledger file: identical, compared, first difference.

        `deep` runs the first differing step again and names the first operator with other bits.
        """
        return self._ask("diff", str(a), str(b), *(["--deep"] if deep else []))

    def verify(self, job_file: str | Path, stages: Sequence[str],
               steps: int | None = None) -> Answer:
        """Trains a job file on this machine once for each of `stages`, and compares all bits."""
        options = [word for entry in stages for word in ("--stages", entry)]
        if steps is not None:
            options += ["--steps", str(steps)]
        return run_json(["verify", str(job_file), *options, "--quiet"])

    def nodes(self, clear: str | None = None) -> list[Answer]:
        """The nodes with their devices; `clear` names a suspect device to use again."""
        return self._ask("nodes", *(["--clear", clear] if clear else []))["nodes"]

    def _ask(self, command: str, *words: str) -> Any:
        return run_json([command, *words, *self.options], self.watch)
