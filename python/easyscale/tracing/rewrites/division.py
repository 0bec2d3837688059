"""Quotients and remainders of numbers and of integers, and their bits."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .table import rewrites


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors of their common type."""
    to = torch.result_type(x, y)
    return torch.as_tensor(x, dtype=to), torch.as_tensor(y, dtype=to)


def _divided(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The quotient of integers, rounded down, and the remainder, for all 32-bit numbers.

    The first quotient is rounded to fp32; the second one divides what it has left; the last step
    corrects by one, because a divisor beyond 2^24 is rounded too.
    """
    quotient, rest = torch.zeros_like(x), x
    for _ in range(2):
        part = torch.floor(rest.float() / y.float()).to(x.dtype)
        quotient, rest = quotient + part, rest - part * y
    below = (rest != 0) & ((rest < 0) != (y < 0))
    quotient, rest = torch.where(below, quotient - 1, quotient), torch.where(below, rest + y, rest)
    above = torch.abs(rest.float()) >= torch.abs(y.float())
    return torch.where(above, quotient + 1, quotient), torch.where(above, rest - y, rest)


@rewrites("floor_divide.default", "floor_divide.Scalar")
def floor_divide(self: Any, other: Any) -> Tensor:
    x, y = _pair(self, other)
    return torch.floor(x / y) if x.is_floating_point() else _divided(x, y)[0]


@rewrites("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(self: Any, other: Any) -> Tensor:
    x, y = _pair(self, other)
    return x - torch.floor(x / y) * y if x.is_floating_point() else _divided(x, y)[1]


@rewrites("trunc.default", "fix.default")
def trunc(self: Tensor) -> Tensor:
    return torch.where(self < 0, torch.ceil(self), torch.floor(self))


@rewrites("frac.default")
def frac(self: Tensor) -> Tensor:
    return self - trunc(self)


def _truncated(x: Tensor, y: Tensor) -> Tensor:
    if x.is_floating_point():
        return trunc(x / y)
    quotient, rest = _divided(x, y)
    return torch.where((rest != 0) & ((x < 0) != (y < 0)), quotient + 1, quotient)


@rewrites("fmod.Tensor", "fmod.Scalar")
def fmod(self: Any, other: Any) -> Tensor:
    x, y = _pair(self, other)
    return x - _truncated(x, y) * y


@rewrites("div.Tensor_mode", "div.Scalar_mode")
def div_mode(self: Any, other: Any, rounding_mode: str | None) -> Tensor:
    x, y = _pair(self, other)
    return _truncated(x, y) if rounding_mode == "trunc" else floor_divide(x, y)


@rewrites("__lshift__.Scalar", "bitwise_left_shift.Tensor_Scalar")
def left_shift(self: Tensor, other: int) -> Tensor:
    return self * 2 ** other


@rewrites("__rshift__.Scalar", "bitwise_right_shift.Tensor_Scalar")
def right_shift(self: Tensor, other: int) -> Tensor:
    return floor_divide(self, 2 ** other)


def _common_bits(x: Tensor, mask: int) -> Tensor:
    """The bits of integers that are 1 in a number, too."""
    if mask < 0:
        return x - _common_bits(x, ~mask)
    if (mask + 1) & mask == 0:  # the lowest bits
        return remainder(x, mask + 1)
    places = [place for place in range(mask.bit_length()) if mask >> place & 1]
    return sum((remainder(right_shift(x, place), 2) * 2 ** place for place in places),
               torch.zeros_like(x))


def _bitwise(logical: Any, of_integers: Any) -> Any:
    """An operator on bits: `logical` for truth values, `of_integers` (x, number, common bits)."""
    def operator(self: Tensor, other: Any) -> Tensor:
        if self.dtype == torch.bool:
            return logical(self, torch.as_tensor(other))
        if isinstance(other, Tensor):
            raise NotImplementedError
        return of_integers(self, other, _common_bits(self, other))
    return operator


for _name, _logical, _of_integers in (
        ("and", torch.logical_and, lambda x, y, both: both),
        ("or", torch.logical_or, lambda x, y, both: x + (y - both)),
        ("xor", torch.logical_xor, lambda x, y, both: (x - both) + (y - both))):
    rewrites(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"__{_name}__.Tensor",
             f"__{_name}__.Scalar")(_bitwise(_logical, _of_integers))


@rewrites("bitwise_not.default")
def bitwise_not(self: Tensor) -> Tensor:
    return -1 - self
