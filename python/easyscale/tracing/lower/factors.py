"""Constant factors of values that were built already."""
from __future__ import annotations

import math

import torch

from .builder import Builder, Operand

CLOSE = 1e-5  # relative; constants of a pattern were rounded to fp32


def close(x: float, y: float) -> bool:
    """True for numbers that differ by the rounding of constants."""
    return math.isclose(x, y, rel_tol=CLOSE)


def unscaled(b: Builder, x: Operand) -> tuple[float, Operand]:
    """A value without the numbers that it is multiplied with or divided by."""
    node = b.made(x, "mul_scalar", "div", "mul")
    if node is None:
        return 1.0, x
    if node.kind == "mul_scalar":
        factor, inner = unscaled(b, b.read(node, 0))
        return factor * node.attributes["value"], inner
    first, second = b.read(node, 0), b.read(node, 1)
    if node.kind == "mul" and isinstance(first, torch.Tensor):
        first, second = second, first
    if not isinstance(second, torch.Tensor) or second.numel() != 1:
        return 1.0, x
    if tuple(first.shape) != tuple(x.shape):
        return 1.0, x
    factor, inner = unscaled(b, first)
    number = float(second)
    return factor * number if node.kind == "mul" else factor / number, inner
