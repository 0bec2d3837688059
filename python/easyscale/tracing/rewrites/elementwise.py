"""Limits, signs, roundings and tests, element by element."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..ties import TIES_ARE_SHARED
from .table import FP32_MAX, rewrites


@rewrites("isfinite.default")
def isfinite(self: Tensor) -> Tensor:
    return torch.abs(self) <= FP32_MAX  # false for NaN


@rewrites("isinf.default")
def isinf(self: Tensor) -> Tensor:
    return torch.abs(self) > FP32_MAX


@rewrites("nan_to_num.default")
def nan_to_num(self: Tensor, nan: float | None, posinf: float | None,
               neginf: float | None) -> Tensor:
    def full(value: float | None, otherwise: float) -> Tensor:
        return torch.full_like(self, otherwise if value is None else value)
    x = torch.where(self != self, full(nan, 0.0), self)
    x = torch.where(x > FP32_MAX, full(posinf, FP32_MAX), x)
    return torch.where(x < -FP32_MAX, full(neginf, -FP32_MAX), x)


@rewrites("hardshrink.default")
def hardshrink(self: Tensor, lambd: float) -> Tensor:
    return torch.where(torch.abs(self) > lambd, self, torch.zeros_like(self))


@rewrites("softshrink.default")
def softshrink(self: Tensor, lambd: float) -> Tensor:
    shrunk = torch.where(self > 0, self - lambd, self + lambd)
    return torch.where(torch.abs(self) > lambd, shrunk, torch.zeros_like(self))


@rewrites("fmax.default")
def fmax(self: Tensor, other: Tensor) -> Tensor:
    # A NaN ends the job.
    return torch.maximum(self, other) if TIES_ARE_SHARED else torch.where(self >= other, self, other)


@rewrites("fmin.default")
def fmin(self: Tensor, other: Tensor) -> Tensor:
    return torch.minimum(self, other) if TIES_ARE_SHARED else torch.where(self <= other, self, other)


@rewrites("round.decimals")
def round_decimals(self: Tensor, decimals: int) -> Tensor:
    return torch.round(self * 10.0 ** decimals) / 10.0 ** decimals


@rewrites("sgn.default")
def sgn(self: Tensor) -> Tensor:
    return torch.sign(self)


@rewrites("copysign.Tensor", "copysign.Scalar")
def copysign(self: Tensor, other: Any) -> Tensor:
    size = torch.abs(self)
    return torch.where(torch.as_tensor(other) < 0, -size, size)


@rewrites("heaviside.default")
def heaviside(self: Tensor, values: Tensor) -> Tensor:
    return torch.where(self == 0, values.to(self.dtype), (self > 0).to(self.dtype))
