"""Sorting, what it is made of, and places in sorted rows."""
from __future__ import annotations

import torch
from torch import Tensor

from .table import rewrites

SORTED_MAX = 2048  # the elements of a row that is sorted: it takes a comparison for each pair


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
