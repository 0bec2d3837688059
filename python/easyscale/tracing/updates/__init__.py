"""Captures an optimizer: what its step does with one parameter of each shape becomes programs.

A copy of the optimizer, whose parameters have no contents, makes all steps of a job, together with a
copy of its scheduler. What differs from step to step in numbers only is one program, whose numbers are
inputs; another structure, as that of a first step, is another program.
"""
from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ...optimizers import listed, some
from ...program import Numbers, Update
from ...schedules import is_plateau, schedulers_of
from .capturing import capturing
from .check import check_updates
from .copies import Copy, Loop, history_of, keeps_lists, optimizers
from .errors import OptimizerRefused, explained, refused
from .kinds import Report, recorded_steps
from .made import Made, NumbersOfModel
from .steps import Branches, Run
from .together import parts_of, together


@dataclass
class Updates:
    """A captured optimizer, as a model file has it. `states` are the first contents of the states as
    STATE.PARAMETER, if they are not zeros."""

    numbers: list[Numbers]
    updates: list[Update]
    states: dict[str, np.ndarray] = field(default_factory=dict)


def capture_updates(optimizer: Any, parameters: Sequence[tuple[str, Tensor]], steps: int,
                    schedule: Any = None, every: int = 1, check: bool = True,
                    report: Report | None = None, clip_value: float = 0.0,
                    average: Any = None, lowered: int = 0) -> Updates:
    """Captures the steps of an optimizer from its state on, or those of a list of them.

    `parameters` are those that are trained, with their names in the model file. `schedule` is a torch
    scheduler or a list of them, which are called after every `every` steps. None of them is changed, nor
    are the parameters. `clip_value` is the largest element of a gradient, 0 for no limit. `average` is an
    AveragedModel of torch, or None. One of the schedulers may be a ReduceLROnPlateau: evaluations lower its
    rates up to `lowered` times. Raises OptimizerRefused, a CaptureError.
    """
    optimizer = together(listed(optimizer))
    schedulers = schedulers_of(schedule)
    plateau = next(filter(is_plateau, schedulers), None)
    loop = Loop(optimizer, [x for x in schedulers if x is not plateau], every, steps, history_of(optimizer),
                clip_value, average, plateau)
    for part in parts_of(optimizer):
        _check_signature(part)
    tensors = [tensor for _, tensor in parameters]
    for name, tensor in parameters:
        if tensor.dtype != torch.float32:
            raise refused(optimizer, f"the parameter {name} has the type {tensor.dtype}: allowed is "
                                     "float32")
    if any(all(owner is not known for known in optimizers(optimizer)) for owner in loop.owners()):
        raise refused(optimizer, "schedule is a scheduler of another optimizer")
    lowered = _reductions(loop, lowered)
    if loop.history:
        _check_states(loop, parameters)
    with explained(optimizer), capturing():
        try:
            kinds, chosen, recorder = recorded_steps(loop, tensors, report, False, lowered)
        except Branches:
            kinds, chosen, recorder = recorded_steps(loop, tensors, report, True, lowered)
        found = NumbersOfModel(steps)
        made = [Made(kind, found, recorder).update(parameters) for kind in kinds]
    updates = Updates(found.numbers, made, _contents(loop, made, parameters))
    if check:
        for times in {0, lowered}:
            with explained(optimizer):
                check_updates([x.lowered(times) for x in updates.numbers], updates.updates,
                              replace(loop, reductions=times), parameters,
                              [parameters[i][0] for i in chosen])
    return updates


def _reductions(loop: Loop, most: int) -> int:
    """How often the plateau can lower a rate, up to `most` times."""
    if loop.plateau is None:
        return 0
    copied, times = Copy(loop, {}), 0
    while times < most and copied.lower():
        times += 1
    if times == 0:
        rates = [group["lr"] for group in loop.plateau.optimizer.param_groups]
        raise refused(loop.optimizer, f"ReduceLROnPlateau with min_lr = {loop.plateau.min_lrs} and eps = "
                                      f"{loop.plateau.eps} lowers none of the rates {rates}: allowed is one that "
                                      "does")
    return times


def _contents(loop: Loop, updates: list[Update],
              parameters: Sequence[tuple[str, Tensor]]) -> dict[str, np.ndarray]:
    """The first contents of all states, if some are given; a first step makes what is missing."""
    names = {id(tensor): name for name, tensor in parameters}
    given = {f"{state.name}.{names[id(state.owner)]}": state.tensor.detach().cpu().numpy().copy()
             for state in loop.history.values()}
    needed = [(f"{state}.{name}", shape) for update in updates for name in update.parameters
              for state, shape in update.states().items()]
    return {name: given.get(name, np.zeros(shape, np.float32)) for name, shape in needed} if given else {}


def _check_states(loop: Loop, parameters: Sequence[tuple[str, Tensor]]) -> None:
    """Raises OptimizerRefused for states that are not those of the parameters."""
    names = {id(tensor): name for name, tensor in parameters}
    needed = _shapes(loop, [tensor for _, tensor in parameters])
    for owner, name, tensor in loop.history.values():
        full = names.get(id(owner))
        if full is None:
            raise refused(loop.optimizer, f"it has the state {name} of a parameter of the shape "
                                          f"{tuple(owner.shape)} that is not trained")
        if tensor.dtype != torch.float32:
            raise refused(loop.optimizer, f"its state {name} of {full} has the type {tensor.dtype}: "
                                          "allowed is float32")
        shape = needed.get((id(owner), name), tensor.shape)
        if shape != tensor.shape:
            raise refused(loop.optimizer, f"its state {name} of {full} has the shape "
                                          f"{tuple(tensor.shape)}: allowed is {tuple(shape)}")
    for optimizer in optimizers(loop.optimizer):
        if keeps_lists(optimizer):
            raise refused(optimizer, "it keeps tensors elsewhere than in its state, with which a job cannot "
                                     "begin after steps: make a new one")
        for group in optimizer.param_groups:
            trained = [p for p in group["params"] if id(p) in names]
            missing = sorted(names[id(p)] for p in trained if not optimizer.state.get(p))
            if missing and len(missing) < len(trained) and optimizer.state:
                raise refused(optimizer, f"it has states of some parameters of a group, and none of "
                                         f"{some(missing)}: allowed are those of all or of none")


def _shapes(loop: Loop, tensors: list[Tensor]) -> dict[tuple[int, str], torch.Size]:
    """The shapes of the states that a first step makes, by the ids of the parameters and their names;
    those that a constructor makes are not known."""
    run = Run(replace(loop, history={}), tensors, list(range(len(tensors))), False)
    for optimizer in optimizers(run.copy.optimizer):
        optimizer.state.clear()
    try:
        with capturing():
            run.record()
    except Exception:  # a step needs what its constructor makes, or fails later too
        return {}
    return {(id(p), name): tensor.shape for p, own in zip(tensors, run.kept)
            for name, (_, tensor) in own.items()}


def _check_signature(optimizer: Optimizer) -> None:
    needed = [p.name for p in inspect.signature(type(optimizer).step).parameters.values()
              if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][1:]
    if needed:
        raise refused(optimizer, f"its step needs {', '.join(needed)}; a job computes one gradient for each "
                                 "step, and calls no closure")
