"""The table of lowerings: aten overload -> function (builder, arguments by their schema names)."""
from __future__ import annotations

from collections.abc import Callable

LOWERINGS: dict[str, Callable] = {}


class CannotLower(Exception):
    """An operator is known, but not with these arguments."""


def lowers(*names: str) -> Callable:
    """Registers a function for overloads such as "add.Tensor"."""
    def register(function: Callable) -> Callable:
        for name in names:
            LOWERINGS[f"aten.{name}"] = function
        return function
    return register
