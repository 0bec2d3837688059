"""What `.item()` of a captured tensor is: a number that torch's operators take, and that is no number yet.

It is a torch.SymFloat whose node computes with tensors without dims, which are recorded as all others.
"""
from __future__ import annotations

import builtins
import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx.experimental.sym_node  # noqa: F401  It gives torch.SymFloat its arithmetic.
from torch import Tensor

from ..patches import exchanged
from .errors import ADVICE, OptimizerRefused, place

FUNCTIONS: dict[str, Callable] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "truediv": torch.div,
    "float_truediv": torch.div, "pow": torch.pow, "float_pow": torch.pow, "neg": torch.neg,
    "abs": torch.abs, "sym_sqrt": torch.sqrt, "sqrt": torch.sqrt, "exp": torch.exp, "log": torch.log}
# Functions that say whether a number is true in the steps that are recorded now.
DECIDING: list[Callable[[Tensor], bool]] = []
COMPARED = {"eq", "ne", "lt", "le", "gt", "ge"}


class DataDependentStep(OptimizerRefused):
    """A step makes a number or a shape of the content of a tensor."""


def decides() -> DataDependentStep:
    """The error of a step that makes a number or a shape of the content of a tensor."""
    return DataDependentStep(f"the step{place()} makes a Python number or a shape of the content of a "
                             f"tensor; {ADVICE}")


class Node:
    """The node of a SymFloat: `content` is a tensor without dims or a number."""

    constant = None

    def __init__(self, content: Tensor | float):
        self.content = content

    def is_int(self) -> bool:
        return False

    def is_float(self) -> bool:
        return True

    def is_bool(self) -> bool:
        return False

    def is_constant(self) -> bool:
        return False

    def is_symbolic(self) -> bool:
        return True

    def maybe_as_int(self) -> None:
        return None

    def wrap_float(self, number: float) -> Node:
        return Node(number)

    wrap_int = wrap_float
    wrap_bool = wrap_float

    def sym_float(self) -> Node:
        return self

    def clone(self) -> Node:
        return self

    def str(self) -> str:
        return "a number that depends on tensors"

    def sym_max(self, other: Node) -> Node:
        return _extreme(torch.maximum, torch.clamp_min, self.content, other.content)

    def sym_min(self, other: Node) -> Node:
        return _extreme(torch.minimum, torch.clamp_max, self.content, other.content)

    def bool_(self) -> bool:
        """Whether it is not 0."""
        return Undecided(torch.ne(self.content, 0)).bool_()

    def __getattr__(self, name: str) -> Any:
        if name in FUNCTIONS:
            return lambda *others: Node(FUNCTIONS[name](
                self.content, *(x.content for x in others)))
        if name in COMPARED:
            return lambda other: Undecided(getattr(torch, name)(self.content, other.content))
        if name.startswith("__"):
            raise AttributeError(name)
        raise decides()


class Undecided:
    """The node of a SymBool: `content` is a tensor without dims."""

    constant = None

    def __init__(self, content: Tensor):
        self.content = content

    def is_int(self) -> bool:
        return False

    is_float = is_constant = is_int

    def is_bool(self) -> bool:
        return True

    def expect_true(self, file: str, line: int) -> bool:
        """Holds: torch asks so whether the base of a power is at least 0."""
        return True

    def bool_(self) -> bool:
        """A branch: the one that the recorder wants to see."""
        if not DECIDING:
            raise decides()
        return DECIDING[-1](self.content)

    def guard_bool(self, file: str, line: int) -> bool:
        return self.bool_()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise decides()


def number_of(tensor: Tensor) -> torch.SymFloat:
    """The number in a tensor with one element."""
    return torch.SymFloat(Node(tensor.reshape(())))


def _extreme(both: Callable, one: Callable, x: Any, y: Any) -> Node:
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return Node(both(x, y))
    return Node(one(x, y) if isinstance(x, Tensor) else one(y, x))


def _chosen(real: Callable, name: str) -> Callable:
    """The function max or min of Python, also of such numbers."""
    @functools.wraps(real)
    def choose(*args: Any, **options: Any) -> Any:
        if len(args) < 2 or options or not any(
                isinstance(x, (torch.SymFloat, Tensor)) for x in args):
            return real(*args, **options)
        if not any(isinstance(x, torch.SymFloat) or x.is_meta for x in args
                   if isinstance(x, (torch.SymFloat, Tensor))):
            return real(*args)
        nodes = [x.node if isinstance(x, torch.SymFloat) else
                 Node(x.reshape(()) if isinstance(x, Tensor) else float(x)) for x in args]
        found = functools.reduce(lambda x, y: getattr(x, name)(y), nodes)
        is_tensor = any(isinstance(x, Tensor) and x.is_meta for x in args)
        return found.content if is_tensor else torch.SymFloat(found)
    return choose


def _of_math(name: str) -> Callable:
    real = getattr(math, name)

    def function(x: Any) -> Any:
        if isinstance(x, torch.SymFloat):
            return torch.SymFloat(getattr(x.node, name)())
        return real(x)
    return function


@contextlib.contextmanager
def numbers_of_tensors() -> Iterator[None]:
    """In this block max, min and some functions of math take such numbers."""
    with contextlib.ExitStack() as stack:
        for name in ("max", "min"):
            stack.enter_context(exchanged(builtins, name, _chosen(getattr(builtins, name),
                                                                  f"sym_{name}")))
        for name in ("sqrt", "exp", "log"):
            stack.enter_context(exchanged(math, name, _of_math(name)))
        yield
