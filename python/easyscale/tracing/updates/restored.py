"""Gives the state of an optimizer back to torch: tensors of a checkpoint, and numbers of the same steps."""
from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ...errors import UsageError
from ...optimizers import class_name, listed
from ...schedules import schedulers_of
from .capturing import capturing
from .copies import (IMPLEMENTATIONS, Loop, copied_optimizer, history_of, keeps_lists, optimizers,
                     tensors_in)
from .errors import explained
from .kinds import kinds_of
from .steps import Branches, Run
from .together import parts_of, together


class Start:
    """The optimizers and schedulers of a job as they were at its beginning.

    `parameters` are all of the model and its loss by name, and `trained` the names of those that are
    trained.
    """

    def __init__(self, optimizer: Any, schedule: Any, every: int,
                 parameters: Sequence[tuple[str, Tensor]], trained: Sequence[str]):
        given = together(listed(optimizer))
        self.trained = [(name, dict(parameters)[name]) for name in trained]
        self.names = {id(tensor): name for name, tensor in parameters}
        memo: dict[int, Any] = {id(p): p for group in given.param_groups for p in group["params"]}
        states = history_of(given)
        metas = {key: torch.empty(state.tensor.shape, device="meta") for key, state in states.items()}
        memo |= metas
        copied = copied_optimizer(given, memo)
        schedulers = copy.deepcopy(schedulers_of(schedule), memo)
        self.loop = Loop(copied, schedulers, every, 0, {
            id(metas[key]): state._replace(tensor=metas[key]) for key, state in states.items()})

    def load_into(self, optimizer: Any, schedule: Any, steps: int, names: Mapping[int, str],
                  contents: Mapping[str, np.ndarray]) -> None:
        """Fills optimizers and schedulers, whose parameters have these names by their ids, with what they
        have after these steps. `contents` are those of the states, as STATE.PARAMETER."""
        fill(self.found(optimizer, schedule, steps, names, contents))

    def found(self, optimizer: Any, schedule: Any, steps: int, names: Mapping[int, str],
              contents: Mapping[str, np.ndarray]) -> list[tuple[Any, dict[str, Any]]]:
        """What load_into() fills, and with which state dicts. Nothing is changed."""
        parts, own = listed(optimizer), parts_of(self.loop.optimizer)
        if [type(x) for x in parts] != [type(x) for x in own]:
            raise UsageError(f"load_into: optimizer is {class_name(parts)}: allowed is {class_name(own)}, as "
                             "in the job")
        for part, mine in zip(parts, own):
            self._check_groups(part, mine, names)
        schedulers = schedulers_of(schedule)
        if schedule is not None and [type(x) for x in schedulers] != [type(x) for x in self.loop.schedulers]:
            raise UsageError(f"load_into: schedule is {class_name(schedulers)}: allowed is "
                             f"{class_name(self.loop.schedulers)}, as in the job")
        run, states = self._after(steps, contents)
        dicts = [self._state_dict(part, done, names, states)
                 for part, done in zip(parts, parts_of(run.copy.optimizer))]
        return [*zip(parts, dicts), *((scheduler, copy.deepcopy(done.state_dict()))
                                      for scheduler, done in zip(schedulers, run.copy.schedulers))]

    def _check_groups(self, part: Optimizer, mine: Optimizer, names: Mapping[int, str]) -> None:
        found = [[names.get(id(p)) for p in group["params"]] for group in part.param_groups]
        wanted = [[self.names.get(id(p)) for p in group["params"]] for group in mine.param_groups]
        if found != wanted:
            raise UsageError(f"load_into: optimizer {class_name(part)} has other groups of parameters of the "
                             "module than that of the job: allowed are the same ones, in this order")

    def _after(self, steps: int, contents: Mapping[str, np.ndarray]) -> tuple[Run, dict[str, Any]]:
        """The run that has made these steps, and the states of all trained parameters by name."""
        with explained(self.loop.optimizer), capturing():
            try:
                return self._made(steps, contents, False)
            except Branches:
                return self._made(steps, contents, True)

    def _made(self, steps: int, contents: Mapping[str, np.ndarray],
              forks: bool) -> tuple[Run, dict[str, Any]]:
        loop = replace(self.loop, steps=steps + 1)  # with the call of a scheduler after the last one
        tensors = [tensor for _, tensor in self.trained]
        kinds, _ = kinds_of(loop, tensors, forks)
        run = Run(loop, tensors, [kind.first for kind in kinds], forks)
        for _ in range(steps):
            run.step()
        if keeps_lists(run.copy.optimizer):
            raise UsageError(f"load_into: optimizer {class_name(parts_of(loop.optimizer))} keeps tensors "
                             "elsewhere than in its state")
        states = {self.trained[i][0]: _state(run, kind.first, self.trained[i][0], contents)
                  for kind in kinds for i in kind.members}
        return run, states

    @staticmethod
    def _state_dict(part: Optimizer, done: Optimizer, names: Mapping[int, str],
                    states: Mapping[str, Any]) -> dict[str, Any]:
        old = part.state_dict()
        numbers = [i for group in old["param_groups"] for i in group["params"]]
        own = [names[id(p)] for group in part.param_groups for p in group["params"]]
        groups = [{**group, **{key: copy.deepcopy(value) for key, value in new.items()
                               if key not in (*IMPLEMENTATIONS, "params")}}
                  for group, new in zip(old["param_groups"], done.param_groups)]
        return {"state": {i: states[name] for i, name in zip(numbers, own) if states.get(name)},
                "param_groups": groups}


def fill(found: Sequence[tuple[Any, dict[str, Any]]]) -> None:
    """Loads state dicts."""
    for target, state in found:
        target.load_state_dict(state)


def _state(run: Run, first: int, parameter: str, contents: Mapping[str, np.ndarray]) -> Any:
    """The state of a parameter, of whose kind this is the first one."""
    meta, owner = run.metas[first], run.places[first]
    names = {id(tensor): name for name, (_, tensor) in run.kept[owner].items()}
    state = next((x.state[meta] for x in optimizers(run.copy.optimizer) if meta in x.state), None)
    memo: dict[int, Any] = {}
    for name, tensor in tensors_in(state):
        _, shadow = run.recorder.shadows.get(id(tensor), (tensor, tensor))
        if not shadow.is_meta:
            continue
        key = f"{names.get(id(shadow), name)}.{parameter}"
        if key not in contents:
            raise UsageError(f"load_into: the checkpoint has no state {key}, because no step depends on it")
        memo[id(tensor)] = torch.from_numpy(contents[key].copy()).reshape(_shape(shadow, contents[key]))
    return copy.deepcopy(state, memo)


def _shape(tensor: Tensor, content: np.ndarray) -> tuple[int, ...]:
    """The extents of a state, with those of another parameter of its kind."""
    return tuple(tensor.shape) if tensor.numel() == content.size else content.shape
