"""The Python state that a forward pass may keep between its calls: numbers and texts in objects,
classes, containers, closures and global variables, and generators of random numbers.

A captured program has none of it. A counter that decides something only after a thousand calls
shows in no comparison of losses, so its change is looked for.
"""
from __future__ import annotations

import gc
import itertools
import random
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

SIMPLE = (bool, int, float, str)
KNOWN = (torch.Tensor, np.ndarray, np.generic, itertools.count)  # leaves with a content
OBJECTS_MAX = 100_000  # of a state that is compared; tables of words may be large
LIBRARIES = ("torch", "numpy", "transformers", "timm", "torchvision")


def numbers_of(roots: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and texts that the roots reach, by their paths: attributes, elements and variables."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    waiting = deque(roots.items())
    while waiting and len(seen) < OBJECTS_MAX:
        path, value = waiting.popleft()
        if type(value) in SIMPLE or isinstance(value, KNOWN):
            found |= _leaf(path, value)
        elif id(value) not in seen and not isinstance(value, type):
            seen.add(id(value))
            waiting.extend(_parts(path, value))
    return found


def _leaf(path: str, value: Any) -> dict[str, Any]:
    if type(value) in SIMPLE:
        return {path: value}
    if isinstance(value, itertools.count):
        return {path: repr(value)}
    if value.size != 1 if isinstance(value, (np.ndarray, np.generic)) else value.numel() != 1:
        return {}  # what it changes would show in the loss
    return {path: value.item()}


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"{path}[{key!r}]", part) for key, part in value.items()
                    if isinstance(key, SIMPLE))
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"{path}[{i}]", part) for i, part in enumerate(value))
    elif isinstance(value, nn.Module):
        yield from _parts_of_module(path, value)
    elif isinstance(value, (types.FunctionType, types.MethodType)):
        yield from _variables(path, value)
    elif isinstance(value, types.GeneratorType):
        if value.gi_frame is not None:
            yield path, dict(value.gi_frame.f_locals)
    elif not _is_of_library(type(value)):
        yield from ((f"{path}.{name}", part) for name, part in _attributes(value).items())
        yield from _class_attributes(type(value))


def _parts_of_module(path: str, module: nn.Module) -> Iterator[tuple[str, Any]]:
    """The attributes of a module that are no tensors, modules or hooks, and what its forward reads."""
    for name, part in module.__dict__.items():
        # The attributes themselves are compared by `unchanged`.
        if not name.startswith("_") and type(part) not in SIMPLE:
            yield f"{path}.{name}", part
    yield from ((f"{path}.{name}", part) for name, part in module._modules.items() if part is not None)
    if not _is_of_library(type(module)):
        yield from _variables(path, type(module).forward)
        yield from _class_attributes(type(module))


def _variables(path: str, function: Any) -> Iterator[tuple[str, Any]]:
    """The variables of a function that outlive its call: of closures, defaults and its file."""
    if isinstance(function, types.MethodType):
        yield path, function.__self__
        function = function.__func__
    if not isinstance(function, types.FunctionType) or _is_library(function.__module__ or ""):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a variable without a value
            continue
    for name in function.__code__.co_names:
        part = function.__globals__.get(name)
        if not isinstance(part, types.ModuleType):
            yield name, part
    yield from ((f"{path} (default {i})", part) for i, part in enumerate(function.__defaults__ or ()))


def _class_attributes(kind: type) -> Iterator[tuple[str, Any]]:
    for owner in kind.__mro__:
        if not _is_of_library(owner):
            yield from ((f"{owner.__name__}.{name}", part) for name, part in vars(owner).items()
                        if not name.startswith("__") and not callable(part))


def _attributes(value: Any) -> dict[str, Any]:
    try:
        return dict(vars(value))
    except TypeError:  # an object without attributes
        return {}


def _is_of_library(kind: type) -> bool:
    return _is_library(kind.__module__)


def _is_library(name: str) -> bool:
    root = name.partition(".")[0]
    return root in LIBRARIES or root in sys.stdlib_module_names and root != "types"


class Generators:
    """The states of all generators of random numbers of Python and numpy that exist."""

    def __init__(self) -> None:
        # All objects that exist are looked at, which takes ten times as long with `isinstance`.
        kinds = {id(kind) for kind in _with_subclasses(
            (random.Random, np.random.BitGenerator, np.random.RandomState))}
        self._states = [(generator, _state(generator)) for generator in gc.get_objects()
                        if id(type(generator)) in kinds]

    def changed(self) -> str | None:
        """The class of a generator that was used since."""
        for generator, before in self._states:
            if _state(generator) != before:
                return f"{type(generator).__module__}.{type(generator).__qualname__}"
        return None


def _with_subclasses(kinds: Iterable[type]) -> Iterator[type]:
    for kind in kinds:
        yield kind
        yield from _with_subclasses(kind.__subclasses__())


def _state(generator: Any) -> str:
    if isinstance(generator, random.SystemRandom):
        return ""  # it keeps nothing
    if isinstance(generator, random.Random):
        return repr(generator.getstate())
    # The position in a block of numbers is a part of it, so of the block the ends are enough.
    with np.printoptions(threshold=0):
        return repr(getattr(generator, "state", None) or generator.get_state())
