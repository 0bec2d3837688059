"""Operators on complex numbers, as operators on their real and imaginary parts.

The engine has real numbers only. A complex value of the graph becomes two real ones, and a Fourier
transform a product with the cosines and sines of its angles.
"""
from __future__ import annotations

import cmath
import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .rewrites import atan2

RULES: dict[str, Callable] = {}
MULTIPLIED_MAX = 8  # exponents up to it are products
TRANSFORMED_MAX = 4096  # the length of a Fourier transform: its matrix has the square of it
# Operators that move or add elements: they do the same to both parts.
LINEAR = {"view", "_unsafe_view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze",
          "transpose", "permute", "movedim", "slice", "select", "narrow", "expand", "expand_as",
          "clone", "contiguous", "alias", "detach", "cat", "stack", "sum", "mean", "neg", "roll",
          "flip", "repeat", "index", "index_select", "split", "chunk", "unbind",
          "tril", "triu", "cumsum", "constant_pad_nd", "diagonal", "diag_embed", "gather", "unfold",
          "select_scatter", "slice_scatter"}


@dataclass(frozen=True)
class Complex:
    """A complex tensor."""

    real: Tensor
    imag: Tensor


Number = Complex | Tensor | float


def parts(x: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of a tensor or a number."""
    if isinstance(x, Complex):
        return x.real, x.imag
    return (x.real, x.imag) if isinstance(x, complex) else (x, 0.0)


def rule_for(target: str) -> Callable | None:
    """The function for an operator that has a complex argument or result."""
    name = target.split(".")[1]
    if name in LINEAR:
        return lambda op, *args, **kwargs: _on_both(op, args, kwargs)
    found = RULES.get(name) or RULES.get(name.removesuffix("_"))
    return None if found is None else lambda op, *args, **kwargs: found(*args, **kwargs)


def _rule(*names: str) -> Callable:
    def register(function: Callable) -> Callable:
        RULES.update(dict.fromkeys(names, function))
        return function
    return register


def _on_both(op: Callable, args: tuple, kwargs: dict) -> Any:
    kwargs = {key: None if isinstance(x, torch.dtype) else x for key, x in kwargs.items()}
    real = op(*_select(args, 0), **_select(kwargs, 0))
    imag = op(*_select(args, 1), **_select(kwargs, 1))
    if isinstance(real, (list, tuple)):
        return [Complex(x, y) for x, y in zip(real, imag)]
    return Complex(real, imag)


def _select(tree: Any, index: int) -> Any:
    if isinstance(tree, Complex):
        return (tree.real, tree.imag)[index]
    if isinstance(tree, (list, tuple)):
        return type(tree)(_select(x, index) for x in tree)
    if isinstance(tree, dict):
        return {key: _select(x, index) for key, x in tree.items()}
    return None if isinstance(tree, torch.dtype) else tree


@_rule("view_as_complex")
def _view_as_complex(pairs: Tensor) -> Complex:
    return Complex(pairs[..., 0], pairs[..., 1])


@_rule("view_as_real")
def _view_as_real(x: Complex) -> Tensor:
    return torch.stack([x.real, x.imag], -1)


@_rule("complex")
def _complex(real: Tensor, imag: Tensor) -> Complex:
    return Complex(real, imag)


@_rule("polar")
def _polar(size: Tensor, angle: Tensor) -> Complex:
    return Complex(size * torch.cos(angle), size * torch.sin(angle))


@_rule("to", "_to_copy")
def _converted(x: Number, *args: Any, **kwargs: Any) -> Number:
    """The same number as a complex one, or its real part as a real one."""
    if isinstance(x, Tensor):
        return Complex(x.float(), torch.zeros_like(x, dtype=torch.float32))
    types = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, torch.dtype)]
    return x if all(found.is_complex for found in types) else parts(x)[0]


@_rule("real")
def _real(x: Complex) -> Tensor:
    return parts(x)[0]


@_rule("imag")
def _imag(x: Complex) -> Tensor:
    return x.imag


@_rule("copy_", "copy", "fill_")
def _copied(x: Complex, source: Number, *_: Any) -> Complex:
    return Complex(*(torch.as_tensor(part).expand(x.real.shape) for part in parts(source)))


@_rule("zeros", "empty")
def _zeros(size: list[int], **_: Any) -> Complex:
    return Complex(torch.zeros(size), torch.zeros(size))


@_rule("new_zeros", "new_empty")
def _new_zeros(x: Number, size: list[int], **_: Any) -> Complex:
    return _zeros(size)


@_rule("zeros_like", "empty_like", "zero_")
def _zeros_like(x: Number, **_: Any) -> Complex:
    return _zeros(_shape(x))


@_rule("ones", "ones_like")
def _ones(x: Any, **_: Any) -> Complex:
    size = x if isinstance(x, (list, tuple)) else _shape(x)
    return Complex(torch.ones(size), torch.zeros(size))


@_rule("abs")
def _abs(x: Complex) -> Tensor:
    return torch.linalg.vector_norm(_view_as_real(x), 2, -1)  # its gradient at 0 is 0


@_rule("angle")
def _angle(x: Complex) -> Tensor:
    return atan2(x.imag, x.real)


@_rule("conj", "_conj", "conj_physical", "_conj_physical")
def _conj(x: Complex) -> Complex:
    return Complex(x.real, -x.imag)


@_rule("resolve_conj", "resolve_neg")
def _resolved(x: Complex) -> Complex:
    return x


@_rule("add")
def _add(x: Number, y: Number, alpha: float = 1) -> Complex:
    (a, b), (c, d) = parts(x), parts(y)
    return Complex(a + c * alpha, b + d * alpha if isinstance(y, (Complex, complex)) else b + 0 * a)


@_rule("sub")
def _sub(x: Number, y: Number, alpha: float = 1) -> Complex:
    return _add(x, y, -alpha)


def _product(multiply: Callable, x: Number, y: Number) -> Complex:
    """A product that is linear in both arguments."""
    if not isinstance(y, (Complex, complex)):
        return Complex(multiply(x.real, y), multiply(x.imag, y))
    (c, d) = parts(y)
    if not isinstance(x, (Complex, complex)):
        return Complex(multiply(x, c), multiply(x, d))
    (a, b) = parts(x)
    return Complex(multiply(a, c) - multiply(b, d), multiply(a, d) + multiply(b, c))


@_rule("mul")
def _mul(x: Number, y: Number) -> Complex:
    return _product(lambda a, b: a * b, x, y)


@_rule("exp")
def _exp(x: Complex) -> Complex:
    return _polar(torch.exp(x.real), x.imag)


@_rule("log")
def _log(x: Complex) -> Complex:
    return Complex(torch.log(_abs(x)), _angle(x))


@_rule("sqrt")
def _sqrt(x: Complex) -> Complex:
    return _polar(torch.sqrt(_abs(x)), _angle(x) / 2)


@_rule("pow")
def _pow(x: Number, y: Number) -> Complex:
    if isinstance(y, int) and 1 <= y <= MULTIPLIED_MAX:
        return functools.reduce(_mul, [x] * y)
    if isinstance(x, Complex):
        logarithm: Number = _log(x)
    else:
        logarithm = torch.log(x) if isinstance(x, Tensor) else cmath.log(x)
    return _exp(_mul(logarithm, y))


@_rule("sin")
def _sin(x: Complex) -> Complex:
    return Complex(torch.sin(x.real) * torch.cosh(x.imag), torch.cos(x.real) * torch.sinh(x.imag))


@_rule("cos")
def _cos(x: Complex) -> Complex:
    return Complex(torch.cos(x.real) * torch.cosh(x.imag), -torch.sin(x.real) * torch.sinh(x.imag))


@_rule("sinh")
def _sinh(x: Complex) -> Complex:
    return Complex(torch.sinh(x.real) * torch.cos(x.imag), torch.cosh(x.real) * torch.sin(x.imag))


@_rule("cosh")
def _cosh(x: Complex) -> Complex:
    return Complex(torch.cosh(x.real) * torch.cos(x.imag), torch.sinh(x.real) * torch.sin(x.imag))


@_rule("tanh")
def _tanh(x: Complex) -> Complex:
    return _div(_sinh(x), _cosh(x))


@_rule("sigmoid")
def _sigmoid(x: Complex) -> Complex:
    return _div(1.0, _add(_exp(_mul(x, -1.0)), 1.0))


@_rule("sgn")
def _sgn(x: Complex) -> Complex:
    return _div(x, _abs(x))


@_rule("where")
def _where(condition: Tensor, x: Number, y: Number) -> Complex:
    def chosen(a: Any, b: Any) -> Tensor:
        return torch.where(condition, *(torch.as_tensor(part, dtype=torch.float32) for part in (a, b)))
    return Complex(*map(chosen, parts(x), parts(y)))


def _along(x: Complex, axis: int) -> list[Complex]:
    return [Complex(a, b) for a, b in zip(x.real.unbind(axis), x.imag.unbind(axis))]


@_rule("prod")
def _prod(x: Complex, dim: int | None = None, keepdim: bool = False, **_: Any) -> Complex:
    if dim is None:
        x, dim = Complex(x.real.flatten(), x.imag.flatten()), 0
    found = functools.reduce(_mul, _along(x, dim))
    return Complex(found.real.unsqueeze(dim), found.imag.unsqueeze(dim)) if keepdim else found


@_rule("cumprod")
def _cumprod(x: Complex, dim: int, **_: Any) -> Complex:
    found = list(itertools.accumulate(_along(x, dim), _mul))
    return Complex(torch.stack([z.real for z in found], dim), torch.stack([z.imag for z in found], dim))


@_rule("linalg_vector_norm")
def _vector_norm(x: Complex, ord: float = 2, dim: Any = None, keepdim: bool = False,
                 **_: Any) -> Tensor:
    return torch.linalg.vector_norm(_abs(x), ord, dim, keepdim)


@_rule("square")
def _square(x: Complex) -> Complex:
    return _mul(x, x)


@_rule("reciprocal")
def _reciprocal(x: Complex) -> Complex:
    return _div(1.0, x)


@_rule("div")
def _div(x: Number, y: Number) -> Complex:
    if not isinstance(y, (Complex, complex)):
        return Complex(x.real / y, x.imag / y)
    (c, d) = parts(y)
    size = c * c + d * d
    return _mul(x, Complex(c / size, -d / size))


@_rule("rsub")
def _rsub(x: Number, y: Number, alpha: float = 1) -> Complex:
    return _add(y, _mul(x, -alpha))


@_rule("matmul", "mm", "bmm", "mv", "dot")
def _matmul(x: Number, y: Number) -> Complex:
    return _product(torch.matmul, x, y)


@_rule("vdot")
def _vdot(x: Complex, y: Complex) -> Complex:
    return _matmul(_conj(x), y)


@_rule("convolution")
def _convolution(x: Number, weight: Number, bias: Number | None, *options: Any) -> Complex:
    found = _product(lambda a, b: torch.convolution(a, b, None, *options), x, weight)
    if bias is None:
        return found
    shape = [-1] + [1] * (found.real.dim() - 2)
    return _add(found, Complex(*(part.reshape(shape) for part in parts(bias))))


@_rule("einsum")
def _einsum(equation: str, tensors: list[Number], path: Any = None) -> Complex:
    if len(tensors) != 2:
        raise NotImplementedError
    return _product(lambda a, b: torch.einsum(equation, a, b), *tensors)


def _factor(norm: str | None, inverse: bool, length: int) -> float:
    """What a transform multiplies with, as torch.fft defines its norms."""
    if norm == "ortho":
        return 1 / math.sqrt(length)
    divided = norm == "forward" if not inverse else norm in (None, "backward")
    return 1 / length if divided else 1.0


def _resized(x: Tensor, axis: int, length: int) -> Tensor:
    """An axis cut, or filled up with zeros, to a length."""
    missing = length - x.shape[axis]
    if missing <= 0:
        return torch.narrow(x, axis, 0, length)
    shape = list(x.shape)
    shape[axis] = missing
    return torch.cat([x, torch.zeros(shape)], axis)


def _multiplied(x: Tensor, matrix: Tensor, axis: int) -> Tensor:
    """An axis exchanged by its product with a matrix."""
    last = torch.movedim(x, axis, -1)
    # A vector becomes a row: its product with a matrix would be decomposed into writes.
    rows = torch.matmul(last.unsqueeze(0), matrix).squeeze(0)
    return torch.movedim(rows, -1, axis)


def _transformed(x: Number, axis: int, length: int, outputs: int, norm: str | None,
                 inverse: bool) -> Complex:
    """The first `outputs` elements of the Fourier transform of an axis."""
    if length > TRANSFORMED_MAX:
        raise NotImplementedError
    # The product of the indices is taken modulo the length, where it is exact.
    turns = torch.arange(length)[:, None] * torch.arange(outputs) % length
    angle = turns.double() * (2 * math.pi / length)
    factor = _factor(norm, inverse, length)
    cosine = (torch.cos(angle) * factor).float()
    sine = (torch.sin(angle) * (factor if inverse else -factor)).float()

    def multiply(part: Tensor, matrix: Tensor) -> Tensor:
        return _multiplied(_resized(part, axis, length), matrix, axis)
    return _product(multiply, x, Complex(cosine, sine))


def _shape(x: Number) -> list[int]:
    return list(parts(x)[0].shape)


def _axes_of(x: Number, sizes: Any, axes: Any) -> tuple[list[int], list[int]]:
    shape = _shape(x)
    if axes is None:
        count = len(shape) if sizes is None else len(sizes)
        axes = list(range(len(shape) - count, len(shape)))
    axes = [axis % len(shape) for axis in axes]
    return axes, [shape[a] if s in (None, -1) else s
                  for a, s in zip(axes, sizes or [None] * len(axes))]


def _all_transformed(x: Number, sizes: Any, axes: Any, norm: str | None, inverse: bool) -> Complex:
    axes, sizes = _axes_of(x, sizes, axes)
    for axis, length in zip(axes, sizes):
        x = _transformed(x, axis, length, length, norm, inverse)
    return x


def _half(x: Tensor, sizes: Any, axes: Any, norm: str | None) -> Complex:
    """The transform of real numbers: its last axis has the first half only."""
    axes, sizes = _axes_of(x, sizes, axes)
    half = _transformed(x, axes[-1], sizes[-1], sizes[-1] // 2 + 1, norm, False)
    return _all_transformed(half, sizes[:-1], axes[:-1], norm, False) if axes[:-1] else half


def _whole(x: Complex, sizes: Any, axes: Any, norm: str | None) -> Tensor:
    """The inverse of _half."""
    axes, lengths = _axes_of(x, sizes, axes)
    if sizes is None or sizes[-1] in (None, -1):
        lengths[-1] = 2 * (_shape(x)[axes[-1]] - 1)
    if axes[:-1]:
        x = _all_transformed(x, lengths[:-1], axes[:-1], norm, True)
    axis, length = axes[-1], lengths[-1]
    count = length // 2 + 1
    x = Complex(_resized(x.real, axis, count), _resized(x.imag, axis, count))
    # Element k of the missing half is the conjugate of element length - k; the imaginary parts of the
    # first element and of the middle one are ignored, as torch does.
    once = (0, length // 2) if length % 2 == 0 else (0,)
    twice = torch.tensor([1.0 if k in once else 2.0 for k in range(count)])
    turns = torch.arange(count)[:, None] * torch.arange(length) % length
    angle = turns.double() * (2 * math.pi / length)
    weight = twice.double()[:, None] * _factor(norm, True, length)
    cosine, sine = (torch.cos(angle) * weight).float(), (torch.sin(angle) * weight).float()
    return _multiplied(x.real, cosine, axis) - _multiplied(x.imag, sine, axis)


@_rule("fft_fft")
def _fft(x: Number, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    return _all_transformed(x, [n], [dim], norm, False)


@_rule("fft_ifft")
def _ifft(x: Number, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    return _all_transformed(x, [n], [dim], norm, True)


@_rule("fft_fft2", "fft_fftn")
def _fftn(x: Number, s: Any = None, dim: Any = None, norm: str | None = None) -> Complex:
    return _all_transformed(x, s, dim, norm, False)


@_rule("fft_ifft2", "fft_ifftn")
def _ifftn(x: Number, s: Any = None, dim: Any = None, norm: str | None = None) -> Complex:
    return _all_transformed(x, s, dim, norm, True)


@_rule("fft_rfft")
def _rfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    return _half(x, [n], [dim], norm)


@_rule("fft_irfft")
def _irfft(x: Complex, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    return _whole(x, [n], [dim], norm)


@_rule("fft_rfft2", "fft_rfftn")
def _rfftn(x: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Complex:
    return _half(x, s, dim, norm)


@_rule("fft_irfft2", "fft_irfftn")
def _irfftn(x: Complex, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    return _whole(x, s, dim, norm)


@_rule("stft")
def _stft(x: Number, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
          window: Tensor | None = None, normalized: bool = False, onesided: bool | None = None,
          return_complex: bool | None = None, align_to_window: bool | None = None) -> Number:
    if align_to_window:
        raise NotImplementedError
    frames = _framed(x, n_fft, hop_length or n_fft // 4, _window(window, win_length, n_fft))
    halves = not isinstance(x, Complex) if onesided is None else onesided
    spectrum = _transformed(frames, len(_shape(frames)) - 1, n_fft,
                            n_fft // 2 + 1 if halves else n_fft,
                            "ortho" if normalized else None, False)
    turned = Complex(spectrum.real.transpose(-1, -2), spectrum.imag.transpose(-1, -2))
    return turned if return_complex else _view_as_real(turned)


def _window(window: Tensor | None, length: int | None, n_fft: int) -> Tensor:
    """A window of `length` in the middle of zeros."""
    length = length or n_fft
    inner = torch.ones(length) if window is None else window
    before = (n_fft - length) // 2
    return torch.nn.functional.pad(inner, (before, n_fft - length - before))


def _framed(x: Number, n_fft: int, hop: int, window: Tensor) -> Number:
    if isinstance(x, Complex):
        return Complex(*(part.unfold(-1, n_fft, hop) * window for part in (x.real, x.imag)))
    return x.unfold(-1, n_fft, hop) * window


@_rule("istft")
def _istft(x: Complex, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
           window: Tensor | None = None, center: bool = True, normalized: bool = False,
           onesided: bool | None = None, length: int | None = None,
           return_complex: bool = False) -> Tensor:
    """Adds the frames up, and divides by the sum of the squares of the windows there."""
    if return_complex or onesided is False:
        raise NotImplementedError
    hop, weight = hop_length or n_fft // 4, _window(window, win_length, n_fft)
    turned = Complex(x.real.transpose(-1, -2), x.imag.transpose(-1, -2))
    frames = _whole(turned, [n_fft], [-1], "ortho" if normalized else None) * weight
    count = frames.shape[-2]
    total = n_fft + hop * (count - 1)
    place = (torch.arange(count)[:, None] * hop + torch.arange(n_fft)).flatten()
    empty = torch.zeros([*frames.shape[:-2], total])
    flat = frames.flatten(-2)
    summed = torch.scatter_add(empty, -1, place.expand(flat.shape), flat)
    squares = torch.scatter_add(torch.zeros(total), 0, place, (weight * weight).repeat(count))
    begin = n_fft // 2 if center else 0
    end = total - begin if length is None else min(total, begin + length)
    kept = (summed / torch.where(squares > 1e-11, squares, torch.ones_like(squares)))[..., begin:end]
    missing = 0 if length is None else length - (end - begin)
    return torch.nn.functional.pad(kept, (0, missing))
