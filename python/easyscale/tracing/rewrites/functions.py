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
        half = torch.expm1(0.5 * x)  # exp(x) - 1 = half * (half + 2) may overflow where sinh does not
        return 0.5 * half * (half + 2) - 0.5 * torch.expm1(-x)
    return _signed(self, above)


@rewrites("cosh.default")
def cosh(self: Tensor) -> Tensor:
    half = sinh(0.5 * self)  # the slope of a sum of exponentials loses its digits near 0
    return 1 + 2 * half * half


@rewrites("asinh.default")
def asinh(self: Tensor) -> Tensor:
    # log1p keeps small numbers exact: x + (sqrt(x^2 + 1) - 1) = x + x^2 / (sqrt(x^2 + 1) + 1).
    return _signed(self, lambda x: torch.log1p(x + x * x / (torch.sqrt(x * x + 1) + 1)))


@rewrites("acosh.default")
def acosh(self: Tensor) -> Tensor:
    above = self - 1
    return torch.log1p(above + torch.sqrt(above) * torch.sqrt(above + 2))


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
    # Equal infinities have no difference.
    gap = torch.where(self == other, torch.zeros_like(self - other), self - other)
    return torch.maximum(self, other) + torch.log1p(torch.exp(-torch.abs(gap)))


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


def _mirrored(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where x is below 1/2, max(x, 1 - x), and pi times the distance of x to the nearest integer, which
    is exact: the gamma function of x is that of 1 - x but for the sine of this angle."""
    below = x < 0.5
    return below, torch.where(below, 1 - x, x), math.pi * (x - torch.round(x))


def _asymptotic(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where x is below 8, x there and 1 elsewhere, and a number from 8 on: x + 8 there and x elsewhere."""
    small = x < 8
    return small, torch.where(small, x, torch.ones_like(x)), torch.where(small, x + 8, x)


@rewrites("lgamma.default", "special_gammaln.default")
def lgamma(self: Tensor) -> Tensor:
    # Stirling's series at z, less the logarithms of x, x + 1, ..., x + 7 if z is x + 8.
    below, x, angle = _mirrored(self)
    small, near, z = _asymptotic(x)
    factors = near
    for k in range(1, 8):
        factors = factors * (near + k)
    inverse = 1 / z
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square / 1260))
    result = (z - 0.5) * torch.log(z) - z + 0.5 * math.log(2 * math.pi) + series - torch.where(
        small, torch.log(factors), torch.zeros_like(x))
    sine = torch.where(below, torch.abs(torch.sin(angle)), torch.ones_like(x))
    return torch.where(below, math.log(math.pi) - torch.log(sine) - result, result)


@rewrites("digamma.default", "special_digamma.default", "special_psi.default")
def digamma(self: Tensor) -> Tensor:
    # The asymptotic series at z, less 1 / x, 1 / (x + 1), ... if z is x + 8.
    below, x, angle = _mirrored(self)
    small, near, z = _asymptotic(x)
    less = torch.zeros_like(x)
    for k in range(8):
        less = less + 1 / (near + k)
    square = 1 / (z * z)
    result = (torch.log(z) - 0.5 / z - square * (1 / 12 - square * (1 / 120 - square / 252))
              - torch.where(small, less, torch.zeros_like(x)))
    angle = torch.where(below, angle, torch.ones_like(x))
    return torch.where(below, result - math.pi * torch.cos(angle) / torch.sin(angle), result)


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


def _tail(x: Tensor) -> Tensor:
    """log(erfc(x)) + x^2 for x >= 0: the logarithm of t = 1 / (1 + x / 2) and a polynomial of t, with an
    error of 1.2e-7 (Press et al., Numerical Recipes)."""
    t = 1 / (1 + 0.5 * x)
    series = torch.zeros_like(x)
    for c in (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418,
              0.37409196, 1.00002368, -1.26551223):
        series = series * t + c
    return torch.log(t) + series


def _size(x: Tensor) -> Tensor:
    """|x| with the slope 1 at 0."""
    return torch.where(x < 0, -x, x)


@rewrites("special_log_ndtr.default")
def log_ndtr(self: Tensor) -> Tensor:
    # Below 0 the logarithm of the small probability itself, else that of 1 less the rest.
    x = _size(self) * math.sqrt(0.5)
    tail = _tail(x) - x * x - math.log(2)
    return torch.where(self < 0, tail, torch.log1p(-torch.exp(tail)))


@rewrites("erfc.default")
def erfc(self: Tensor) -> Tensor:
    # 1 - erf(x) has no digits where erf(x) is almost 1, but more than the tail near 0.
    x = _size(self)
    above = torch.exp(_tail(x) - x * x)
    far = torch.where(self < 0, 2 - above, above)
    return torch.where(x < 0.5, 1 - torch.erf(self), far)


@rewrites("sinc.default")
def sinc(self: Tensor) -> Tensor:
    # Near 0 the series, because the slope of the quotient is a difference of large numbers there.
    angle = math.pi * self
    near = torch.abs(angle) < 0.5
    square = torch.where(near, angle * angle, torch.zeros_like(angle))
    series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    far = torch.where(near, torch.ones_like(angle), angle)
    return torch.where(near, series, torch.sin(far) / far)
