"""Buffers that a forward pass in training writes."""
from __future__ import annotations

from ..functional import SET_STATE
from .builder import Builder, Operand
from .table import LOWERINGS


def set_state(b: Builder, x: Operand, name: str) -> Operand:
    return b.set_state(x, name)


LOWERINGS[SET_STATE] = set_state
