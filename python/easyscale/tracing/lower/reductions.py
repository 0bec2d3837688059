"""Operators that make one number of many, over any axes."""
from __future__ import annotations

import math
from typing import Any

import torch

from .builder import Builder, Operand, Val, type_of
from .table import CannotLower, lowers


def axes_of(x: Operand, dim: Any) -> list[int]:
    """The sorted axes that an argument `dim` means; none given means all."""
    if dim is None or dim == []:
        return list(range(x.dim()))
    return sorted(d % x.dim() for d in (dim if isinstance(dim, list) else [dim])) if x.dim() else []


def reduce(b: Builder, kind: str, x: Operand, dim: Any, keepdim: bool, **more: Any) -> Operand:
    """A reduction over the axes `dim`."""
    axes = axes_of(x, dim)
    return b.emit(kind, x, axes=axes, keepdim=keepdim, **more) if axes else x


def _result_type(b: Builder, x: Operand) -> Operand:
    return b.cast(x, "f32" if b.result.dtype.is_floating_point else "i32")


@lowers("sum.default")
def sum_all(b: Builder, self: Operand, dtype: Any) -> Operand:
    return reduce(b, "sum", _result_type(b, self), None, False)


@lowers("sum.dim_IntList")
def sum_(b: Builder, self: Operand, dim: Any, keepdim: bool, dtype: Any) -> Operand:
    return reduce(b, "sum", _result_type(b, self), dim, keepdim)


@lowers("mean.default")
def mean_all(b: Builder, self: Operand, dtype: Any) -> Operand:
    return reduce(b, "mean", b.cast(self, "f32"), None, False)


@lowers("mean.dim")
def mean(b: Builder, self: Operand, dim: Any, keepdim: bool, dtype: Any) -> Operand:
    return reduce(b, "mean", b.cast(self, "f32"), dim, keepdim)


def _extreme(b: Builder, kind: str, x: Operand, dim: Any, keepdim: bool) -> Operand:
    if type_of(x) != "bool":
        return reduce(b, kind, x, dim, keepdim)
    return b.cast(reduce(b, kind, b.cast(x, "i32"), dim, keepdim), "bool")


@lowers("amax.default")
def amax(b: Builder, self: Operand, dim: Any, keepdim: bool) -> Operand:
    return _extreme(b, "amax", self, dim, keepdim)


@lowers("amin.default")
def amin(b: Builder, self: Operand, dim: Any, keepdim: bool) -> Operand:
    return _extreme(b, "amin", self, dim, keepdim)


@lowers("max.default")
def max_all(b: Builder, self: Operand) -> Operand:
    return _extreme(b, "amax", self, None, False)


@lowers("min.default")
def min_all(b: Builder, self: Operand) -> Operand:
    return _extreme(b, "amin", self, None, False)


def _first_of(b: Builder, kind: str, x: Operand, dim: int, keepdim: bool) -> list[Operand]:
    """The first extreme element: only it has a gradient, so it is gathered by its index."""
    axis, type_ = dim % x.dim(), type_of(x)
    x = b.cast(x, "i32") if type_ == "bool" else x
    index = b.emit(kind, x, axis=axis, keepdim=True)
    value = b.cast(b.emit("gather", x, index, axis=axis), type_)
    if keepdim:
        return [value, index]
    shape = [n for i, n in enumerate(x.shape) if i != axis]
    return [b.reshape(value, shape), b.reshape(index, shape)]


@lowers("max.dim")
def max_dim(b: Builder, self: Operand, dim: int, keepdim: bool) -> list[Operand]:
    return _first_of(b, "argmax", self, dim, keepdim)


@lowers("min.dim")
def min_dim(b: Builder, self: Operand, dim: int, keepdim: bool) -> list[Operand]:
    return _first_of(b, "argmin", self, dim, keepdim)


def _arg(b: Builder, kind: str, x: Operand, dim: int | None, keepdim: bool) -> Operand:
    x = b.cast(x, "f32") if type_of(x) == "bool" else x
    if dim is None:
        return b.reshape(b.emit(kind, b.reshape(x, (-1,)), axis=0, keepdim=False), b.result.shape)
    return b.emit(kind, x, axis=dim % x.dim(), keepdim=keepdim)


@lowers("argmax.default")
def argmax(b: Builder, self: Operand, dim: int | None, keepdim: bool) -> Operand:
    return _arg(b, "argmax", self, dim, keepdim)


@lowers("argmin.default")
def argmin(b: Builder, self: Operand, dim: int | None, keepdim: bool) -> Operand:
    return _arg(b, "argmin", self, dim, keepdim)


@lowers("prod.default")
def prod_all(b: Builder, self: Operand, dtype: Any) -> Operand:
    return _product(b, self, None, False)


@lowers("prod.dim_int")
def prod(b: Builder, self: Operand, dim: int, keepdim: bool, dtype: Any) -> Operand:
    return _product(b, self, dim, keepdim)


def _product(b: Builder, x: Operand, dim: int | None, keepdim: bool) -> Operand:
    if type_of(x) == "i32" and isinstance(x, Val):
        raise CannotLower("a product of integers along an axis")
    if type_of(x) == "bool":  # 0 or 1, which fp32 has too
        return b.cast(reduce(b, "prod", b.cast(x, "f32"), dim, keepdim), "i32")
    return reduce(b, "prod", _result_type(b, x), dim, keepdim)


def _true_elements(b: Builder, x: Operand, dim: Any, keepdim: bool) -> Operand:
    return reduce(b, "sum", b.cast(b.cast(x, "bool"), "i32"), dim, keepdim)


@lowers("any.default", "any.dim", "any.dims")
def any_(b: Builder, self: Operand, dim: Any = None, keepdim: bool = False) -> Operand:
    return b.emit("gt", _true_elements(b, self, dim, keepdim), torch.tensor(0))


@lowers("all.default", "all.dim", "all.dims")
def all_(b: Builder, self: Operand, dim: Any = None, keepdim: bool = False) -> Operand:
    count = math.prod(self.shape[axis] for axis in axes_of(self, dim))
    return b.emit("eq", _true_elements(b, self, dim, keepdim), torch.tensor(count))


def variance(b: Builder, x: Operand, dim: Any, correction: Any, keepdim: bool) -> Operand:
    """The variance over axes; torch's default correction is 1."""
    correction = 1 if correction is None else correction
    if correction != int(correction):
        raise CannotLower("a variance with a fractional correction")
    return reduce(b, "var", x, dim, keepdim, correction=int(correction))


@lowers("var.correction")
def var(b: Builder, self: Operand, dim: Any, correction: Any, keepdim: bool) -> Operand:
    return variance(b, self, dim, correction, keepdim)


@lowers("var.dim", "var.default")
def var_dim(b: Builder, self: Operand, unbiased: bool, dim: Any = None,
            keepdim: bool = False) -> Operand:
    return variance(b, self, dim, int(unbiased), keepdim)


@lowers("std.correction")
def std(b: Builder, self: Operand, dim: Any, correction: Any, keepdim: bool) -> Operand:
    return root(b, variance(b, self, dim, correction, keepdim))


@lowers("std.dim", "std.default")
def std_dim(b: Builder, self: Operand, unbiased: bool, dim: Any = None,
            keepdim: bool = False) -> Operand:
    return root(b, variance(b, self, dim, int(unbiased), keepdim))


@lowers("var_mean.correction")
def var_mean(b: Builder, self: Operand, dim: Any, correction: Any,
             keepdim: bool) -> list[Operand]:
    return [variance(b, self, dim, correction, keepdim), reduce(b, "mean", self, dim, keepdim)]


@lowers("std_mean.correction")
def std_mean(b: Builder, self: Operand, dim: Any, correction: Any,
             keepdim: bool) -> list[Operand]:
    return [std(b, self, dim, correction, keepdim), reduce(b, "mean", self, dim, keepdim)]


@lowers("var_mean.dim")
def var_mean_dim(b: Builder, self: Operand, dim: Any, unbiased: bool,
                 keepdim: bool) -> list[Operand]:
    return var_mean(b, self, dim, int(unbiased), keepdim)


@lowers("std_mean.dim")
def std_mean_dim(b: Builder, self: Operand, dim: Any, unbiased: bool,
                 keepdim: bool) -> list[Operand]:
    return std_mean(b, self, dim, int(unbiased), keepdim)


def root(b: Builder, x: Operand, kind: str = "sqrt", **attributes: Any) -> Operand:
    """The square root, or a power, of x >= 0, with the gradient zero at zero, as torch's norms have it:
    there the slope is infinite."""
    positive = b.emit("gt", x, torch.tensor(0.0))
    safe = b.emit(kind, b.emit("where", positive, x, torch.tensor(1.0)), **attributes)
    return b.emit("where", positive, safe, torch.tensor(0.0))


def vector_norm(b: Builder, x: Operand, p: float, dim: Any, keepdim: bool) -> Operand:
    """(sum |x|^p)^(1/p) over axes; infinite p is the largest magnitude, and 0 counts what is not 0."""
    if p == 2:
        return root(b, reduce(b, "sum", b.emit("square", x), dim, keepdim))
    size = b.emit("abs", x)
    if p == 1:
        return reduce(b, "sum", size, dim, keepdim)
    if math.isinf(p):
        return reduce(b, "amax" if p > 0 else "amin", size, dim, keepdim)
    if p == 0:
        other = b.cast(b.emit("ne", x, torch.tensor(0.0)), "f32")
        return reduce(b, "sum", other, dim, keepdim)
    raised = (root(b, size, "pow_scalar", exponent=float(p)) if 0 < p < 1
              else b.emit("pow_scalar", size, exponent=float(p)))
    total = reduce(b, "sum", raised, dim, keepdim)
    if p < 0:
        return b.emit("pow_scalar", total, exponent=1 / p)
    return root(b, total, "pow_scalar", exponent=1 / p)  # powers of small numbers may all be 0


@lowers("linalg_vector_norm.default")
def linalg_vector_norm(b: Builder, self: Operand, ord: float, dim: Any, keepdim: bool,
                       dtype: Any) -> Operand:
    return vector_norm(b, self, ord, dim, keepdim)


@lowers("norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype")
def norm(b: Builder, self: Operand, p: float | None, dim: Any = None, keepdim: bool = False,
         dtype: Any = None) -> Operand:
    return vector_norm(b, self, 2 if p is None else p, dim, keepdim)


@lowers("frobenius_norm.dim", "linalg_norm.default")
def frobenius_norm(b: Builder, self: Operand, dim: Any, keepdim: bool, ord: Any = None,
                   dtype: Any = None) -> Operand:
    if ord not in (None, 2) or (ord == 2 and len(axes_of(self, dim)) > 1):
        raise CannotLower("a norm of matrices")
    return vector_norm(b, self, 2, dim, keepdim)


@lowers("logsumexp.default")
def logsumexp(b: Builder, self: Operand, dim: Any, keepdim: bool) -> Operand:
    return reduce(b, "logsumexp", self, dim, keepdim)


@lowers("cumsum.default")
def cumsum(b: Builder, self: Operand, dim: int, dtype: Any) -> Operand:
    return b.emit("cumsum", _result_type(b, self), axis=dim % self.dim())
