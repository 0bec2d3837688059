"""Writes to diagonals and to places that are computed."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .sorting import SORTED_MAX
from .table import FP32_MAX, rewrites


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


@rewrites("index_copy.default")
def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    named, mask = _chosen(self, dim, index)
    place = (named.long() * torch.arange(named.shape[1])).amax(1)  # a later index wins
    return torch.where(mask, torch.index_select(source, dim, place), self)


@rewrites("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    _, mask = _chosen(self, dim, index)
    return torch.where(mask, torch.as_tensor(value, dtype=self.dtype), self)


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
