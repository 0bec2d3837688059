"""Runs the programs of an update, and compares them with the optimizer on real tensors."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ...interpret import Context, run_kind
from ...program import EVALUATED, NO_VALUE, STATE, Numbers, Program, Update
from .copies import Copy, Loop, copies_of, gradients_of
from .errors import OptimizerRefused
from .recorder import LOW

STEPS = 3
STEPS_MAX = 64      # the last phase is reached within these, if the parameters are small
WORK_MAX = 2 * 10**7  # elements that are updated for it
ERROR = 1e-3        # of the norm of what a step changes
SMALL = 2e-6        # of the norm of the parameter, by rounding


class InFp32(TorchDispatchMode):
    """Computes in fp32 what asks for bf16 or half, and with other tensors than those of the user."""

    def __init__(self, stand_ins: dict[int, Tensor]):
        super().__init__()
        self.stand_ins = stand_ins

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        return func(*(self._own(x) for x in args),
                    **{key: self._own(x) for key, x in (kwargs or {}).items()})

    def _own(self, x: Any) -> Any:
        if isinstance(x, torch.dtype) and x in LOW:
            return torch.float32
        if isinstance(x, Tensor):
            return self.stand_ins.get(id(x), x)
        if isinstance(x, (list, tuple)):
            return type(x)(self._own(item) for item in x)
        return x


def run_program(program: Program, tensors: dict[str, Tensor],
                numbers: Sequence[float]) -> dict[str, Tensor]:
    """The outputs of a program of an update; `numbers` are those of the model in this step."""
    values: list[Any] = [None] * len(program.values)
    for parameter in program.parameters:
        kind, _, name = parameter.name.partition(".")
        values[parameter.value] = (torch.tensor(numbers[int(name)], dtype=torch.float32)
                                   if kind == "number" else tensors[parameter.name])
    for constant in program.constants:
        array = torch.from_numpy(constant.array.copy())
        values[constant.value] = array.bool() if program.values[constant.value].type == "bool" else array
    last = {value: place for place, node in enumerate(program.nodes) for value in node.inputs}
    wanted = {output.value for output in program.outputs}
    for place, node in enumerate(program.nodes):
        given = [None if i == NO_VALUE else values[i] for i in node.inputs]
        context = Context(shape=program.values[node.outputs[0]].shape(1))
        values[node.outputs[0]] = run_kind(node.kind, given, node.attributes, context)
        for value in node.inputs:
            if value != NO_VALUE and last[value] == place and value not in wanted:
                values[value] = None
    return {output.name: values[output.value] for output in program.outputs}


class Trained:
    """A parameter and its states, which programs update."""

    def __init__(self, update: Update, numbers: Sequence[Numbers], parameter: Tensor,
                 states: dict[str, Tensor] | None = None):
        self.update, self.numbers = update, numbers
        self.tensors = {STATE + name: torch.zeros(shape) for name, shape in update.states().items()}
        self.tensors |= {STATE + name: tensor.clone() for name, tensor in (states or {}).items()}
        self.tensors["parameter"] = parameter.detach().clone()

    def step(self, number: int, gradient: Tensor) -> Tensor:
        """The parameter after the step of this number."""
        index = [phase.program for phase in self.update.phases if phase.first_step <= number][-1]
        found = run_program(self.update.programs[index], {**self.tensors, "gradient": gradient},
                            [x.values[number] for x in self.numbers])
        self.tensors.update(found)
        return self.tensors["parameter"]


def check_updates(numbers: Sequence[Numbers], updates: Sequence[Update], loop: Loop,
                  parameters: Sequence[tuple[str, Tensor]], chosen: Sequence[str]) -> None:
    """Compares the updates with a copy of the optimizer, on random tensors of the shapes of the chosen
    parameters, for three steps or until the last phase that is reached early."""
    tensors = dict(parameters)
    generator = torch.Generator().manual_seed(1)
    real = [nn.Parameter(torch.randn(tensors[name].shape, generator=generator)) for name in chosen]
    stand_ins = {id(tensors[name]): x for name, x in zip(chosen, real)}
    # What else a hook may write.
    others = {id(x): x.detach().clone() for name, x in tensors.items() if id(x) not in stand_ins}
    known = {**others, **stand_ins}
    history = {key: state.tensor.detach().clone() for key, state in loop.history.items()
               if id(state.owner) in stand_ins}
    copied = Copy(loop, stand_ins | history)
    for tensor, place in copies_of(copied.optimizer, dict(enumerate(tensors[name] for name in chosen))):
        tensor.copy_(real[place].detach())
    of_name = {name: update for update in updates for name in update.parameters}
    own = [Trained(of_name[name], numbers, x,
                   {loop.history[key].name: tensor for key, tensor in history.items()
                    if loop.history[key].owner is tensors[name]}) for name, x in zip(chosen, real)]
    scale = [float(x.detach().norm()) for x in real]
    for step in range(min(loop.steps, _steps(updates, sum(x.numel() for x in real)))):
        gradients = [torch.randn(x.shape, generator=generator) for x in real]
        before = [x.detach().clone() for x in real]
        for x, gradient in zip(real, gradients):
            x.grad = gradient.clone()
        for x in others.values():
            x.grad = torch.zeros_like(x)
        with gradients_of(lambda x: known.get(id(x), x)), InFp32(known):
            copied.step()
        copied.advance()
        for name, x, mine, gradient, old, size in zip(chosen, real, own, gradients, before, scale):
            found = mine.step(step, gradient)
            change = float((x.detach() - old).norm())
            error = float((found - x.detach()).norm())
            if not error <= ERROR * change + SMALL * (size + float(x.detach().norm())):
                raise OptimizerRefused(
                    f"its program for {name} changes the parameter otherwise than its step does in step "
                    f"{step + 1} (the change has the norm {change:.6g}, the difference {error:.3g}); it may "
                    "keep something at a place that a capture does not see")
            mine.tensors["parameter"] = x.detach().clone()
            _check_evaluated(copied, x, mine.tensors, name, step)


def _check_evaluated(copied: Copy, x: Tensor, own: dict[str, Tensor], name: str, step: int) -> None:
    """Compares the weights of a parameter that evaluations use, if there are any."""
    wanted = copied.evaluated.get(id(x))
    if wanted is None:
        return
    error = float((own[STATE + EVALUATED] - wanted).norm())
    if not error <= ERROR * float(wanted.norm()):
        raise OptimizerRefused(
            f"its program for {name} makes other weights for evaluations in step {step + 1} (their norm is "
            f"{float(wanted.norm()):.6g}, that of the difference {error:.3g})")


def _steps(updates: Sequence[Update], elements: int) -> int:
    """The number of steps that are compared."""
    most = max(STEPS, min(STEPS_MAX, WORK_MAX // max(1, elements)))
    firsts = []
    for update in updates:
        seen: set[int] = set()
        for phase in update.phases:
            if phase.program not in seen:
                seen.add(phase.program)
                firsts.append(phase.first_step + 2)
    return max([STEPS, *(step for step in firsts if step <= most)])

