"""Makes the update of parameters that are alike from their steps."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...program import Numbers, Phase, Update
from ..graph import Meta, Ref
from .copies import is_state
from .errors import OptimizerRefused
from .kinds import Kind
from .lowered import Lowered, lower
from .recorder import Recorder, Structure


class NumbersOfModel:
    """The numbers of a model; those that are equal in all steps are one."""

    def __init__(self, steps: int):
        self.steps = steps
        self.numbers: list[Numbers] = []
        self._known: dict[bytes, int] = {}

    def add(self, at: np.ndarray, values: np.ndarray) -> int:
        """The index of what has these values [reductions + 1, step] at these steps."""
        rows = values[:1] if (values == values[0]).all() else values
        whole = np.zeros((len(rows), self.steps), np.float32)
        whole[:, at] = rows
        key = whole.tobytes()
        if key not in self._known:
            self._known[key] = len(self.numbers)
            self.numbers.append(Numbers(f"number.{len(self.numbers)}", whole.reshape(-1), len(rows) - 1))
        return self._known[key]


class Made:
    """Makes the update of one kind."""

    def __init__(self, kind: Kind, numbers: NumbersOfModel, recorder: Recorder):
        self.kind, self.recorder = kind, recorder
        of_step = np.array(kind.of_step)
        self.paths = [path for x in kind.structures for path in x.paths or [x]]
        self.lowered: list[Lowered] = [
            lower(structure, self._marks(np.flatnonzero(of_step == i), numbers), recorder)
            for i, structure in enumerate(kind.structures)]

    def _marks(self, at: np.ndarray, numbers: NumbersOfModel) -> list[Any]:
        """What stands at the marks of the structure of these steps."""
        first = self.kind.numbers[at[0]]
        table = np.array([[rows[step] for step in at] for rows in (self.kind.numbers, *self.kind.lowered)],
                         np.float64).reshape(1 + len(self.kind.lowered), len(at), -1)
        found: list[Any] = []
        for column in range(table.shape[2]):
            values = table[:, :, column]
            same = bool((values == values[0, 0]).all() or np.isnan(values).all())
            found.append(first[column] if same else Ref(numbers.add(at, values)))
        return found

    def update(self, parameters: Sequence[tuple[str, Tensor]]) -> Update:
        """The update of the parameters of the kind."""
        states = self._states()
        names = [parameters[i][0] for i in self.kind.members]
        programs = [lowered.program("update", states) for lowered in self.lowered]
        return Update(names, programs, self._phases())

    def _states(self) -> dict[str, Meta]:
        """What the next parameter depends on of what is kept."""
        needed = {"parameter"} | {name for structure in self.paths
                                  for name, value in structure.kept if is_state(name)
                                  and (meta := self._meta(structure, value)) is not None
                                  and meta.dtype == torch.float32}
        while True:
            more = set().union(*(lowered.read(needed) for lowered in self.lowered)) | needed
            if more == needed:
                break
            needed = more
        states: dict[str, Meta] = {}
        for structure in self.paths:
            for name, value in [*structure.inputs.items(), *structure.kept]:
                if name in needed and name not in ("parameter", "gradient"):
                    meta = self._meta(structure, value)
                    if meta is not None and states.setdefault(name, meta) != meta:
                        raise OptimizerRefused(f"its state {name} changes from {states[name]} to {meta}")
        for name, meta in states.items():
            if meta.dtype != torch.float32:
                raise OptimizerRefused(f"its state {name} has the type {meta.dtype}: allowed is float32")
        return states

    @staticmethod
    def _meta(structure: Structure, value: int) -> Meta | None:
        if value in structure.input_metas:
            return structure.input_metas[value]
        for (first, *_), metas in zip(structure.calls, structure.metas):
            if first <= value < first + len(metas):
                return metas[value - first]
        return None

    def _phases(self) -> list[Phase]:
        of_step = self.kind.of_step
        return [Phase(step, index) for step, index in enumerate(of_step)
                if step == 0 or of_step[step - 1] != index]
