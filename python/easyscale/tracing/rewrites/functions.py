"""Functions of one number, or of two, that the engine has no operator for."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .division import _pair
from .table import rewrites


@rewrites("exp2.default")
def exp2(self: Tensor) -> Tensor:
    return torch.exp(self * math.log(2))


@rewrites("log2.default")
def log2(self: Tensor) -> Tensor:
    return torch.log(self) * (1 / math.log(2))


@rewrites("log10.default")
def log10(self: Tensor) -> Tensor:
    return torch.log(self) * (1 / math.log(10))


def _signed(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """An odd function of x, from its values at numbers from 0 on; at 0 it has the slope that it has
    above 0, which |x| would hide."""
    sign = torch.where(x < 0, -torch.ones_like(x), torch.ones_like(x))
    return sign * function(sign * x)


@rewrites("sinh.default")
def sinh(self: Tensor) -> Tensor:
    def above(x: Tensor) -> Tensor:
        grown = torch.expm1(x)
        return 0.5 * (grown + grown / (grown + 1))
    return _signed(self, above)


@rewrites("cosh.default")
def cosh(self: Tensor) -> Tensor:
    grown = torch.exp(torch.abs(self))
    return 0.5 * (grown + 1 / grown)


@rewrites("asinh.default")
def asinh(self: Tensor) -> Tensor:
    # log1p keeps small numbers exact: x + (sqrt(x^2 + 1) - 1) = x + x^2 / (sqrt(x^2 + 1) + 1).
    return _signed(self, lambda x: torch.log1p(x + x * x / (torch.sqrt(x * x + 1) + 1)))


@rewrites("acosh.default")
def acosh(self: Tensor) -> Tensor:
    return torch.log(self + torch.sqrt(self * self - 1))


@rewrites("atanh.default")
def atanh(self: Tensor) -> Tensor:
    return 0.5 * (torch.log1p(self) - torch.log1p(-self))


def _half_angle(x: Tensor) -> Tensor:
    """tan(atan(x) / 2)."""
    return x / (1 + torch.sqrt(1 + x * x))


@rewrites("atan.default")
def atan(self: Tensor) -> Tensor:
    # Three half angles leave an argument below tan(pi / 16) = 0.199, whose series of six terms has an
    # error of 6e-11. atan changes by less than 1e-9 beyond 1e9, whose square does not overflow.
    x = _half_angle(_half_angle(_half_angle(torch.clamp(self, -1e9, 1e9))))
    square = x * x
    series = torch.zeros_like(x)
    for k in range(11, -1, -2):
        series = series * square + (1 if k % 4 == 1 else -1) / k
    return 8 * x * series


def _without_zeros(x: Tensor) -> Tensor:
    """`x` with 1 in place of 0: a division by it has a finite gradient, which `where` drops."""
    return torch.where(x == 0, torch.ones_like(x), x)


@rewrites("atan2.default")
def atan2(self: Tensor, other: Tensor) -> Tensor:
    y, x = self, other
    steep = torch.abs(y) > torch.abs(x)
    ratio = torch.where(steep, x, y) / _without_zeros(torch.where(steep, y, x))
    angle = atan(ratio)
    quarter = torch.where(y < 0, torch.full_like(y, -math.pi / 2), torch.full_like(y, math.pi / 2))
    half = torch.where(x < 0, 2 * quarter, torch.zeros_like(x))
    return torch.where(steep, quarter - angle, angle + half)


@rewrites("asin.default")
def asin(self: Tensor) -> Tensor:
    return atan(self / torch.sqrt((1 - self) * (1 + self)))


@rewrites("acos.default")
def acos(self: Tensor) -> Tensor:
    return math.pi / 2 - asin(self)


@rewrites("logaddexp.default")
def logaddexp(self: Tensor, other: Tensor) -> Tensor:
    return torch.maximum(self, other) + torch.log1p(torch.exp(-torch.abs(self - other)))


@rewrites("logit.default")
def logit(self: Tensor, eps: float | None) -> Tensor:
    x = self if eps is None else torch.clamp(self, eps, 1 - eps)
    return torch.log(x / (1 - x))


@rewrites("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self")
def xlogy(self: Any, other: Any) -> Tensor:
    x, y = _pair(self, other)
    zero = (x == 0) & (y <= 0)
    return torch.where(zero, torch.zeros_like(x), x * torch.log(torch.where(zero, 1.0, y)))


@rewrites("special_entr.default")
def entr(self: Tensor) -> Tensor:
    # -x log(x), 0 at 0, and -inf below it, where only a logarithm of 0 gives it.
    x = torch.where(self > 0, self, torch.ones_like(self))
    return torch.log((self >= 0).to(self.dtype)) - x * torch.log(x)


@rewrites("hypot.default")
def hypot(self: Tensor, other: Tensor) -> Tensor:
    # Both are divided by the larger one, whose square might overflow. Where it is 0 so is the result,
    # and the gradient of torch has a quotient of zeros there.
    x, y = torch.abs(self), torch.abs(other)
    larger = torch.maximum(x, y).detach()
    scale = torch.where(larger > 0, larger, torch.ones_like(larger))
    a, b = self / scale, other / scale
    return scale * torch.sqrt(a * a + b * b)


@rewrites("lgamma.default", "special_gammaln.default")
def lgamma(self: Tensor) -> Tensor:
    # Stirling's series at x + 8, less the logarithms of x, x + 1, ..., x + 7.
    z, factors = self + 8, self
    for k in range(1, 8):
        factors = factors * (self + k)
    inverse = 1 / z
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square / 1260))
    return ((z - 0.5) * torch.log(z) - z + 0.5 * math.log(2 * math.pi) + series
            - torch.log(torch.abs(factors)))


@rewrites("digamma.default", "special_digamma.default", "special_psi.default")
def digamma(self: Tensor) -> Tensor:
    # The asymptotic series at x + 8, less 1 / x, 1 / (x + 1), ..., for x above 0.
    z, below = self + 8, torch.zeros_like(self)
    for k in range(8):
        below = below + 1 / (self + k)
    square = 1 / (z * z)
    return (torch.log(z) - 0.5 / z - square * (1 / 12 - square * (1 / 120 - square / 252))
            - below)


@rewrites("erfinv.default", "special_erfinv.default")
def erfinv(self: Tensor) -> Tensor:
    # The polynomials of Giles (2010), and one step of Newton's method.
    w = -torch.log((1 - self) * (1 + self))
    near, far = torch.clamp(w, max=5.0) - 2.5, torch.sqrt(torch.clamp(w, min=5.0)) - 3
    inner = torch.zeros_like(self)
    for c in (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
              -0.00125372503, -0.00417768164, 0.246640727, 1.50140941):
        inner = inner * near + c
    outer = torch.zeros_like(self)
    for c in (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
              -0.0076224613, 0.00943887047, 1.00167406, 2.83297682):
        outer = outer * far + c
    x = torch.where(w < 5, inner, outer) * self
    return x - (torch.erf(x) - self) * (math.sqrt(math.pi) / 2) * torch.exp(x * x)


@rewrites("special_log_ndtr.default")
def log_ndtr(self: Tensor) -> Tensor:
    # Below -5 a continued fraction of Mills' ratio, because the probability loses its digits there.
    inside = torch.log(0.5 * (1 + torch.erf(torch.clamp(self, min=-5.0) * math.sqrt(0.5))))
    t = torch.clamp(-self, min=5.0)
    ratio = t
    for k in range(12, 0, -1):
        ratio = t + k / ratio
    tail = -0.5 * t * t - 0.5 * math.log(2 * math.pi) - torch.log(ratio)
    return torch.where(self < -5, tail, inside)


@rewrites("erfc.default")
def erfc(self: Tensor) -> Tensor:
    return 1 - torch.erf(self)


@rewrites("sinc.default")
def sinc(self: Tensor) -> Tensor:
    angle = math.pi * _without_zeros(self)
    return torch.where(self == 0, torch.ones_like(self), torch.sin(angle) / angle)
