"""Operators that draw random numbers."""
from __future__ import annotations

from typing import Any

import torch

from ..same_draws import LEAST_UNIFORM
from .builder import Builder, Operand, number
from .table import CannotLower, lowers


def drop(b: Builder, x: Operand, kind: str, p: float, draw: int = 0) -> Operand:
    """A dropout with the draw of this number of the operator that is lowered."""
    if b.node.site < 0:
        return x
    if p >= 1:
        return b.scale(x, 0.0)
    if b.evaluating:
        return _drop_in_evaluation(b, x, kind, p, draw)
    return b.emit(kind, x, p=float(p), site=b.node.site + draw)


def _drop_in_evaluation(b: Builder, x: Operand, kind: str, p: float, draw: int) -> Operand:
    """The kinds of dropouts do nothing in evaluation, so the decisions are written out."""
    if kind != "dropout":
        raise CannotLower("samples that are dropped in evaluation")
    kept = b.emit("lt", b.draw("uniform", tuple(x.shape), draw), torch.tensor(1.0 - p))
    return b.emit("mul", x, b.scale(b.cast(kept, "f32"), 1 / (1 - p)))


@lowers("dropout.default")
def dropout(b: Builder, input: Operand, p: float, train: bool) -> Operand:
    return drop(b, input, "dropout", p)


@lowers("native_dropout.default")
def native_dropout(b: Builder, input: Operand, p: float, train: Any) -> list[Any]:
    return [drop(b, input, "dropout", p), None]


@lowers("feature_dropout.default")
def feature_dropout(b: Builder, input: Operand, p: float, train: bool) -> Operand:
    """One decision for every channel: a dropout of ones [n,c,1,...]."""
    if b.node.site < 0:
        return input
    ones = torch.ones(*input.shape[:2], *[1] * (input.dim() - 2))
    return b.emit("mul", input, drop(b, b.value(ones), "dropout", p))


@lowers("sample_dropout.easyscale")
def sample_dropout(b: Builder, self: Operand, p: float) -> Operand:
    return drop(b, self, "sample_dropout", p)


EXACT = 1 << 24  # integers up to this one are exact in fp32


def _refuse_generator(generator: Any) -> None:
    if generator is not None:
        raise CannotLower("a random generator of the user")


@lowers("rand.default", "rand_like.default")
def uniform(b: Builder, **_: Any) -> Operand:
    return b.draw("uniform")


@lowers("randn.default", "randn_like.default")
def normal(b: Builder, **_: Any) -> Operand:
    return b.draw("normal")


def _fixed(b: Builder, x: Operand) -> Operand:
    """`x` without a gradient, as torch has none through the parameters of a distribution."""
    return b.emit("stop_gradient", b.operand(x, "f32"))


def _scaled(b: Builder, x: Operand, factor: Any, term: Any) -> Operand:
    """`x * factor + term`, of which both are numbers or tensors."""
    scale, shift = number(factor), number(term)
    x = b.emit("mul", x, _fixed(b, factor)) if scale is None else b.scale(x, scale)
    return b.emit("add", x, _fixed(b, term)) if shift is None else b.shift(x, shift)


@lowers("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor", "normal.float_float",
        "normal_functional.default")
def normal_with(b: Builder, mean: Any, std: Any, generator: Any, **_: Any) -> Operand:
    _refuse_generator(generator)
    return _scaled(b, b.draw("normal"), std, mean)


@lowers("uniform.default")
def uniform_between(b: Builder, self: Operand, to: float, generator: Any, **named: Any) -> Operand:
    _refuse_generator(generator)
    low = named["from"]
    return _scaled(b, b.draw("uniform"), to - low, low)


@lowers("exponential.default")
def exponential(b: Builder, self: Operand, lambd: float, generator: Any) -> Operand:
    _refuse_generator(generator)
    above_zero = b.emit("clamp", b.draw("uniform"), min=LEAST_UNIFORM)
    return b.scale(b.emit("log1p", b.emit("neg", above_zero)), -1.0 / lambd)


@lowers("randint.default", "randint.low")
def randint(b: Builder, high: int, low: int = 0, **_: Any) -> Operand:
    """The place of a uniform number among the integers, which are exact in fp32."""
    if max(abs(low), abs(high), high - low) > EXACT:
        raise CannotLower(f"random integers from {low} to {high}")
    place = b.emit("floor", b.scale(b.draw("uniform"), float(high - low)))
    x = b.cast(b.shift(place, float(low)), "i32")
    # What the engine cannot know otherwise: the range, by which the integers may select rows.
    x = b.emit("maximum", x, torch.tensor(low, dtype=torch.int32))
    return b.emit("minimum", x, torch.tensor(high - 1, dtype=torch.int32))


@lowers("bernoulli.p", "bernoulli.default", "bernoulli.Tensor")
def bernoulli(b: Builder, self: Operand, generator: Any, p: Any = None) -> Operand:
    """Ones with the probability `p`, or that of each element of `self`, else zeros."""
    _refuse_generator(generator)
    p = b.operand(self if p is None else p, "f32")
    return b.cast(b.emit("lt", b.draw("uniform"), p), "f32")


@lowers("rrelu.default", "rrelu_with_noise.default")
def rrelu(b: Builder, self: Operand, lower: float, upper: float, training: bool, generator: Any,
          **_: Any) -> Operand:
    """A slope of its own for each element below 0 in training, the mean of both otherwise."""
    _refuse_generator(generator)
    if b.node.site < 0:
        return b.emit("leaky_relu", self, slope=(lower + upper) / 2)
    slopes = _scaled(b, b.draw("uniform"), upper - lower, lower)
    return b.emit("where", b.emit("gt", self, torch.tensor(0.0)), self,
                  b.emit("mul", self, slopes))
