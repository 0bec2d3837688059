"""Recognises what exporters write as several operators, and makes one node of it.

A function here gets the inputs of the last operator of a pattern, and looks back at the nodes that
made them. It returns the result of the fused node, or None if the pattern is another one. Nodes
that nothing reads any more are not written.
"""
from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import torch

from ..tracing.lower.builder import Emitted, Operand, Val
from ..tracing.lower.factors import close, unscaled
from .builder import OnnxBuilder


@dataclass(frozen=True)
class _Product:
    """A number times values, which are counted because one may be there twice."""

    factor: float
    values: Counter[int]

    def times(self, other: _Product) -> _Product:
        return _Product(self.factor * other.factor, self.values + other.values)

    def is_(self, factor: float, values: Counter[int]) -> bool:
        return close(self.factor, factor) and self.values == values


def _product(b: OnnxBuilder, x: Operand, depth: int = 5) -> _Product:
    """A value as a product of numbers and other values."""
    if isinstance(x, torch.Tensor):
        return _Product(float(x), Counter()) if x.numel() == 1 else _Product(1.0, Counter([-1]))
    node = b.made(x, "mul", "mul_scalar", "square", "div") if depth else None
    if node is not None:
        first = _product(b, b.read(node, 0), depth - 1)
        if node.kind == "square":
            return first.times(first)
        if node.kind == "mul_scalar":
            return replace(first, factor=first.factor * node.attributes["value"])
        second = _product(b, b.read(node, 1), depth - 1)
        if node.kind == "mul":
            return first.times(second)
        if not second.values:
            return replace(first, factor=first.factor / second.factor)
    return _Product(1.0, Counter([x.id]))


# Sums, products and quotients.


def fused_sum(b: OnnxBuilder, x: Operand, y: Operand) -> Operand | None:
    """The bias of a linear layer, a layer norm or a group norm."""
    return _with_affine(b, x, y, "bias") or _with_affine(b, y, x, "bias")


def fused_product(b: OnnxBuilder, x: Operand, y: Operand) -> Operand | None:
    """The weight of a norm, an RMS norm, or an activation that is x times something."""
    for value, other in ((x, y), (y, x)):
        found = _with_affine(b, value, other, "weight") or _rms_norm(b, value, other)
        if found is None:
            found = _gated(b, value, other)
        if found is not None:
            return found
    return _gelu(b, x, y)


def fused_quotient(b: OnnxBuilder, x: Operand, y: Operand) -> Operand | None:
    """(x - mean) / sqrt(variance + eps), and x / sqrt(mean of squares + eps)."""
    root = b.made(y, "sqrt")
    found = _mean_of_squares(b, b.read(root, 0)) if root else None
    if found is None:
        return None
    squared, axes, eps = found
    if isinstance(x, Val) and squared.id == x.id:
        return _layer_norm(b, x, axes, eps) or b.emit("rms_norm", x, None, axes=axes, eps=eps)
    return None


AFFINE = {"bias": {"linear": 2, "layer_norm": 2, "group_norm": 2},
          "weight": {"layer_norm": 1, "group_norm": 1, "rms_norm": 1}}


def _with_affine(b: OnnxBuilder, x: Operand, w: Operand, part: str) -> Operand | None:
    """The layer that has made `x`, with `w` as its weight or bias."""
    node = b.made(x, *AFFINE[part])
    if node is None or not b.is_weight(w):
        return None
    slot = AFFINE[part][node.kind]
    inputs = [b.read(node, i) for i in range(len(node.inputs))]
    fitting = _fitting(b, node, w, x)
    if any(given is not None for given in inputs[slot:]) or fitting is None:
        return None
    inputs[slot] = fitting
    return b.emit(node.kind, *inputs, **node.attributes)


def _fitting(b: OnnxBuilder, node: Emitted, w: Operand, x: Operand) -> Operand | None:
    """A weight in the shape that the layer needs, if it broadcasts as the layer does."""
    shape = tuple(w.shape)
    if node.kind == "group_norm":
        wanted = (x.shape[1], *[1] * (x.dim() - 2))
        return b.reshape(w, (x.shape[1],)) if shape in (wanted, (1, *wanted)) else None
    axes = 1 if node.kind == "linear" else node.attributes["axes"]
    return w if shape == tuple(x.shape[x.dim() - axes:]) else None


def _mean_of_squares(b: OnnxBuilder, x: Operand) -> tuple[Val, int, float] | None:
    """mean(v * v over the last axes) + eps: (v, number of axes, eps)."""
    shifted = b.made(x, "add_scalar")
    mean = b.made(b.read(shifted, 0), "mean") if shifted else None
    square = b.made(b.read(mean, 0), "square", "mul") if mean else None
    if square is None or not mean.attributes["keepdim"]:
        return None
    value, rank = b.read(square, 0), len(b.values[mean.output].shape)
    count = len(mean.attributes["axes"])
    last = mean.attributes["axes"] == list(range(rank - count, rank))
    both = square.kind == "square" or square.inputs[0] == square.inputs[1]
    if not last or not both or not isinstance(value, Val):
        return None
    return value, count, shifted.attributes["value"]


def _layer_norm(b: OnnxBuilder, centred: Val, axes: int, eps: float) -> Operand | None:
    """x - mean(x) over the same axes, divided by its deviation."""
    minus = b.made(centred, "sub")
    mean = b.made(b.read(minus, 1), "mean") if minus else None
    rank = centred.dim()
    if mean is None or mean.inputs[0] != minus.inputs[0] or not mean.attributes["keepdim"] or (
            mean.attributes["axes"] != list(range(rank - axes, rank))):
        return None
    return b.emit("layer_norm", b.read(minus, 0), None, None, axes=axes, eps=eps)


def _rms_norm(b: OnnxBuilder, x: Operand, rate: Operand) -> Operand | None:
    """x * rsqrt(mean of squares + eps), which is a layer norm if x is centred."""
    root = b.made(rate, "rsqrt")
    found = _mean_of_squares(b, b.read(root, 0)) if root else None
    if found is None or not isinstance(x, Val) or found[0].id != x.id:
        return None
    return (_layer_norm(b, *found)
            or b.emit("rms_norm", x, None, axes=found[1], eps=found[2]))


def _gated(b: OnnxBuilder, x: Operand, gate: Operand) -> Operand | None:
    """x * sigmoid(x), x * hardsigmoid(x) and x * tanh(softplus(x))."""
    for kind, fused in (("sigmoid", "silu"), ("hardsigmoid", "hardswish")):
        node = b.made(gate, kind)
        if node is not None and isinstance(x, Val) and node.inputs[0] == x.id:
            return b.emit(fused, x)
    outer = b.made(gate, "tanh")
    inner = b.made(b.read(outer, 0), "softplus") if outer else None
    if inner is not None and isinstance(x, Val) and inner.inputs[0] == x.id:
        return b.emit("mish", x)
    return None


def _gelu(b: OnnxBuilder, x: Operand, y: Operand) -> Operand | None:
    """0.5 * x * (1 + erf(x / sqrt(2))), and the form with tanh; the factors in any order."""
    whole = _product(b, x).times(_product(b, y))
    for number in whole.values:
        shifted = b.made(b.values[number], "add_scalar") if number >= 0 else None
        if shifted is None or shifted.attributes["value"] != 1.0:
            continue
        found = _inside_of_gelu(b, b.read(shifted, 0))
        if found is None:
            continue
        value, approximate = found
        half, rest = _product(b, value), whole.values - Counter([number])
        if whole.is_(0.5 * half.factor, whole.values) and rest == half.values:
            return b.emit("gelu", value, approximate=approximate)
    return None


def _inside_of_gelu(b: OnnxBuilder, x: Operand) -> tuple[Operand, str] | None:
    """The x of erf(x / sqrt(2)), or of tanh(sqrt(2 / pi) * (x + 0.044715 x^3))."""
    node = b.made(x, "erf", "tanh")
    if node is None:
        return None
    factor, inner = unscaled(b, b.read(node, 0))
    if node.kind == "erf":
        return (inner, "none") if close(factor, math.sqrt(0.5)) else None
    total = b.made(inner, "add")
    if total is None or not close(factor, math.sqrt(2 / math.pi)):
        return None
    sides = b.read(total, 0), b.read(total, 1)
    for value, cubic in (sides, sides[::-1]):
        once = _product(b, value)
        if _product(b, cubic).is_(0.044715 * once.factor ** 3,
                                  once.values + once.values + once.values):
            return value, "tanh"
    return None


# Moves.


def whole_group_norm(b: OnnxBuilder, x: Operand, shape: list[int]) -> Operand | None:
    """An instance norm of [n,groups,rest] that is reshaped from and to [n,c,...]."""
    norm = b.made(x, "group_norm")
    before = b.made(b.read(norm, 0), "reshape") if norm else None
    if before is None or norm.inputs[1:] != [-1, -1]:
        return None
    source, groups = b.read(before, 0), norm.attributes["groups"]
    same_samples = source.shape[0] == x.shape[0] and tuple(source.shape) == tuple(shape)
    if groups != x.shape[1] or not same_samples or source.shape[1] % groups:
        return None
    return b.emit("group_norm", source, None, None, groups=groups, eps=norm.attributes["eps"])
