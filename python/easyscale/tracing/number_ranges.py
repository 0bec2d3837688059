"""What is known of the numbers in the values of a program: exact ranges of integers, and ranges of
real numbers as far as integers are made of them.

The ranges are Python's integers, without an end. What leaves 64 bits may be any integer of 64 bits.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..program import Node, Program

Range = tuple[Any, Any]
BATCH_MAX = 65_536  # samples of a mini-batch for which the ranges hold
INT32: Range = (-2 ** 31, 2 ** 31 - 1)
INT64: Range = (-2 ** 63, 2 ** 63 - 1)
BOOL: Range = (0, 1)
ANY: Range = (-math.inf, math.inf)
MOVES = {"reshape", "permute", "expand", "slice", "roll", "flip", "index_select", "gather",
         "take_rows", "pad_reflect", "pad_replicate", "pad_circular", "amax", "amin", "stop_gradient"}
UNARY: dict[str, Callable[[Range], Range]] = {
    "neg": lambda x: (-x[1], -x[0]),
    "abs": lambda x: (0, max(abs(x[0]), abs(x[1]))) if x[0] <= 0 <= x[1] else
    (min(abs(x[0]), abs(x[1])), max(abs(x[0]), abs(x[1]))),
    "relu": lambda x: (max(x[0], 0), max(x[1], 0)),
    "sigmoid": lambda x: BOOL, "softmax": lambda x: BOOL, "hardsigmoid": lambda x: BOOL,
    "tanh": lambda x: (-1, 1), "sin": lambda x: (-1, 1), "cos": lambda x: (-1, 1),
    "sign": lambda x: (-1, 1),
}


def _corners(function: Callable[[Any, Any], Any], x: Range, y: Range) -> Range:
    values = [function(a, b) for a in x for b in y]
    return min(values), max(values)


def _product(a: Any, b: Any) -> Any:
    return 0 if a == 0 or b == 0 else a * b  # also of infinities


def _quotient(x: Range, y: Range) -> Range:
    parts = [part for part in ((y[0], min(y[1], -1)), (max(y[0], 1), y[1])) if part[0] <= part[1]]
    ranges = [_corners(lambda a, b: a // b, x, part) for part in parts] or [(0, 0)]
    return min(r[0] for r in ranges), max(r[1] for r in ranges)


def _remainder(x: Range, y: Range) -> Range:
    low, high = min(y[0] + 1, 0), max(y[1] - 1, 0)
    return (0, min(x[1], high)) if x[0] >= 0 and y[0] >= 0 else (low, high)


def _bits(x: Range, y: Range) -> Range:
    """The integers with no more bits than the operands have."""
    places = max(n.bit_length() if n >= 0 else (~n).bit_length() for n in (*x, *y))
    return -(1 << places) if min(x[0], y[0]) < 0 else 0, (1 << places) - 1


def _and(x: Range, y: Range) -> Range:
    above = [r[1] for r in (x, y) if r[0] >= 0]
    return (0, min(above)) if above else _bits(x, y)


def _left(x: Range, y: Range) -> Range:
    if y[0] < 0 or y[1] > 63:
        return INT64
    return min(x[0] << y[1], x[0] << y[0], 0), max(x[1] << y[1], x[1] << y[0], 0)


def _right(x: Range, y: Range) -> Range:
    least = y[0] if y[0] >= 0 else 0
    return min(x[0] >> least, 0) if x[0] < 0 else 0, max(x[1] >> least, -1 if x[1] < 0 else 0)


BINARY: dict[str, Callable[[Range, Range], Range]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]), "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": lambda x, y: _corners(_product, x, y),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "floor_div": _quotient, "remainder": _remainder, "bit_and": _and, "bit_or": _bits,
    "bit_xor": _bits, "shift_left": _left, "shift_right": _right,
}


def fits(given: Range, allowed: Range = INT32) -> bool:
    """Whether all numbers of a range are in another one."""
    return allowed[0] <= given[0] and given[1] <= allowed[1]


def union(ranges: list[Range]) -> Range:
    """The range of all numbers of several ranges."""
    return min(r[0] for r in ranges), max(r[1] for r in ranges)


def number_ranges(program: Program) -> list[Range]:
    """The range of every value."""
    return _Ranges(program).ranges


class _Ranges:
    def __init__(self, program: Program):
        self.program = program
        self.ranges: list[Range] = [self._any(value.type) for value in program.values]
        for entry in program.inputs:
            if program.values[entry.value].type == "i32":
                self.ranges[entry.value] = entry.low, entry.high
        for constant in program.constants:
            if constant.array.size and not np.isnan(constant.array).any():
                self.ranges[constant.value] = constant.array.min().item(), constant.array.max().item()
        for node in program.nodes:
            self._visit(node)

    @staticmethod
    def _any(type_: str) -> Range:
        return {"i32": INT32, "bool": BOOL}.get(type_, ANY)

    def _visit(self, node: Node) -> None:
        output, given = node.outputs[0], [self.ranges[i] for i in node.inputs if i >= 0]
        type_ = self.program.values[output].type
        if type_ == "bool":
            return
        found = self._found(node, given, type_)
        if found is None or any(math.isnan(n) for n in found):
            return
        if type_ == "i32" and not fits(found, INT64):
            found = INT64
        if type_ == "f32":  # rounding may move an end
            found = tuple(float(n) * (1 + 2e-7 * (1 if (n > 0) == bool(i) else -1))
                          for i, n in enumerate(found))
            if not fits(found, (-1e30, 1e30)):
                found = ANY
        self.ranges[output] = found

    def _found(self, node: Node, given: list[Range], type_: str) -> Range | None:
        kind, a = node.kind, node.attributes
        if kind in MOVES:
            return given[0]
        if kind == "set_state":  # it has what the state has, or the step has ended
            return max(given[0][0], INT32[0]), min(given[0][1], INT32[1])
        if kind == "concat":
            return union(given)
        if kind == "where":
            return union(given[1:])
        if kind in BINARY:
            return BINARY[kind](*given)
        if kind in UNARY:
            return UNARY[kind](given[0])
        if kind == "uniform":
            return BOOL
        if kind == "pad":
            return union([given[0], (a["value"], a["value"])]) if type_ == "f32" else union(
                [given[0], (int(a["value"]), int(a["value"]))])
        if kind in ("sum", "cumsum"):
            return self._sum(node, given[0])
        if kind in ("argmax", "argmin"):
            return 0, self._extent(node.inputs[0], a["axis"]) - 1
        if kind == "mul_scalar":
            return _corners(_product, given[0], (a["value"], a["value"]))
        if kind == "add_scalar":
            return given[0][0] + a["value"], given[0][1] + a["value"]
        if kind == "clamp":
            low, high = a.get("min", -math.inf), a.get("max", math.inf)
            return min(max(given[0][0], low), high), max(min(given[0][1], high), low)
        if kind in ("floor", "round"):
            return self._whole(given[0])
        return self._converted(kind, a, given, type_)

    def _converted(self, kind: str, a: dict, given: list[Range], type_: str) -> Range | None:
        if kind == "narrow":
            return max(given[0][0], a["low"]), min(given[0][1], a["high"])
        if kind == "wrap":
            low = -(1 << a["bits"] - 1) if a["signed"] else 0
            allowed = low, low + (1 << a["bits"]) - 1
            return given[0] if fits(given[0], allowed) else allowed
        if kind != "cast":
            return None
        if type_ == "f32":
            return given[0]
        saturated = INT32 if a["to"] == "i32" else INT64
        low, high = self._whole(given[0])
        return (max(low, saturated[0]) if low > -math.inf else saturated[0],
                min(high, saturated[1]) if high < math.inf else saturated[1])

    @staticmethod
    def _whole(given: Range) -> Range:
        return tuple(n if not math.isfinite(n) else end(n)
                     for n, end in zip(given, (math.floor, math.ceil)))

    def _extent(self, value: int, axis: int) -> int:
        return self.program.values[value].dims[axis].at(BATCH_MAX)

    def _sum(self, node: Node, given: Range) -> Range:
        axes = node.attributes.get("axes", [node.attributes.get("axis")])
        most = math.prod(self._extent(node.inputs[0], axis) for axis in axes)
        fewest = 1 if node.kind == "cumsum" or any(
            self.program.values[node.inputs[0]].dims[axis].per_batch for axis in axes) else most
        low, high = given
        return (_product(low, most if low < 0 else fewest),
                _product(high, fewest if high < 0 else most))
