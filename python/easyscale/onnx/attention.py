"""Recognises attention, as `fuse.py` does other patterns."""
from __future__ import annotations

import math

import torch

from ..tracing.graph import Meta
from ..tracing.lower.attention import attention
from ..tracing.lower.builder import Emitted, Operand
from .builder import OnnxBuilder
from .fuse import close, unscaled

LEAST = torch.finfo(torch.float32).min


def fused_attention(b: OnnxBuilder, weights: Operand, values: Operand) -> Operand | None:
    """softmax(scale * q k^T + mask) v, maybe with a dropout of the weights."""
    p, softmax = _dropped(b, weights)
    if softmax is None or weights.dim() != 4 or values.dim() != 4 or (
            softmax.attributes["axis"] != 3):
        return None
    found = _scores(b, b.read(softmax, 0))
    if found is None:
        return None
    q, k, scale, mask = found
    if q.shape[:2] != values.shape[:2] or q.shape[:2] != k.shape[:2]:
        return None
    usual = 1 / math.sqrt(q.shape[3])
    scale = usual if close(scale, usual) else scale
    b.results = [Meta((*q.shape[:3], values.shape[3]), torch.float32)]
    b.node.site = b.site_of(weights)
    return attention(b, q, k, values, mask, p, False, scale, False)


def _dropped(b: OnnxBuilder, weights: Operand) -> tuple[float, Emitted | None]:
    """The probability of a dropout that only this product reads, and the softmax before it."""
    dropout = b.made(weights, "dropout")
    if dropout is None:
        return 0.0, b.made(weights, "softmax")
    if b.readers[weights.id] != 1:
        return 0.0, None
    return dropout.attributes["p"], b.made(b.read(dropout, 0), "softmax")


def _scores(b: OnnxBuilder, x: Operand) -> tuple[Operand, Operand, float, Operand | None] | None:
    """scale * q k^T + mask: (q, k, scale, mask)."""
    plain = _scaled_product(b, x)
    if plain is not None:
        return *plain, None
    for scores, mask in (*_added(b, x), *_selected(b, x)):
        found = _scaled_product(b, scores)
        if found is not None and mask.dim() <= 4:
            return *found, mask
    return None


def _added(b: OnnxBuilder, x: Operand) -> list[tuple[Operand, Operand]]:
    """What may be scores + mask, as pairs (scores, mask)."""
    total = b.made(x, "add")
    if total is None:
        return []
    sides = b.read(total, 0), b.read(total, 1)
    return [sides, sides[::-1]]


def _selected(b: OnnxBuilder, x: Operand) -> list[tuple[Operand, Operand]]:
    """Scores where a mask is true, else the least number, as pairs (scores, mask).

    The least number stands for minus infinity, if every row of a constant mask sees something.
    """
    choice = b.made(x, "where")
    if choice is None:
        return []
    mask, first, second = (b.read(choice, i) for i in range(3))
    if isinstance(first, torch.Tensor):
        mask, first, second = b.emit("not", mask), second, first
    if not isinstance(second, torch.Tensor) or second.numel() != 1:
        return []
    sees = isinstance(mask, torch.Tensor) and bool(mask.any(-1).all())
    hides = float(second) == -math.inf or (sees and float(second) <= LEAST)
    return [(first, mask)] if hides else []


def _scaled_product(b: OnnxBuilder, x: Operand) -> tuple[Operand, Operand, float] | None:
    """scale * q k^T: (q, k, scale); the scale may be on any of the three."""
    outer, product = unscaled(b, x)
    node = b.made(product, "matmul")
    if node is None:
        return None
    (first, q), (second, keys) = (unscaled(b, b.read(node, i)) for i in range(2))
    if q.dim() != 4 or keys.dim() != 4:
        return None
    return q, b.swap(keys, 2, 3), outer * first * second
