"""A line of progress on a terminal or in a notebook."""
from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

BAR = 20  # characters


def progress_line(view: dict[str, Any], seconds: float) -> str:
    """One line about a job that has been followed for this number of seconds.

    >>> progress_line({"steps": 5, "steps_total": 10, "loss_last": 1.5, "samples_per_s": 80.0,
    ...                "placement": "cpu-avx2:2", "state": "running"}, 10)
    'step 5/10 [##########..........] loss 1.5000  80 samples/s  cpu-avx2:2  running  10 s left'
    """
    done, total = view["steps"], max(1, view["steps_total"])
    filled = BAR * done // total
    parts = [f"step {done}/{view['steps_total']} [{'#' * filled}{'.' * (BAR - filled)}]"]
    if done and view.get("loss_last") is not None:
        parts[0] += f" loss {view['loss_last']:.4f}"
    if view.get("samples_per_s"):
        parts.append(f"{view['samples_per_s']:.0f} samples/s")
    parts += [text for text in (view.get("placement"), view["state"]) if text]
    if 0 < done < total:
        parts.append(f"{seconds * (total - done) / done:.0f} s left")
    return "  ".join(parts)


class Progress:
    """Shows the newest view of a job in place. Without a terminal or notebook it shows nothing."""

    def __init__(self, enabled: bool):
        in_notebook = "ipykernel" in sys.modules
        self._out: TextIO = sys.stdout if in_notebook else sys.stderr
        self._shows = enabled and (in_notebook or self._out.isatty())
        self._began = time.monotonic()
        self._width = 0

    def show(self, view: dict[str, Any]) -> None:
        """Replaces the line."""
        if self._shows:
            self.line(progress_line(view, time.monotonic() - self._began))

    def line(self, line: str) -> None:
        """Replaces the line by another text."""
        if not self._shows:
            return
        self._out.write("\r" + line.ljust(self._width))
        self._out.flush()
        self._width = len(line)

    def end(self) -> None:
        """Ends the line."""
        if self._shows and self._width:
            self._out.write("\n")
            self._out.flush()


PATIENCE = 3.0  # seconds


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function (done, total) that shows how far a long computation is, as Progress does."""
    progress, began, shown = Progress(True), time.monotonic(), False

    def report(done: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() - began > PATIENCE:
            shown = True
            progress.line(f"{what} {done}/{total}")
    try:
        yield report
    finally:
        if shown:
            progress.end()
