"""Sums, counts, distances and losses over axes, and what runs along one."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .functions import logaddexp
from .sorting import SORTED_MAX
from .table import rewrites


SHORT = 64  # elements of which all pairs are few


@rewrites("logcumsumexp.default")
def logcumsumexp(self: Tensor, dim: int) -> Tensor:
    # A common maximum would lose all numbers that are much smaller.
    length = self.shape[dim] if self.dim() else 1
    if length == 1:
        return self
    # The axis of the samples, whose number is open, is short while a model is captured.
    return (_over_pairs if length <= SHORT else _by_doubling)(self, dim, length)


def _over_pairs(x: Tensor, dim: int, length: int) -> Tensor:
    """For each element the sum over itself and those before it, of all pairs."""
    places = torch.arange(length)
    before = places <= places.unsqueeze(1)
    terms = torch.where(before, x.movedim(dim, -1).unsqueeze(-2), torch.tensor(-math.inf))
    return torch.logsumexp(terms, -1).movedim(-1, dim)


def _by_doubling(x: Tensor, dim: int, length: int) -> Tensor:
    """Sums of twice as many elements in each round."""
    count = 1
    while count < length:
        first, rest = x.narrow(dim, 0, count), x.narrow(dim, count, length - count)
        x = torch.cat([first, logaddexp(rest, x.narrow(dim, 0, length - count))], dim)
        count *= 2
    return x


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


@rewrites("cdist.default", "_cdist_forward.default")
def cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    return torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


@rewrites("cumprod.default")
def cumprod(self: Tensor, dim: int, dtype: Any) -> Tensor:
    parts = list(torch.unbind(self, dim))
    if len(parts) > SORTED_MAX:
        raise NotImplementedError
    for i in range(1, len(parts)):
        parts[i] = parts[i - 1] * parts[i]
    return torch.stack(parts, dim)


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


@rewrites("aminmax.default")
def aminmax(self: Tensor, dim: int | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    axes = list(range(self.dim())) if dim is None else [dim]
    return torch.amin(self, axes, keepdim), torch.amax(self, axes, keepdim)
