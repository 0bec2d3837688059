"""Which integers an input of a model takes, by the place in a sample."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Runs = tuple[tuple[int, int], ...]  # ascending and apart; both ends of a run belong to it

INT32 = np.iinfo(np.int32)
EVERY: Runs = ((int(INT32.min), int(INT32.max)),)


@dataclass(frozen=True)
class Allowed:
    """`runs` are the integers that are allowed at some places of a sample, and `places` has for
    every place the number of its runs; None if all places are alike."""

    runs: tuple[Runs, ...]
    places: np.ndarray | None = None

    @staticmethod
    def between(low: int, high: int) -> Allowed:
        """The integers of one range at all places."""
        return Allowed((((low, high),),))

    def is_one_range(self) -> bool:
        """Whether the ends say everything."""
        return len(self.runs) == 1 and len(self.runs[0]) == 1

    def ends(self) -> tuple[int, int]:
        """The least and the largest integer that some place takes; (0, 0) if there is none."""
        every = [run for runs in self.runs for run in runs] or [(0, 0)]
        return min(run[0] for run in every), max(run[1] for run in every)

    def wrong(self, piece: np.ndarray) -> np.ndarray:
        """The truth value for each integer of [samples, ...] that is not allowed."""
        found = np.zeros(piece.shape, bool)
        for number, runs in enumerate(self.runs):
            outside = np.ones(piece.shape, bool)
            for low, high in runs:
                outside &= (piece < low) | (piece > high)
            found |= outside if self.places is None else outside & (self.places == number)
        return found

    def at(self, place: tuple[int, ...]) -> str:
        """The integers that a place of a sample takes, as a text."""
        runs = self.runs[0 if self.places is None else self.places[place]]
        return runs_text(runs) + ("" if self.places is None else f" at {list(place)} of a sample")


def runs_text(runs: Runs) -> str:
    """As "0 to 9, and -100": the longest run first."""
    if not runs:
        return "none"
    longest = max(runs, key=lambda run: run[1] - run[0])
    rest = [str(low) if low == high else f"{low} to {high}" for low, high in runs
            if (low, high) != longest]
    return ", and ".join([f"{longest[0]} to {longest[1]}", *rest])


def both(first: Runs, second: Runs) -> Runs:
    """The integers of both."""
    found = ((max(a[0], b[0]), min(a[1], b[1])) for a in first for b in second)
    return tuple(run for run in found if run[0] <= run[1])
