"""Functions of torch that a user's code holds under a name of its own.

`from torch import where`, `straight = Straight.apply` and `self.norm = partial(F.normalize, dim=1)` hold
a function that is exchanged in torch while a forward pass is traced. It is exchanged there too.
"""
from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from .python_state import OBJECTS_MAX

NAMESPACES = (torch, torch.autograd, torch.random, nn.functional)
SKIPPED = ("torch", "easyscale")  # packages that name torch's functions where they call them
METHODS = (types.BuiltinMethodType, types.MethodType)
HOLDERS = (functools.partial, staticmethod, tuple, *METHODS)  # values that hold functions
Place = tuple[Any, Any, Any]  # a container, a key and the value there


def functions() -> dict[tuple[str, str], Any]:
    """What the namespaces of torch hold now, for `changed_where_held`."""
    return {(space.__name__, name): value for space in NAMESPACES
            for name, value in vars(space).items()}


class ExchangedSince:
    """The change from the functions of `before` to those that have taken their places since."""

    def __init__(self, before: dict[tuple[str, str], Any]) -> None:
        self._changed = {id(before[place]): value for place, value in functions().items()
                         if place in before and value is not before[place]}

    def places_in(self, holders: Iterable[dict]) -> list[Place]:
        """The places of dicts whose values may be changed, found without a call for each value."""
        changed = self._changed
        return [(holder, key, value) for holder in holders for key, value in holder.items()
                if id(value) in changed or isinstance(value, HOLDERS)]

    def __call__(self, value: Any) -> Any:
        """What takes the place of a value, or None."""
        if isinstance(value, functools.partial):
            function = self(value.func)
            return function and functools.partial(function, *value.args, **value.keywords)
        if isinstance(value, staticmethod):
            function = self(value.__func__)
            return function and staticmethod(function)
        if type(value) is tuple:
            parts = [self(part) for part in value]
            return tuple(part if new is None else new for part, new in zip(value, parts)) if any(
                new is not None for new in parts) else None
        if isinstance(value, METHODS) and (
                value.__name__ == "apply" and isinstance(value.__self__, type)
                and issubclass(value.__self__, torch.autograd.Function)):
            return value.__self__.apply
        return self._changed.get(id(value))


@contextlib.contextmanager
def changed_where_held(step: nn.Module, before: dict[tuple[str, str], Any]) -> Iterator[None]:
    """What has been exchanged in torch since `before` is exchanged in the global names of all files, and
    in what the model and its loss hold."""
    change = ExchangedSince(before)
    places, files = _reached(step)
    found = [(place, new) for place in places + change.places_in(files)
             if (new := change(place[2])) is not None]
    try:
        for (container, key, _), new in found:
            _put(container, key, new)
        yield
    finally:
        for container, key, before_value in (place for place, _ in found):
            _put(container, key, before_value)


def _put(container: Any, key: Any, value: Any) -> None:
    if isinstance(container, (type, types.CellType, types.FunctionType)):
        setattr(container, key, value)
    else:
        container[key] = value


def _reached(step: nn.Module) -> tuple[list[Place], list[dict]]:
    """The places in what the model and its loss hold, and the global names of all files."""
    files = {id(vars(module)): vars(module) for name, module in list(sys.modules.items())
             if isinstance(module, types.ModuleType) and not _is_skipped(name)}
    places: list[Place] = []
    seen: set[int] = set()
    waiting: list[Any] = [step]
    while waiting and len(seen) < OBJECTS_MAX:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, torch.Tensor):
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):  # its file may be loaded without being a module of Python
            files.setdefault(id(value.__globals__), value.__globals__)
        own = list(_places_of(value))
        places += own
        waiting += [part for _, _, part in own]
        waiting += _parts(value)
    return places, [file for file in files.values() if not _is_skipped(file.get("__name__"))]


def _is_skipped(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in SKIPPED


def _places_of(value: Any) -> Iterator[Place]:
    """The places in which a value holds others and can be given others."""
    if isinstance(value, dict):
        yield from ((value, key, part) for key, part in value.items())
    elif isinstance(value, list):
        yield from ((value, i, part) for i, part in enumerate(value))
    elif isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # a variable without a value
                yield cell, "cell_contents", cell.cell_contents
        if value.__defaults__:
            yield value, "__defaults__", value.__defaults__
    elif isinstance(value, type) and not _is_skipped(value.__module__):
        yield from ((value, name, part) for name, part in vars(value).items())


def _parts(value: Any) -> list[Any]:
    """What a value reaches otherwise."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, type):
        return list(value.__mro__[1:])
    if isinstance(value, (nn.Module, types.SimpleNamespace)) or _is_of_user(type(value)):
        return [getattr(value, "__dict__", None), type(value)]
    return []


def _is_of_user(kind: type) -> bool:
    root = kind.__module__.partition(".")[0]
    return root not in SKIPPED and root not in sys.stdlib_module_names and root != "numpy"
