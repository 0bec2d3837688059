"""Places that a computed mask chooses: `rows, columns = torch.where(mask)`.

Such places are kept as those of all elements, with the mask, like chosen elements themselves.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .selected import Selected, made, refused, same_masks

WRITES_MAX = 64  # of one assignment to places that a mask of several axes chooses


class Places(Selected):
    """Along one axis of a mask, the places of its true elements in their order."""

    extents: tuple[int, ...]  # of the mask
    axis: int

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (),
                           kwargs: dict | None = None) -> Any:
        name, options = getattr(func, "__name__", ""), kwargs or {}
        if name in ("index_add", "index_add_") and len(args) == 4 and args[1] == 0 and not isinstance(
                args[0], Selected) and isinstance(args[2], Places):
            with torch._C.DisableTorchFunctionSubclass():
                total = _added(args[0], *args[2:], **options)
                return args[0].copy_(total) if name == "index_add_" else total
        return super().__torch_function__(func, types, args, kwargs)


class PlaceRows(Selected):
    """What nonzero() returns for a mask of one axis: the places as a column."""

    places: Places

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (),
                           kwargs: dict | None = None) -> Any:
        name, rest = getattr(func, "__name__", ""), args[1:]
        column = rest and isinstance(rest[0], tuple) and rest[0] == (slice(None), 0)
        if not kwargs and (name == "flatten" or (name == "squeeze" and rest in ((), (1,), (-1,)))
                           or (name in ("view", "reshape") and rest == (-1,))
                           or (name == "__getitem__" and column)):
            return args[0].places
        return super().__torch_function__(func, types, args, kwargs)


def places_of(mask: torch.Tensor) -> tuple[Places, ...]:
    """What torch.where(mask) returns."""
    return tuple(_along(mask, axis) for axis in range(mask.dim()))


def place_rows(mask: torch.Tensor) -> Selected:
    """What torch.nonzero(mask) returns."""
    if mask.dim() != 1:
        raise refused("nonzero")
    found = _made(PlaceRows, _along(mask, 0).full[:, None], mask)
    found.places = _along(mask, 0)
    return found


def _along(mask: torch.Tensor, axis: int) -> Places:
    size = [1] * mask.dim()
    size[axis] = mask.shape[axis]
    numbers = torch.arange(mask.shape[axis]).reshape(size).expand(mask.shape)
    found = _made(Places, numbers.flatten(), mask.flatten())
    found.extents, found.axis = tuple(mask.shape), axis
    return found


def _made(kind: type, full: torch.Tensor, mask: torch.Tensor) -> Any:
    with _disable_current_modes():
        found = torch.Tensor._make_subclass(kind, torch.empty(0))
    found.full, found.mask, found.together, found.has_views = full, mask, 1, False
    return found


def _split(index: Any) -> tuple[list[Places], list[Any]]:
    """The places at the beginning of an index, all of one mask, and what follows."""
    entries = list(index) if isinstance(index, tuple) else [index]
    places = []
    while entries and isinstance(entries[0], Places):
        places.append(entries.pop(0))
    if not places or any(isinstance(x, Selected) for x in entries) or not all(
            same_masks(x.mask, places[0].mask) for x in places):
        raise refused("an index")
    return places, entries


def _with_axes_of_mask(x: torch.Tensor, places: list[Places]) -> torch.Tensor | None:
    """x with its first axes in the order of the mask's, if an index names one place on each."""
    extents, axes = places[0].extents, [p.axis for p in places]
    if sorted(axes) != [*range(len(extents))] or x.shape[:len(axes)] != tuple(
            extents[axis] for axis in axes):
        return None
    return x.permute(*(axes.index(axis) for axis in range(len(axes))), *range(len(axes), x.dim()))


def chosen(x: torch.Tensor, index: Any) -> Selected:
    """x[index], in which the first entries are places."""
    places, rest = _split(index)
    extents, axis = places[0].extents, places[0].axis
    whole = _with_axes_of_mask(x, places)
    if whole is not None:
        elements = whole.flatten(0, len(extents) - 1)
        return made(elements[(slice(None), *rest)] if rest else elements, places[0].mask)
    if len(places) > 1 or x.shape[0] != extents[axis]:
        raise refused("an index")
    rows = x[(slice(None), *rest)] if rest else x
    size = [1] * len(extents)
    size[axis] = extents[axis]
    spread = rows.reshape(*size, *rows.shape[1:]).expand(*extents, *rows.shape[1:])
    return made(spread.flatten(0, len(extents) - 1), places[0].mask)


def _by_place(x: torch.Tensor, places: list[Places], rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Elements [extents of the mask, flat][...] and their mask, as [place, others][...]."""
    first = places[0]
    elements = x.reshape(*first.extents, *x.shape[1:]).movedim(first.axis, 0)
    mask = first.mask.reshape(first.extents).movedim(first.axis, 0)
    elements = elements.reshape(mask.shape[0], -1, *x.shape[1:])
    return elements, mask.reshape(*elements.shape[:2], *[1] * (rank - 1))


def assigned_places(x: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    """What x is after x[index] = value. Of several writes to a place the last one stays, as in torch
    on a CPU."""
    places, rest = _split(index)
    if rest or not isinstance(value, Selected) or not same_masks(value.mask, places[0].mask):
        raise refused("an assignment")
    extents = places[0].extents
    if [p.axis for p in places] == [*range(len(extents))] and x.shape[:len(extents)] == extents:
        mask = places[0].mask.reshape(*extents, *[1] * (x.dim() - len(extents)))
        return torch.where(mask, value.full.reshape(x.shape).to(x.dtype), x)
    elements, mask = _by_place(value.full.to(x.dtype), places, x.dim())
    if len(places) > 1 or elements.shape[1] > WRITES_MAX or elements.shape[0] != x.shape[0]:
        raise refused("an assignment")
    for other in range(elements.shape[1]):
        x = torch.where(mask[:, other], elements[:, other], x)
    return x


def _added(x: torch.Tensor, index: Places, value: Any, alpha: float = 1) -> torch.Tensor:
    """What x is after x.index_add_(0, index, value)."""
    if not isinstance(value, Selected) or not same_masks(value.mask, index.mask):
        raise refused("index_add")
    elements, mask = _by_place(value.full, [index], x.dim())
    if elements.shape[0] != x.shape[0]:
        raise refused("index_add")
    zero = torch.zeros((), dtype=elements.dtype)
    return x + torch.where(mask, elements, zero).sum(1).to(x.dtype) * alpha
