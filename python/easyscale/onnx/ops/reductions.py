"""Operators that make one number of many, over any axes."""
from __future__ import annotations

from collections.abc import Callable

import torch

from ...tracing.lower.builder import Operand, type_of
from ...tracing.lower.reductions import reduce, vector_norm
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..table import Call, axes_of, converts, numbers


def _kind(kind: str) -> Callable:
    return lambda b, x, axes, keep: reduce(b, kind, x, axes, keep)


def _sum_of_squares(b: OnnxBuilder, x: Operand, axes: list[int], keep: bool) -> Operand:
    return reduce(b, "sum", b.emit("square", x), axes, keep)


def _log_of_sum(b: OnnxBuilder, x: Operand, axes: list[int], keep: bool) -> Operand:
    return b.emit("log", reduce(b, "sum", x, axes, keep))


REDUCTIONS: dict[str, Callable] = {
    "ReduceSum": _kind("sum"), "ReduceMean": _kind("mean"), "ReduceMax": _kind("amax"),
    "ReduceMin": _kind("amin"), "ReduceProd": _kind("prod"), "ReduceLogSumExp": _kind("logsumexp"),
    "ReduceSumSquare": _sum_of_squares, "ReduceLogSum": _log_of_sum,
    "ReduceL1": lambda b, x, axes, keep: vector_norm(b, x, 1, axes, keep),
    "ReduceL2": lambda b, x, axes, keep: vector_norm(b, x, 2, axes, keep),
}


def _register(name: str, function: Callable) -> None:
    @converts(name)
    def convert(b: OnnxBuilder, call: Call, x: Operand, axes: Operand | None = None) -> Operand:
        if type_of(x) != "f32" and name != "ReduceSum":
            raise CannotLower("a reduction of integers other than their sum")
        over = axes_of(x, call, axes)
        if over is None and call.get("noop_with_empty_axes", 0):
            return x
        over = list(range(x.dim())) if over is None else over
        return function(b, x, over, bool(call.get("keepdims", 1)))


for _name, _function in REDUCTIONS.items():
    _register(_name, _function)


def _register_index(name: str, kind: str) -> None:
    @converts(name)
    def convert(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
        if call.get("select_last_index", 0):
            raise CannotLower("the last of equal elements")
        return b.emit(kind, x, axis=call.get("axis", 0) % x.dim(),
                      keepdim=bool(call.get("keepdims", 1)))


for _name, _index_kind in (("ArgMax", "argmax"), ("ArgMin", "argmin")):
    _register_index(_name, _index_kind)


@converts("CumSum")
def cumsum(b: OnnxBuilder, call: Call, x: Operand, axis: Operand) -> Operand:
    at = (numbers(axis, "axis") or [0])[0] % x.dim()
    backwards = bool(call.get("reverse", 0))
    given = b.emit("flip", x, axes=[at]) if backwards else x
    sums = b.emit("cumsum", given, axis=at)
    if call.get("exclusive", 0):
        sums = b.emit("sub", sums, given)
    return b.emit("flip", sums, axes=[at]) if backwards else sums


@converts("Softmax")
def softmax(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return b.emit("softmax", x, axis=call.get("axis", -1) % x.dim())


@converts("LogSoftmax")
def log_softmax(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return b.emit("log_softmax", x, axis=call.get("axis", -1) % x.dim())


@converts("LpNormalization")
def lp_normalization(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    axis = call.get("axis", -1) % x.dim()
    norm = vector_norm(b, x, call.get("p", 2), [axis], True)
    return b.emit("where", b.emit("eq", norm, torch.tensor(0.0)), torch.tensor(0.0),
                  b.emit("div", x, b.emit("clamp", norm, min=1e-30)))
