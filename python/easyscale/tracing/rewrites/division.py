"""Quotients and remainders of numbers, and quotients of integers that are rounded towards 0."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .table import rewrites


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors of their common type."""
    to = torch.result_type(x, y)
    return torch.as_tensor(x, dtype=to), torch.as_tensor(y, dtype=to)


@rewrites("floor_divide.default", "floor_divide.Scalar")
def floor_divide(self: Any, other: Any) -> Tensor:
    x, y = _pair(self, other)
    return torch.floor(x / y)


@rewrites("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(self: Any, other: Any) -> Tensor:
    x, y = _pair(self, other)
    return x - torch.floor(x / y) * y


@rewrites("trunc.default", "fix.default")
def trunc(self: Tensor) -> Tensor:
    return torch.where(self < 0, torch.ceil(self), torch.floor(self))


@rewrites("frac.default")
def frac(self: Tensor) -> Tensor:
    return self - trunc(self)


def _truncated(x: Tensor, y: Tensor) -> Tensor:
    if x.is_floating_point():
        return trunc(x / y)
    quotient = torch.floor_divide(x, y)
    return torch.where((quotient < 0) & (quotient * y != x), quotient + 1, quotient)


@rewrites("fmod.Tensor", "fmod.Scalar")
def fmod(self: Any, other: Any) -> Tensor:
    x, y = _pair(self, other)
    return x - _truncated(x, y) * y


@rewrites("div.Tensor_mode", "div.Scalar_mode")
def div_mode(self: Any, other: Any, rounding_mode: str | None) -> Tensor:
    x, y = _pair(self, other)
    return _truncated(x, y) if rounding_mode == "trunc" else torch.floor_divide(x, y)
