"""The table of conversions: ONNX operator -> function (builder, call, inputs) -> outputs."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..tracing.lower.builder import Operand
from ..tracing.lower.table import CannotLower

CONVERSIONS: dict[str, Callable] = {}


@dataclass
class Call:
    """What an operator has beside its inputs: attributes, and the number of its outputs."""

    attributes: dict[str, Any]
    outputs: int

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.attributes.get(name, default)


def converts(*names: str) -> Callable:
    """Registers a function for operators such as "Add"."""
    def register(function: Callable) -> Callable:
        for name in names:
            CONVERSIONS[name] = function
        return function
    return register


def numbers(x: Operand | None, what: str) -> list | None:
    """The numbers of a constant input, None if it is left out or empty."""
    if x is None:
        return None
    if not isinstance(x, torch.Tensor):
        raise CannotLower(f"its {what} is computed from data")
    return x.reshape(-1).tolist() or None


def axes_of(x: Operand, call: Call, given: Operand | None) -> list[int] | None:
    """The sorted axes of an attribute, or of an input in newer opsets."""
    axes = numbers(given, "axes") if given is not None else call.get("axes")
    return None if axes is None else sorted(axis % max(x.dim(), 1) for axis in axes)
