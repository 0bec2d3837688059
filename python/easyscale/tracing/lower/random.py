"""Operators that draw random numbers in training."""
from __future__ import annotations

from typing import Any

import torch

from .builder import Builder, Operand
from .table import CannotLower, lowers


def _drop(b: Builder, x: Operand, kind: str, p: float) -> Operand:
    if b.node.site < 0:
        return x
    if b.evaluating:
        raise CannotLower("a dropout that is active in evaluation")
    if p >= 1:
        return b.scale(x, 0.0)
    return b.emit(kind, x, p=float(p), site=b.node.site)


@lowers("dropout.default")
def dropout(b: Builder, input: Operand, p: float, train: bool) -> Operand:
    return _drop(b, input, "dropout", p)


@lowers("native_dropout.default")
def native_dropout(b: Builder, input: Operand, p: float, train: Any) -> list[Any]:
    return [_drop(b, input, "dropout", p), None]


@lowers("feature_dropout.default")
def feature_dropout(b: Builder, input: Operand, p: float, train: bool) -> Operand:
    """One decision for every channel: a dropout of ones [n,c,1,...]."""
    if b.node.site < 0:
        return input
    ones = torch.ones(*input.shape[:2], *[1] * (input.dim() - 2))
    return b.emit("mul", input, _draw_on_ones(b, "dropout", ones, p))


def _draw_on_ones(b: Builder, kind: str, ones: torch.Tensor, p: float) -> Operand:
    """Zeros, and 1 / (1 - p) with the probability 1 - p, in the shape of `ones`."""
    return _drop(b, b.value(ones), kind, p)


@lowers("sample_dropout.easyscale")
def sample_dropout(b: Builder, self: Operand, p: float) -> Operand:
    return _drop(b, self, "sample_dropout", p)


def _draw(b: Builder, kind: str) -> Operand:
    """Random numbers in the shape of the result."""
    if b.evaluating:
        raise CannotLower("a random draw in evaluation")
    if b.result.dtype != torch.float32:
        raise CannotLower(f"random numbers of the type {b.result.dtype}")
    return b.emit(kind, shape=b.result.shape, site=b.node.site)


@lowers("rand.default", "rand_like.default")
def uniform(b: Builder, **_: Any) -> Operand:
    return _draw(b, "uniform")


@lowers("randn.default", "randn_like.default")
def normal(b: Builder, **_: Any) -> Operand:
    return _draw(b, "normal")


@lowers("bernoulli.p")
def bernoulli(b: Builder, self: Operand, p: float, generator: Any) -> Operand:
    """Ones with the probability `p`, else zeros."""
    if generator is not None:
        raise CannotLower("a random generator of the user")
    ones = torch.ones(b.result.shape)
    rows = all(size == 1 for size in ones.shape[1:])
    kind = "sample_dropout" if rows else "dropout"
    return b.scale(_draw_on_ones(b, kind, ones, 1 - p), p)
