"""Operators of integers: quotients, bits, shifts, powers, and what is made of other types.

All integers count as those of 64 bits here. `wrapped` says where a smaller type of torch wraps, and
widths.py decides which ones are computed with 32 bits.
"""
from __future__ import annotations

from typing import Any

import torch

from .builder import TYPES, Builder, Operand, Val, number, type_of
from .table import CannotLower, lowers

NARROW = (torch.uint8, torch.int8, torch.int16, torch.int32)
# Operators whose result may leave the range of its type, where torch keeps the lowest bits.
WRAPPING = {"add", "sub", "rsub", "neg", "abs", "mul", "multiply", "square", "pow", "sum", "cumsum",
            "floor_divide", "bitwise_not", "bitwise_left_shift", "__lshift__"}
CONVERSIONS = ("to.dtype", "to.dtype_layout", "to.other", "to.device", "_to_copy.default",
               "type_as.default", "float.default", "long.default", "int.default", "bool.default")
KINDS = {"floor_divide": "floor_div", "remainder": "remainder",
         "bitwise_left_shift": "shift_left", "__lshift__": "shift_left",
         "bitwise_right_shift": "shift_right", "__rshift__": "shift_right"}
OVERLOADS = ("default", "Scalar", "Tensor", "Scalar_Tensor", "Tensor_Scalar")
BITS = {"and": "bit_and", "or": "bit_or", "xor": "bit_xor"}
# These are lowered for integers only; those of real numbers are written with other operators.
OF_INTEGERS = {f"aten.{name}.{overload}" for name in KINDS for overload in OVERLOADS}


def wrapped(b: Builder, target: str, x: Operand, dtype: torch.dtype) -> Operand:
    """The result `x` of an operator in the range of a torch type; of most it is there already."""
    if dtype not in NARROW or target.split(".")[1] not in WRAPPING or isinstance(x, torch.Tensor):
        return x
    return wrap(b, b.cast(x, "i32"), dtype)


def wrap(b: Builder, x: Operand, dtype: torch.dtype) -> Operand:
    """The lowest bits of integers, as a number of a narrow type."""
    info = torch.iinfo(dtype)
    return b.emit("wrap", x, bits=info.bits, signed=info.min < 0)


@lowers(*CONVERSIONS)
def convert(b: Builder, self: Operand, **_: Any) -> Operand:
    """What torch does not define ends the step: a real number beyond the type of integers."""
    dtype = b.result.dtype
    to = TYPES.get(dtype)
    if to is None:
        raise CannotLower(f"a conversion to {dtype}, which the engine does not have; compute with "
                          "float32, long or bool")
    if to != "i32" or type_of(self) == "bool":
        return b.cast(self, to)
    if type_of(self) == "f32":
        whole = b.emit("cast", self, to="i64")
        info = torch.iinfo(dtype)
        return b.emit("narrow", whole, low=info.min, high=info.max) if dtype in NARROW else whole
    return wrap(b, self, dtype) if dtype in NARROW else self


def _register(name: str, kind: str) -> None:
    @lowers(*(f"{name}.{overload}" for overload in OVERLOADS))
    def lower(b: Builder, self: Any, other: Any) -> Operand:
        if kind in ("floor_div", "remainder") and number(other) == 0:
            raise CannotLower("a division of integers by 0")
        return b.emit(kind, b.operand(self, "i32"), b.operand(other, "i32"))


def _register_bits(name: str, kind: str) -> None:
    @lowers(*(f"{prefix}.{overload}" for prefix in (f"bitwise_{name}", f"__{name}__")
              for overload in OVERLOADS))
    def lower(b: Builder, self: Any, other: Any) -> Operand:
        if b.result.dtype != torch.bool:
            return b.emit(kind, b.operand(self, "i32"), b.operand(other, "i32"))
        x, y = b.operand(self, "bool"), b.operand(other, "bool")
        if name == "xor":
            return b.emit("ne", b.cast(x, "i32"), b.cast(y, "i32"))
        return b.emit(name, x, y)


for _name, _kind in KINDS.items():
    _register(_name, _kind)
for _name, _kind in BITS.items():
    _register_bits(_name, _kind)


@lowers("bitwise_not.default")
def bitwise_not(b: Builder, self: Operand) -> Operand:
    if b.result.dtype == torch.bool:
        return b.emit("not", self)
    return b.emit("sub", torch.tensor(-1), self)


def unary(b: Builder, name: str, x: Operand) -> Operand | None:
    """A function of integers that has an integer as its result; None for any other function."""
    zero = torch.tensor(0)
    if name in ("floor", "ceil", "round", "trunc"):
        return x
    if name == "neg":
        return b.emit("sub", zero, x)
    if name == "abs":
        return b.emit("maximum", x, b.emit("sub", zero, x))
    if name == "relu":
        return b.emit("maximum", x, zero)
    if name == "sign":
        return b.emit("maximum", b.emit("minimum", x, torch.tensor(1)), torch.tensor(-1))
    return b.emit("mul", x, x) if name == "square" else None


def power(b: Builder, x: Any, exponent: Any) -> Operand:
    """x ** exponent modulo 2^64, as torch has it."""
    if isinstance(exponent, Val):
        if number(x) == 2:
            return b.emit("shift_left", torch.tensor(1), exponent)
        raise CannotLower("a power of integers with a computed exponent; convert to float before")
    times = number(exponent)
    if times is None or times < 0 or times != int(times):
        raise CannotLower("a power of integers with an exponent that is no number from 0 on")
    result: Operand = b.expand(torch.tensor(1), b.result.shape)
    factor, times = b.operand(x, "i32"), int(times)
    while times:
        if times % 2:
            result = factor if isinstance(result, torch.Tensor) else b.emit("mul", result, factor)
        times //= 2
        if times:
            factor = b.emit("mul", factor, factor)
    return result
