"""Metrics of evaluations: names that the nodes compute, and functions that this process calls."""
from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .errors import NotFoundError, UsageError
from .folders import TemporaryFolder
from .program import Program
from .programs import run_json

NAMES = ("loss", "accuracy", "top2", "f1", "f1_binary", "auc", "map", "mse", "mae")
TOP = re.compile(r"top[1-9][0-9]{0,3}")

Function = Callable[[Any, Any], Any]


def named(metrics: Sequence[str]) -> list[str]:
    """The metrics of a job file; every evaluation has the loss. Raises UsageError."""
    for metric in metrics:
        if metric not in NAMES and not (isinstance(metric, str) and TOP.fullmatch(metric)):
            raise UsageError(f"metric {metric!r}: allowed are {', '.join(NAMES)} (or another number "
                             "behind top)")
    return [metric for metric in metrics if metric != "loss"]


class Measure:
    """A function (outputs, labels) -> number of the evaluation samples of a job.

    It is called here with the outputs that a checkpoint gives, so no step waits for it. `samples`
    is a folder with NAME.npy for every input of the model.
    """

    def __init__(self, function: Function, program: Program, samples: Path):
        self._function, self._samples = function, samples
        self._name = getattr(function, "__name__", "metric")
        read = program.inputs_of_outputs()
        self._targets = [x.name for x in program.inputs if x.name not in read]

    def of(self, checkpoint: Path) -> dict[str, float]:
        """The values for a checkpoint, by their names; none if the checkpoint is gone already."""
        try:
            with TemporaryFolder("metric-") as folder:
                file = folder / "outputs.npz"
                run_json(["predict", str(checkpoint), str(self._samples), "--out", str(file)])
                with np.load(file) as archive:
                    outputs = {name: archive[name] for name in archive.files}
        except NotFoundError:
            return {}
        labels = {name: np.load(self._samples / f"{name}.npy", mmap_mode="r")
                  for name in self._targets}
        return self._numbers(self._function(_alone(outputs), _alone(labels)))

    def _numbers(self, found: Any) -> dict[str, float]:
        values = found if isinstance(found, Mapping) else {self._name: found}
        try:
            return {str(name): float(value) for name, value in values.items()}
        except (TypeError, ValueError) as error:
            raise UsageError(f"metric {self._name} has returned {found!r}: allowed is a number, or "
                             "a dict of numbers") from error


def _alone(arrays: Mapping[str, Any]) -> Any:
    """One array as it is, and several of them as a dict."""
    return next(iter(arrays.values())) if len(arrays) == 1 else dict(arrays)
