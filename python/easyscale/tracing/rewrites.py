"""Operators that have no lowering, written with operators that have one.

A function has the arguments of the operator's schema, and is traced. What is not here is taken from
torch's own decompositions (decompose.py). A comment says where the gradient, which follows from
what is written here, needs care.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .ties import TIES_ARE_SHARED

REWRITES: dict[str, Callable] = {}
FP32_MAX = torch.finfo(torch.float32).max
SORTED_MAX = 2048  # the elements of a row that is sorted: it takes a comparison for each pair


def rewrites(*names: str) -> Callable:
    """Registers a function for overloads such as "fmod.Scalar"."""
    def register(function: Callable) -> Callable:
        for name in names:
            REWRITES[f"aten.{name}"] = function
        return function
    return register


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


@rewrites("logcumsumexp.default")
def logcumsumexp(self: Tensor, dim: int) -> Tensor:
    largest = torch.amax(self, dim, keepdim=True).detach()
    return torch.log(torch.cumsum(torch.exp(self - largest), dim)) + largest


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


@rewrites("nansum.default")
def nansum(self: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    known = torch.where(self != self, torch.zeros_like(self), self)
    return known.sum(list(range(self.dim())) if dim is None else dim, keepdim, dtype=dtype)


@rewrites("nanmean.default")
def nanmean(self: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    count = (self == self).float().sum(list(range(self.dim())) if dim is None else dim, keepdim)
    return nansum(self, dim, keepdim, dtype) / count


@rewrites("count_nonzero.default")
def count_nonzero(self: Tensor, dim: int | None) -> Tensor:
    counted = (self != 0).long()
    return counted.sum() if dim is None else counted.sum(dim)


@rewrites("count_nonzero.dim_IntList")
def count_nonzero_over(self: Tensor, dim: list[int]) -> Tensor:
    return (self != 0).long().sum(dim)


@rewrites("hardshrink.default")
def hardshrink(self: Tensor, lambd: float) -> Tensor:
    return torch.where(torch.abs(self) > lambd, self, torch.zeros_like(self))


@rewrites("softshrink.default")
def softshrink(self: Tensor, lambd: float) -> Tensor:
    shrunk = torch.where(self > 0, self - lambd, self + lambd)
    return torch.where(torch.abs(self) > lambd, shrunk, torch.zeros_like(self))


@rewrites("logit.default")
def logit(self: Tensor, eps: float | None) -> Tensor:
    x = self if eps is None else torch.clamp(self, eps, 1 - eps)
    return torch.log(x / (1 - x))


@rewrites("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self")
def xlogy(self: Any, other: Any) -> Tensor:
    x, y = _pair(self, other)
    zero = (x == 0) & (y <= 0)
    return torch.where(zero, torch.zeros_like(x), x * torch.log(torch.where(zero, 1.0, y)))


@rewrites("hypot.default")
def hypot(self: Tensor, other: Tensor) -> Tensor:
    return torch.sqrt(self * self + other * other)


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


@rewrites("fmax.default")
def fmax(self: Tensor, other: Tensor) -> Tensor:
    # A NaN ends the job.
    return torch.maximum(self, other) if TIES_ARE_SHARED else torch.where(self >= other, self, other)


@rewrites("fmin.default")
def fmin(self: Tensor, other: Tensor) -> Tensor:
    return torch.minimum(self, other) if TIES_ARE_SHARED else torch.where(self <= other, self, other)


def _running(self: Tensor, dim: int, is_better: Callable) -> tuple[Tensor, Tensor]:
    """The best element so far, the last of equal ones, and its place."""
    parts = list(torch.unbind(self, dim))
    if len(parts) > SORTED_MAX:
        raise NotImplementedError
    places = [torch.zeros_like(parts[0], dtype=torch.int64)]
    for i in range(1, len(parts)):
        better = is_better(parts[i], parts[i - 1])
        places.append(torch.where(better, i, places[i - 1]))
        parts[i] = torch.where(better, parts[i], parts[i - 1])
    return torch.stack(parts, dim), torch.stack(places, dim)


@rewrites("cummax.default")
def cummax(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(self, dim, torch.ge)


@rewrites("cummin.default")
def cummin(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(self, dim, torch.le)


@rewrites("round.decimals")
def round_decimals(self: Tensor, decimals: int) -> Tensor:
    return torch.round(self * 10.0 ** decimals) / 10.0 ** decimals


@rewrites("erfc.default")
def erfc(self: Tensor) -> Tensor:
    return 1 - torch.erf(self)


@rewrites("sinc.default")
def sinc(self: Tensor) -> Tensor:
    angle = math.pi * _without_zeros(self)
    return torch.where(self == 0, torch.ones_like(self), torch.sin(angle) / angle)


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


@rewrites("cdist.default", "_cdist_forward.default")
def cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    return torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


@rewrites("diag_embed.default")
def diag_embed(self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    size = self.shape[-1] + abs(offset)
    rows = torch.arange(size)[:, None]
    on_diagonal = torch.arange(size)[None, :] - rows == offset
    # Above the main diagonal the elements have the numbers of their rows, below it of their columns.
    padded = torch.nn.functional.pad(self, (0, abs(offset)))
    along = padded.unsqueeze(-1 if offset >= 0 else -2)
    wide = torch.where(on_diagonal, along, torch.zeros((), dtype=self.dtype))
    return torch.movedim(wide, (-2, -1), (dim1, dim2))


@rewrites("fill_diagonal_.default")
def fill_diagonal(self: Tensor, fill_value: float, wrap: bool) -> Tensor:
    if self.dim() != 2 or wrap:
        raise NotImplementedError
    rows, columns = torch.arange(self.shape[0]), torch.arange(self.shape[1])
    return torch.where(rows[:, None] == columns, torch.full_like(self, fill_value), self)


@rewrites("cumprod.default")
def cumprod(self: Tensor, dim: int, dtype: Any) -> Tensor:
    parts = list(torch.unbind(self, dim))
    if len(parts) > SORTED_MAX:
        raise NotImplementedError
    for i in range(1, len(parts)):
        parts[i] = parts[i - 1] * parts[i]
    return torch.stack(parts, dim)


def _along(index: Tensor, like: Tensor, dim: int) -> Tensor:
    """Indices [n] of an axis, repeated over the other axes of a tensor with n there."""
    shape = [1] * like.dim()
    shape[dim] = -1
    return index.reshape(shape).expand(like.shape)


def _chosen(self: Tensor, dim: int, index: Tensor) -> tuple[Tensor, Tensor]:
    """[extent, n]: where index n names a place of the axis; and whether one does, as a mask."""
    named = torch.arange(self.shape[dim])[:, None] == index.reshape(-1)
    shape = [1] * self.dim()
    shape[dim] = -1
    return named, named.any(1).reshape(shape)


@rewrites("index_add.default")
def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float) -> Tensor:
    return torch.scatter_add(self, dim, _along(index, source, dim), source * alpha)


@rewrites("scatter.value", "scatter.src")
def scatter(self: Tensor, dim: int, index: Tensor, written: Any) -> Tensor:
    """Where an index is named twice, the last element is written, as torch does on CPUs."""
    dim, count = dim % self.dim(), index.shape[dim]
    if any(index.shape[i] != self.shape[i] for i in range(self.dim()) if i != dim):
        raise NotImplementedError  # writes a part of the other axes
    positions = _along(torch.arange(self.shape[dim]), self, dim)
    if not torch.is_tensor(written):
        written = torch.full_like(index, written, dtype=self.dtype)
    for i, size in enumerate(index.shape):
        written = torch.narrow(written, i, 0, size)
    if count == 1:
        return torch.where(positions == index, written, self)
    if count * self.shape[dim] > SORTED_MAX ** 2:
        raise NotImplementedError
    named = index.unsqueeze(dim) == positions.unsqueeze(dim + 1)
    numbers = torch.arange(1, count + 1).reshape([-1] + [1] * (self.dim() - 1 - dim))
    last = (named.long() * numbers).amax(dim + 1)
    return torch.where(last > 0, torch.gather(written, dim, torch.clamp(last - 1, min=0)), self)


def _windows(size: int, kernel: int, stride: int, padding: int, dilation: int,
             ceil_mode: bool) -> Tensor:
    """[windows, kernel]: the places that every window sees along an axis of this size."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (free + stride - 1 if ceil_mode else free) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return (torch.arange(count)[:, None] * stride - padding + torch.arange(kernel) * dilation)


@rewrites("max_pool2d_with_indices.default")
def max_pool2d_with_indices(self: Tensor, kernel_size: list[int], stride: list[int],
                            padding: list[int], dilation: list[int],
                            ceil_mode: bool) -> tuple[Tensor, Tensor]:
    height, width = self.shape[-2:]
    kernel = _each(kernel_size, 2)
    steps, pads, spread = (_each(x, 2) for x in (stride or kernel, padding, dilation))
    rows, columns = (_windows(size, kernel[i], steps[i], pads[i], spread[i], ceil_mode)
                     for i, size in enumerate((height, width)))
    rows, columns = rows[:, None, :, None], columns[None, :, None, :]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    place = (torch.clamp(rows, 0, height - 1) * width
             + torch.clamp(columns, 0, width - 1)).flatten(2)  # [rows, columns, pixels of a window]
    taken = self.flatten(-2)[..., place]
    taken = torch.where(inside.flatten(2), taken, torch.full_like(taken, -FP32_MAX))
    first = torch.argmax(taken, -1, keepdim=True)
    chosen = torch.arange(place.shape[-1]) == first
    return torch.gather(taken, -1, first).squeeze(-1), (chosen.long() * place).sum(-1)


@rewrites("max_unpool2d.default")
def max_unpool2d(self: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    # Windows that do not overlap name each place once at most.
    empty = torch.zeros([*self.shape[:-2], output_size[0] * output_size[1]])
    whole = torch.scatter_add(empty, -1, indices.flatten(-2), self.flatten(-2))
    return whole.unflatten(-1, tuple(output_size))


# Gradients that a forward pass asks for (gradients.py).


def _input_gradient(gradient: Tensor, size: list[int], weight: Tensor, stride: list[int],
                    padding: list[int], dilation: list[int], groups: int) -> Tensor:
    """The gradient of a convolution with regard to its input, whose spatial extents are `size`."""
    rank = len(size)
    stride, padding, dilation = (_each(x, rank) for x in (stride, padding, dilation))
    missing = [n - ((out - 1) * s - 2 * p + d * (k - 1) + 1) for n, out, s, p, d, k in zip(
        size, gradient.shape[2:], stride, padding, dilation, weight.shape[2:])]
    transposed = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[rank - 1]
    return transposed(gradient, weight, None, stride, padding, missing, groups, dilation)


def _each(values: list[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


@rewrites("convolution_backward.default")
def convolution_backward(grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Any,
                         stride: list[int], padding: list[int], dilation: list[int],
                         transposed: bool, output_padding: list[int], groups: int,
                         output_mask: list[bool]) -> tuple[Tensor | None, None, None]:
    if transposed or output_mask[1] or output_mask[2]:
        raise NotImplementedError
    return _input_gradient(grad_output, list(input.shape[2:]), weight, stride, padding, dilation,
                           groups), None, None


@rewrites("avg_pool2d_backward.default")
def avg_pool2d_backward(grad_output: Tensor, self: Tensor, kernel_size: list[int],
                        stride: list[int], padding: list[int], ceil_mode: bool,
                        count_include_pad: bool, divisor_override: int | None) -> Tensor:
    if ceil_mode or divisor_override or (any(padding) and not count_include_pad):
        raise NotImplementedError
    kernel, channels = _each(kernel_size, 2), self.shape[1]
    weight = torch.full((channels, 1, *kernel), 1 / math.prod(kernel))
    return _input_gradient(grad_output, list(self.shape[2:]), weight, list(stride) or kernel, padding,
                           [1, 1], channels)


@rewrites("max_pool2d_with_indices_backward.default")
def max_pool2d_backward(grad_output: Tensor, self: Tensor, kernel_size: list[int],
                        stride: list[int], padding: list[int], dilation: list[int],
                        ceil_mode: bool, indices: Tensor) -> Tensor:
    summed = torch.scatter_add(torch.zeros_like(self.flatten(-2)), -1, indices.flatten(-2),
                               grad_output.flatten(-2))
    return summed.view(self.shape)


@rewrites("multilabel_margin_loss.default")
def multilabel_margin_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    ended = torch.cumsum((target < 0).long(), -1) > 0
    index = torch.clamp(target, min=0)
    classes = torch.arange(self.shape[-1])
    wanted = ((index.unsqueeze(-1) == classes) & ~ended.unsqueeze(-1)).any(-2)
    gaps = torch.relu(1 - torch.gather(self, -1, index).unsqueeze(-1) + self.unsqueeze(-2))
    counted = (~ended.unsqueeze(-1) & ~wanted.unsqueeze(-2)).to(self.dtype)
    loss = (gaps * counted).sum((-2, -1)) / self.shape[-1]
    return (loss, loss.mean(), loss.sum())[reduction]


@rewrites("index_copy.default")
def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    named, mask = _chosen(self, dim, index)
    place = (named.long() * torch.arange(named.shape[1])).amax(1)  # a later index wins
    return torch.where(mask, torch.index_select(source, dim, place), self)


@rewrites("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    _, mask = _chosen(self, dim, index)
    return torch.where(mask, torch.as_tensor(value, dtype=self.dtype), self)


def _unnormalized(grid: Tensor, size: int, align_corners: bool) -> Tensor:
    """Places from -1 to 1 as places of pixels."""
    if align_corners:
        return (grid + 1) * ((size - 1) / 2)
    return ((grid + 1) * size - 1) / 2


def _reflected(x: Tensor, size: int, align_corners: bool) -> Tensor:
    """Places beyond the first and the last pixel, or beyond their outer edges, are mirrored there."""
    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if span == 0:
        return torch.zeros_like(x)
    away = torch.abs(x - low)
    turns = torch.floor(away / span).detach()
    rest = away - turns * span
    is_odd = remainder(turns, 2.0) > 0
    return torch.where(is_odd, span - rest, rest) + low


@rewrites("grid_sampler.default", "grid_sampler_2d.default")
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
                 align_corners: bool) -> Tensor:
    if input.dim() != 4 or interpolation_mode > 1:
        raise NotImplementedError  # volumes, bicubic interpolation
    height, width = input.shape[2:]
    x = _unnormalized(grid[..., 0], width, align_corners)
    y = _unnormalized(grid[..., 1], height, align_corners)
    if padding_mode == 2:
        x, y = _reflected(x, width, align_corners), _reflected(y, height, align_corners)
    if padding_mode >= 1:
        x, y = torch.clamp(x, 0, width - 1), torch.clamp(y, 0, height - 1)
    flat = input.flatten(2)

    def pixels(column: Tensor, row: Tensor) -> Tensor:
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        place = (torch.clamp(row, 0, height - 1) * width + torch.clamp(column, 0, width - 1)).long()
        index = place.flatten(1).unsqueeze(1).expand(-1, flat.shape[1], -1)
        found = torch.gather(flat, 2, index).unflatten(2, tuple(grid.shape[1:3]))
        return found * inside.float().unsqueeze(1)
    if interpolation_mode == 1:
        return pixels(torch.round(x).detach(), torch.round(y).detach())
    left, top = torch.floor(x).detach(), torch.floor(y).detach()
    right, below = (x - left).unsqueeze(1), (y - top).unsqueeze(1)
    return ((pixels(left, top) * (1 - right) + pixels(left + 1, top) * right) * (1 - below)
            + (pixels(left, top + 1) * (1 - right) + pixels(left + 1, top + 1) * right) * below)


@rewrites("bucketize.Tensor")
def bucketize(self: Tensor, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    x = self.unsqueeze(-1)
    counted = (boundaries <= x if right else boundaries < x).long().sum(-1)
    return counted.int() if out_int32 else counted


@rewrites("searchsorted.Tensor")
def searchsorted(sorted_sequence: Tensor, self: Tensor, out_int32: bool, right: bool,
                 side: str | None, sorter: Tensor | None) -> Tensor:
    if sorter is not None:
        raise NotImplementedError
    boundaries = sorted_sequence if sorted_sequence.dim() == 1 else sorted_sequence.unsqueeze(-2)
    return bucketize(self, boundaries, out_int32, right or side == "right")


@rewrites("scatter_reduce.two")
def scatter_reduce(self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str,
                   include_self: bool) -> Tensor:
    if reduce not in ("sum", "mean", "amax", "amin") or self.dim() == 0:
        raise NotImplementedError
    if reduce == "sum" and include_self:
        return torch.scatter_add(self, dim, index, src)
    if not src.is_floating_point():
        raise NotImplementedError
    src = src[tuple(slice(0, size) for size in index.shape)]  # it may have more than is read
    if reduce in ("amax", "amin"):
        return _scattered_extreme(self, dim, index, src, reduce == "amin", include_self)
    count = torch.scatter_add(torch.zeros_like(self), dim, index, torch.ones_like(src))
    base = self if include_self else torch.where(count > 0, torch.zeros_like(self), self)
    total = torch.scatter_add(base, dim, index, src)
    if reduce == "sum":
        return total
    return total / (count + 1 if include_self else torch.clamp(count, min=1))


def _scattered_extreme(self: Tensor, dim: int, index: Tensor, src: Tensor, is_least: bool,
                       include_self: bool) -> Tensor:
    # Every element meets every place: [..., places, elements].
    at, elements = torch.movedim(index, dim, -1).unsqueeze(-2), torch.movedim(src, dim, -1)
    old = torch.movedim(self, dim, -1)
    if index.shape[dim] * self.shape[dim] > SORTED_MAX ** 2 or at.shape[:-2] != old.shape[:-1]:
        raise NotImplementedError
    named = at == torch.arange(self.shape[dim])[:, None]
    sign = -1.0 if is_least else 1.0
    nothing = torch.full((), -FP32_MAX)
    candidates = torch.where(named, (sign * elements).unsqueeze(-2), nothing)
    if include_self:  # of equal elements, which share the gradient, it may be one more
        found = torch.amax(torch.cat([candidates, (sign * old).unsqueeze(-1)], -1), -1)
        return torch.movedim(sign * found, -1, dim)
    best = torch.where(named.any(-1), sign * torch.amax(candidates, -1), old)
    return torch.movedim(best, -1, dim)


@rewrites("__lshift__.Scalar", "bitwise_left_shift.Tensor_Scalar")
def left_shift(self: Tensor, other: int) -> Tensor:
    return self * 2 ** other


@rewrites("__rshift__.Scalar", "bitwise_right_shift.Tensor_Scalar")
def right_shift(self: Tensor, other: int) -> Tensor:
    return floor_divide(self, 2 ** other)


@rewrites("aminmax.default")
def aminmax(self: Tensor, dim: int | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    axes = list(range(self.dim())) if dim is None else [dim]
    return torch.amin(self, axes, keepdim), torch.amax(self, axes, keepdim)


def _order(x: Tensor, dim: int, descending: bool) -> Tensor:
    """The indices that sort a tensor; equal elements keep their order.

    The place of an element is the number of elements that come before it. Each pair of a row is
    compared, and no element moves, so the order is the same on every device.
    """
    size = x.shape[dim]
    if size > SORTED_MAX:
        raise NotImplementedError
    x = torch.movedim(x.detach(), dim, -1)
    own, other = x.unsqueeze(-1), x.unsqueeze(-2)
    index = torch.arange(size)
    earlier = index[None, :] < index[:, None]
    before = (other > own if descending else other < own) | ((other == own) & earlier)
    place = before.long().sum(-1)
    order = ((place.unsqueeze(-1) == index).long() * index[:, None]).sum(-2)
    return torch.movedim(order, -1, dim)


@rewrites("sort.default")
def sort(self: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    order = _order(self, dim, descending)
    return torch.gather(self, dim, order), order


@rewrites("sort.stable")
def sort_stable(self: Tensor, stable: bool | None, dim: int,
                descending: bool) -> tuple[Tensor, Tensor]:
    return sort(self, dim, descending)


@rewrites("argsort.default")
def argsort(self: Tensor, dim: int, descending: bool) -> Tensor:
    return _order(self, dim, descending)


@rewrites("argsort.stable")
def argsort_stable(self: Tensor, stable: bool, dim: int, descending: bool) -> Tensor:
    return _order(self, dim, descending)


@rewrites("topk.default")
def topk(self: Tensor, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Tensor, Tensor]:
    order = torch.narrow(_order(self, dim, largest), dim, 0, k)
    return torch.gather(self, dim, order), order


def _single(self: Tensor, dim: int, place: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    order = torch.narrow(_order(self, dim, False), dim, place, 1)
    value = torch.gather(self, dim, order)
    return (value, order) if keepdim else (value.squeeze(dim), order.squeeze(dim))


@rewrites("kthvalue.default")
def kthvalue(self: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return _single(self, dim, k - 1, keepdim)


@rewrites("median.dim")
def median(self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return _single(self, dim, (self.shape[dim] - 1) // 2, keepdim)


@rewrites("median.default")
def median_of_all(self: Tensor) -> Tensor:
    return median(self.reshape(-1), 0, False)[0]
