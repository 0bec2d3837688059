"""Finds float64 numbers whose differences fp32 loses.

Rounding to fp32 is harmless for most data: 0.1 changes by a part in 10^8. It is not where numbers are
large and their differences matter, as of times in seconds since 1970, which fp32 has in steps of 128.
The rule: two neighbours are the same element of consecutive samples, or consecutive elements of a
sample. Of the neighbours that differ in float64, by more than a part in 2^40, at most one pair in 100
may be equal in fp32.
"""
from __future__ import annotations

import numpy as np

from ..errors import UsageError

LOST_MAX = 0.01    # of the pairs that differ
NOISE = 2.0 ** -40  # smaller differences, as a part of the numbers, come from rounding in float64
REMEDY = ("the engine computes in fp32: subtract an offset before (x - x.min()), give whole numbers as "
          "integers, or give float32 (astype) if this rounding is right")


class Rounding:
    """What rounding loses of one array, which comes in pieces [samples, ...]."""

    def __init__(self, name: str):
        self._name = name
        self._before: np.ndarray | None = None  # the last sample of the last piece
        self._differ = self._lost = np.zeros(0, np.int64)  # pairs, by the place in a sample
        self._samples = 0  # of the pieces so far
        self._example: dict[int, tuple[int, float, float]] = {}  # place -> sample and its numbers

    def add(self, piece: np.ndarray) -> None:
        """Looks at the next samples; only numbers of float64 can lose anything."""
        if piece.dtype != np.float64 or not piece.size:
            return
        rows = piece.reshape(len(piece), -1)
        above = rows if self._before is None else np.concatenate([self._before, rows])
        self._count(rows[:, :-1], rows[:, 1:], self._samples, 0)
        self._count(above[:-1], above[1:], self._samples + len(rows) - len(above),
                    rows.shape[1] - 1)
        self._before = rows[-1:].copy()
        self._samples += len(rows)

    def _count(self, x: np.ndarray, y: np.ndarray, begin: int, first: int) -> None:
        if not x.size:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            differ = np.abs(x - y) > NOISE * np.maximum(np.abs(x), np.abs(y))
            lost = differ & (x.astype(np.float32) == y.astype(np.float32))
        end = first + x.shape[1]
        for counts in ("_differ", "_lost"):
            found = getattr(self, counts)
            setattr(self, counts, np.pad(found, (0, max(0, end - len(found)))))
        self._differ[first:end] += differ.sum(0)
        self._lost[first:end] += lost.sum(0)
        for place in np.flatnonzero(lost.any(0)).tolist():
            row = int(np.argmax(lost[:, place]))
            self._example.setdefault(first + place, (begin + row, float(x[row, place]),
                                                     float(y[row, place])))

    def check(self) -> None:
        """Raises UsageError if differences are lost; it names two numbers that become equal."""
        for place, (sample, x, y) in sorted(self._example.items()):
            if self._lost[place] <= LOST_MAX * self._differ[place]:
                continue
            raise UsageError(
                f"{self._name}: the float64 numbers {x!r} and {y!r}, in sample {sample} and beside "
                f"it, are both {float(np.float32(x))!r} in fp32, and so are {self._lost[place]} of "
                f"{self._differ[place]} such neighbours: {REMEDY}")
