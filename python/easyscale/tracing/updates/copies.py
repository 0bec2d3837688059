"""Copies of an optimizer whose parameters are other tensors. The optimizer stays as it is."""
from __future__ import annotations

import contextlib
import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ...schedules import advance
from .errors import refused
from .evaluated import averages, evaluated_weights
from .together import Together, parts_of

# The settings that choose between implementations of one rule.
IMPLEMENTATIONS = ("foreach", "fused", "capturable")
HOOKS = "_optimizer_"
DEPTH_MAX = 4
SIMPLE = (int, float, str, bytes, type(None), torch.dtype, torch.device)
ELSEWHERE = "*"  # in the names of tensors that are kept elsewhere than in the state


class State(NamedTuple):
    """A tensor in the state of a parameter."""

    owner: Tensor
    name: str
    tensor: Tensor


@dataclass(frozen=True)
class Loop:
    """The steps of an optimizer; the schedulers are called after every `every` of them.

    `history` are the states with which it begins, by the ids of their tensors, if it has made steps.
    Elements of gradients are limited to `clip_value` before a step, if it is not 0. `average` is an
    AveragedModel of torch, which averages the parameters after every step. `plateau` is a
    ReduceLROnPlateau, or None: it lowers rates `reductions` times before the first step, and once more after
    `lowers_after` steps.
    """

    optimizer: Optimizer
    schedulers: list[Any]
    every: int
    steps: int
    history: dict[int, State] = field(default_factory=dict)
    clip_value: float = 0.0
    average: Any = None
    plateau: Any = None
    reductions: int = 0
    lowers_after: int | None = None

    def owners(self) -> list[Optimizer]:
        """The optimizers whose rates the schedulers change."""
        return [getattr(x, "optimizer", self.optimizer)
                for x in [*self.schedulers, *([self.plateau] if self.plateau else [])]]


class Copy:
    """A copy of an optimizer, and of the schedulers that are called between its steps.

    `tensors` are what its parameters are exchanged for, by their ids; the others are left out of the
    groups. `evaluated` are the weights that evaluations use in place of parameters, by the ids of these,
    after a step has made them.
    """

    def __init__(self, loop: Loop, tensors: dict[int, Tensor]):
        others = {id(p): p for group in loop.optimizer.param_groups for p in group["params"]
                  if id(p) not in tensors}
        # torch makes no deep copy of what it knows already, here the tensors.
        memo: dict[int, Any] = {**others, **tensors}
        self.optimizer = copied_optimizer(loop.optimizer, memo)
        kept = {id(tensor) for tensor in tensors.values()}
        for optimizer in optimizers(self.optimizer):
            for group in optimizer.param_groups:
                group["params"] = [p for p in group["params"] if id(p) in kept]
                for name in IMPLEMENTATIONS:
                    if name in group:
                        group[name] = False
            for p in [p for p in optimizer.state if id(p) not in kept]:
                del optimizer.state[p]
        self.schedulers = copy.deepcopy(loop.schedulers, memo)
        self.plateau, self.lowers_after = copy.deepcopy(loop.plateau, memo), loop.lowers_after
        for _ in range(loop.reductions):
            self.lower()
        self.every, self.total, self.steps = loop.every, loop.steps, 0
        self.clip_value, self.average = loop.clip_value, loop.average
        self.evaluated: dict[int, Tensor] = {}

    def step(self) -> None:
        """Makes a step of the optimizer with clipped gradients."""
        for group in self.optimizer.param_groups if self.clip_value else []:
            for p in group["params"]:
                p.grad.clamp_(-self.clip_value, self.clip_value)
        self.optimizer.step()
        if self.average is not None:
            self.evaluated = averages(self.average, self.optimizer, self.evaluated, self.steps)
        else:
            self.evaluated = {key: tensor for part in parts_of(self.optimizer)
                              for key, tensor in evaluated_weights(part).items()}

    def advance(self) -> None:
        """Calls the schedulers after a step of the optimizer, if it is their turn."""
        self.steps += 1
        if self.steps == self.lowers_after:
            self.lower()
        if self.steps % self.every == 0 and self.steps < self.total:
            for scheduler in self.schedulers:
                advance(scheduler, self.steps)

    def lower(self) -> bool:
        """Lowers the rates as the plateau does; whether one has changed."""
        before = [float(group["lr"]) for group in self.plateau.optimizer.param_groups]
        self.plateau._reduce_lr(0)
        return before != [float(group["lr"]) for group in self.plateau.optimizer.param_groups]

    def leave_out(self, tensors: list[Tensor]) -> None:
        """Removes parameters."""
        ids = {id(tensor) for tensor in tensors}
        for optimizer in optimizers(self.optimizer):
            for group in optimizer.param_groups:
                group["params"] = [p for p in group["params"] if id(p) not in ids]
            for p in [p for p in optimizer.state if id(p) in ids]:
                del optimizer.state[p]


def copied_optimizer(given: Optimizer, memo: dict[int, Any],
                     into: dict[int, Optimizer] | None = None) -> Optimizer:
    """A deep copy of an optimizer: its own one has no other attributes than the groups and the state.

    `into` are the objects that become the copies of it and of those that it calls, by the ids of these.
    """
    made = into[id(given)] if into else type(given).__new__(type(given))
    vars(made).clear()
    memo[id(given)] = made
    for name, value in vars(given).items():
        if name == "step" and hasattr(value, "_wrapped_by_lr_sched"):
            continue  # it counts the steps of the first optimizer for its scheduler
        if isinstance(value, Optimizer):
            made.__dict__[name] = memo.get(id(value)) or copied_optimizer(value, memo, into)
        elif isinstance(value, (list, tuple)) and value and all(
                isinstance(x, Optimizer) for x in value):
            made.__dict__[name] = type(value)(
                memo.get(id(x)) or copied_optimizer(x, memo, into) for x in value)
        else:
            try:
                made.__dict__[name] = copy.deepcopy(value, memo)
            except Exception as error:  # anything may be an attribute
                raise refused(given, f"its attribute {name} cannot be copied "
                                     f"({type(error).__name__}: {error})") from error
    made._opt_called = True
    return made


def optimizers(optimizer: Optimizer) -> Iterator[Optimizer]:
    """An optimizer and those that it calls."""
    yield optimizer
    for value in vars(optimizer).values():
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(inner, Optimizer) and inner is not optimizer:
                yield from optimizers(inner)


def kept_tensors(optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """The tensors that an optimizer keeps between its steps, with the names of their places.

    Those of one place of several parameters have one name.
    """
    for name, value in vars(optimizer).items():
        if name == "state":
            yield from _walk(value, "")
        elif name == "param_groups":
            for group in value:
                yield from _walk({key: x for key, x in group.items() if key != "params"}, ELSEWHERE)
        elif isinstance(value, Optimizer) or (isinstance(value, (list, tuple)) and value and all(
                isinstance(x, Optimizer) for x in value)):
            inner = [value] if isinstance(value, Optimizer) else value
            for place, other in enumerate(inner):
                prefix = "" if isinstance(optimizer, Together) else f"{name}.{place}."
                for path, tensor in kept_tensors(other):
                    yield f"{prefix}{path}", tensor
        elif name != "defaults" and not name.startswith(HOOKS):
            yield from _walk({name: value}, ELSEWHERE)


def is_state(name: str) -> bool:
    """Whether what is kept under a name is in the state of an optimizer, and not elsewhere."""
    return ELSEWHERE not in name


def keeps_lists(optimizer: Optimizer) -> bool:
    """Whether it keeps tensors elsewhere than in its state, such as a list with one for each parameter."""
    return any(tensor.numel() > 1 for part in optimizers(optimizer)
               for name, tensor in kept_tensors(part) if not is_state(name))


def copies_of(optimizer: Optimizer, tensors: dict[int, Tensor]) -> Iterator[tuple[Tensor, int]]:
    """The tensors that an optimizer keeps and that are copies of the contents of some of these."""
    for _, tensor in kept_tensors(optimizer):
        if tensor.is_meta or tensor.numel() < 2 or is_uniform(tensor):
            continue
        for i, other in tensors.items():
            if tensor.shape == other.shape and torch.equal(tensor.detach(), other.detach()):
                yield tensor, i
                break


def tensors_in(state: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors in the state of a parameter, with the names of their places."""
    return _walk(state, "")


def _walk(tree: Any, prefix: str, depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    for key, value in _items(tree):
        name = prefix if isinstance(key, Tensor) else f"{prefix}{key}"
        if isinstance(value, Tensor):
            yield name.rstrip("."), value
        elif depth < DEPTH_MAX and not isinstance(value, SIMPLE):
            yield from _walk(value, name if not name or name.endswith(".") else f"{name}.", depth + 1)


def _items(tree: Any) -> Iterable[tuple[Any, Any]]:
    """What a container or an object has, with the names of its places."""
    if isinstance(tree, dict):
        return tree.items()
    if isinstance(tree, (list, tuple, deque)):
        return enumerate(tree)
    is_object = hasattr(tree, "__dict__") and not isinstance(tree, (type, nn.Module)) and not callable(tree)
    return vars(tree).items() if is_object else ()


def history_of(given: Optimizer) -> dict[int, State]:
    """The states of an optimizer that has made steps, by the ids of their tensors. Another tensor with one
    element is a number, which depends on the step alone or is a constant of the first step."""
    items = [(owner, name, tensor) for x in optimizers(given) for owner, state in x.state.items()
             for name, tensor in _walk(state, "")]
    if all(_is_new(owner, name, tensor) for owner, name, tensor in items):
        return {}
    owners = {id(tensor): owner for owner, name, tensor in items if tensor.numel() > 1 or (
        tensor.dim() and tensor.shape == owner.shape and name != "step")}
    found: dict[int, State] = {}
    for name, tensor in kept_tensors(given):
        if id(tensor) in owners:
            found.setdefault(id(tensor), State(owners[id(tensor)], name or "state", tensor))
    return found


def _is_new(owner: Any, name: str, tensor: Tensor) -> bool:
    """Whether a state is what a constructor makes: one number everywhere, or a copy of the parameter."""
    made = name == "step" and tensor.numel() == 1 and float(tensor) != 0
    return not made and (is_uniform(tensor) or _is_copy(tensor, owner))


def is_uniform(tensor: Tensor) -> bool:
    """Whether all elements are one number."""
    flat = tensor.detach().reshape(-1)
    return flat.numel() > 0 and bool((flat == flat[0]).all())


def _is_copy(tensor: Tensor, owner: Any) -> bool:
    return isinstance(owner, Tensor) and tensor.shape == owner.shape and bool(
        torch.equal(tensor.detach(), owner.detach()))


@contextlib.contextmanager
def gradients_of(find: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """In this block `p.grad` is that of `find(p)`: a hook may know the user's own parameters."""
    real = torch._C.TensorBase.grad
    torch.Tensor.grad = property(lambda x: real.__get__(find(x)),
                                 lambda x, value: real.__set__(find(x), value))
    try:
        yield
    finally:
        del torch.Tensor.grad


def meta_parameter(p: Tensor) -> nn.Parameter:
    """A parameter of the same shape without contents."""
    return nn.Parameter(torch.empty(p.shape, dtype=p.dtype, device="meta"))
