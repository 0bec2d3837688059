"""Puts several losses of one model, each with its optimizer, together as one model file."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..captured import Captured
from ..errors import UsageError
from ..losses import Loss
from ..optimizers import class_name, listed, some
from ..program import FORMAT_WITH_PROGRAMS, NUMBER, Numbers, Phase, Program, State, Value
from ..schedules import schedulers_of
from . import capture_loss
from .errors import CaptureError, StateChanged
from .updates import Updates
from .updates.restored import Start, fill

COUNTER = "num_batches_tracked"


def capture_losses(model: Any, losses: Sequence[Loss], batch: Any, name: str,
                   allow_functions: tuple[type, ...], batch_size: int) -> Captured:
    """The model with the first loss as its program and the others as further ones. Raises CaptureError."""
    found, read = [], []
    for place, loss in enumerate(losses):
        try:
            captured, buffers = capture_loss(model, loss.function, batch, name, allow_functions, batch_size)
        except CaptureError as error:
            raise type(error)(f"losses[{place}]: {error}") from error
        found.append(captured)
        read.append(buffers)
    names = {parameter.name: id(p) for p, parameter in _tensors(model, found[0].program)}
    for place, (loss, captured) in enumerate(zip(losses, found)):
        own = {id(p) for p in loss.parameters()}
        for parameter in captured.program.parameters:
            parameter.trainable = parameter.trainable and names[parameter.name] in own
        _check_reaches(place, loss, captured.program)
    programs = [captured.program for captured in found]
    _unite_inputs(programs)
    _check_shared(programs, read)
    weights: dict[str, np.ndarray] = {}
    for captured in reversed(found):
        weights |= captured.weights
    return Captured(_joined(programs, [loss.every for loss in losses]), weights, found[0].complex)


def _tensors(model: Any, program: Program) -> list[tuple[Any, Any]]:
    tensors = dict(model.named_parameters(remove_duplicate=False))
    return [(tensors[x.name], x) for x in program.parameters]


def _check_reaches(place: int, loss: Loss, program: Program) -> None:
    reached = program.reached()
    if not any(x.trainable and x.value in reached for x in program.parameters):
        raise UsageError(f"losses[{place}] depends on no parameter of its optimizer "
                         f"({class_name(loss.optimizer)}): allowed is a loss that trains at least one")


def _unite_inputs(programs: list[Program]) -> None:
    """Gives integers the range that all losses allow which read them."""
    for place, first in enumerate(programs[0].inputs):
        inputs = [program.inputs[place] for program in programs]
        read = [x for program, x in zip(programs, inputs)
                if any(x.value in node.inputs for node in program.nodes)] or inputs
        low, high = max(x.low for x in read), min(x.high for x in read)
        first.allowed = read[0].allowed if all(x.allowed == read[0].allowed for x in read) else None
        for x in inputs:
            x.low, x.high = low, high


def _check_shared(programs: list[Program], read: list[set[str]]) -> None:
    """Raises CaptureError for what one loss writes and another one takes for a constant."""
    own = [{x.name for x in (*program.statistics, *program.states)} for program in programs]
    for place, (kept, used) in enumerate(zip(own, read)):
        changed = set().union(*own) - kept
        stale = sorted(name for name in changed & used if not name.endswith(COUNTER))
        frozen = sorted(changed & {x.name for x in programs[place].parameters})
        if stale or frozen:
            raise StateChanged(f"losses[{place}] reads {some(stale or frozen)}, which another loss changes: "
                               "allowed is that both change it, as a module in training does, or one alone")


def _joined(programs: list[Program], every: list[int]) -> Program:
    main, further = programs[0], programs[1:]
    for program in further:
        _add_missing(main, program)
    kept = {x.name for x in (*main.statistics, *main.states)}
    main.buffers = [x for x in main.buffers if x.name not in kept]
    for program in further:
        program.buffers = []
        for parameter in program.parameters:
            parameter.aliases = []
    main.programs, main.every, main.format = further, every, FORMAT_WITH_PROGRAMS
    return main


def _add_missing(main: Program, program: Program) -> None:
    """Adds the statistics and states that only another program has."""
    known = {x.name for x in (*main.statistics, *main.states)}
    main.statistics += [x for x in program.statistics if x.name not in known]
    for state in program.states:
        if state.name in known:
            continue
        value = program.values[state.value]
        main.values.append(Value(value.type, list(value.dims)))
        main.states.append(State(state.name, state.dtype, len(main.values) - 1))


def add_updates(program: Program, turns: Sequence[int], updates: Sequence[Updates]) -> dict[str, np.ndarray]:
    """Adds the optimizers of the losses, whose steps become global ones. `turns` is the loss of each global
    step. Returns the first contents of their states."""
    order = np.asarray(turns)
    states: dict[str, np.ndarray] = {}
    for loss, found in enumerate(updates):
        at = np.flatnonzero(order == loss)
        offset = len(program.numbers)
        for numbers in found.numbers:
            values = np.zeros(len(order), np.float32)
            values[at] = numbers.values
            program.numbers.append(Numbers(f"{loss}.{numbers.name}", values))
        for update in found.updates:
            update.phases = [Phase(int(at[x.first_step]) if x.first_step else 0, x.program)
                             for x in update.phases]
            for step in update.programs:
                for parameter in step.parameters:
                    if parameter.name.startswith(NUMBER):
                        number = int(parameter.name.removeprefix(NUMBER))
                        parameter.name = f"{NUMBER}{number + offset}"
            program.updates.append(update)
        states |= found.states
    return states


class Starts:
    """The optimizers and schedulers of all losses as they were at the beginning of the job."""

    def __init__(self, starts: Sequence[Start], turns: Sequence[int]):
        self.starts, self.turns = starts, list(turns)

    def load_into(self, optimizer: Any, schedule: Any, steps: int, names: Mapping[int, str],
                  contents: Mapping[str, np.ndarray]) -> None:
        """As Start.load_into, with a list that has what each loss has."""
        optimizers = listed(optimizer)
        schedules = [None] * len(self.starts) if schedule is None else listed(schedule)
        for what, given in (("optimizer", optimizers), ("schedule", schedules)):
            if len(given) != len(self.starts):
                raise UsageError(f"load_into: {what} has {len(given)} items: allowed is one for each of the "
                                 f"{len(self.starts)} losses")
        found = []
        for loss, start in enumerate(self.starts):
            own = schedules[loss] if schedulers_of(schedules[loss]) else None
            try:
                found += start.found(optimizers[loss], own, self.turns[:steps].count(loss), names, contents)
            except UsageError as error:
                raise UsageError(f"losses[{loss}]: {error}") from None
        fill(found)
