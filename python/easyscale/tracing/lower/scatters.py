"""Indexing by tensors, and writes to a part of a tensor."""
from __future__ import annotations

import math
from typing import Any

import torch

from ..errors import KEPT
from .builder import Builder, Operand, Val, type_of
from .moves import take
from .table import CannotLower, lowers

WRITES_MAX = 16


@lowers("gather.default")
def gather(b: Builder, self: Operand, dim: int, index: Operand, sparse_grad: bool) -> Operand:
    return b.emit("gather", self, index, axis=dim % self.dim())


@lowers("take_along_dim.default")
def take_along_dim(b: Builder, self: Operand, indices: Operand, dim: int | None) -> Operand:
    axis = dim % self.dim()
    shape = [max(x, y) for x, y in zip(self.shape, indices.shape)]
    shape[axis] = indices.shape[axis]
    index = b.expand(indices, shape)
    shape[axis] = self.shape[axis]
    return b.emit("gather", b.expand(self, shape), index, axis=axis)


@lowers("scatter_add.default")
def scatter_add(b: Builder, self: Operand, dim: int, index: Operand, src: Operand) -> Operand:
    return b.emit("scatter_add", self, index, src, axis=dim % self.dim())


@lowers("one_hot.default")
def one_hot(b: Builder, self: Operand, num_classes: int) -> Operand:
    classes = b.result.shape[-1]
    # The row of a table of all classes is the class itself; a number that is no class ends the step.
    known = b.emit("take_rows", torch.arange(classes), self)
    apart = b.reshape(known, (*self.shape, 1))
    return b.cast(b.emit("eq", apart, torch.arange(classes)), "i32")


@lowers("slice_scatter.default")
def slice_scatter(b: Builder, self: Operand, src: Operand, dim: int, start: Any, end: Any,
                  step: int) -> Operand:
    axis, size = dim % self.dim(), self.shape[dim]
    begin, stop, step = slice(start, end, step).indices(size)
    src = b.cast(b.expand(src, [len(range(begin, stop, step)) if i == axis else n
                                for i, n in enumerate(self.shape)]), _type(b))
    if step == 1 and (begin, stop) == (0, size):
        return src
    if step == 1:
        return b.concat([b.slice(self, axis, 0, begin), src, b.slice(self, axis, stop, size)],
                        axis)
    written = list(range(begin, stop, step))
    index = [size + written.index(i) if i in written else i for i in range(size)]
    return b.emit("index_select", b.concat([self, src], axis), axis=axis, index=index)


def _type(b: Builder) -> str:
    return "f32" if b.result.dtype.is_floating_point else (
        "bool" if b.result.dtype == torch.bool else "i32")


@lowers("select_scatter.default")
def select_scatter(b: Builder, self: Operand, src: Operand, dim: int, index: int) -> Operand:
    axis = dim % self.dim()
    shape = [1 if i == axis else n for i, n in enumerate(self.shape)]
    index %= self.shape[axis]
    return slice_scatter(b, self, b.reshape(src, shape), axis, index, index + 1, 1)


@lowers("diagonal_scatter.default")
def diagonal_scatter(b: Builder, self: Operand, src: Operand, offset: int, dim1: int,
                     dim2: int) -> Operand:
    rank = self.dim()
    if (dim1 % rank, dim2 % rank) != (rank - 2, rank - 1):
        raise CannotLower("a write to a diagonal of other axes than the last two")
    rows, columns = torch.arange(self.shape[-2])[:, None], torch.arange(self.shape[-1])
    written = columns - rows == offset
    if not bool(written.any()):
        return self
    # Every row has the number of its place on the diagonal in all of its columns.
    place = (rows.flatten() + min(offset, 0)).clamp(0, src.shape[-1] - 1).tolist()
    src = b.cast(src, _type(b))
    spread = b.emit("index_select", src, axis=src.dim() - 1, index=place)
    return b.emit("where", written, b.reshape(spread, (*spread.shape, 1)), self)


@lowers("index.Tensor")
def index(b: Builder, self: Operand, indices: list) -> Operand:
    indices = _integer_indices(indices)
    axes = [axis for axis, x in enumerate(indices) if x is not None]
    if len(axes) == 1:
        return take(b, self, axes[0], indices[axes[0]])
    if axes != list(range(axes[0], axes[-1] + 1)):
        # The axes of such indices come first in the result.
        order = _with_first(self, axes)
        return index(b, b.permute(self, order), [indices[axis] for axis in axes])
    own = _index_of_samples(b, self, indices) if axes == [0, 1] else None
    if own is not None:
        return _take_per_sample(b, self, own)
    return _take_flat(b, self, axes, [indices[axis] for axis in axes])


def _with_first(x: Operand, axes: list[int]) -> list[int]:
    """The order of all axes with these ones at the beginning."""
    return axes + [axis for axis in range(x.dim()) if axis not in axes]


def _integer_indices(indices: list) -> list:
    """Constant masks become the indices of their true elements."""
    result: list = []
    for x in indices:
        if isinstance(x, torch.Tensor) and x.dtype == torch.bool:
            result += list(x.nonzero(as_tuple=True))
        else:
            result.append(x)
    return result


def _index_of_samples(b: Builder, x: Operand, indices: list[Operand]) -> Operand | None:
    """The second of two indices as [samples, ...], if the first one is the number of the sample."""
    first, second = indices
    if not _counts_samples(first, x.shape[0]):
        return None
    shape = torch.broadcast_shapes(first.shape, second.shape)
    return b.expand(second, shape) if len(shape) == first.dim() else None


def _counts_samples(x: Operand, size: int) -> bool:
    """True for [0, 1, ..., size - 1] along the first axis, the same along the others."""
    return (isinstance(x, torch.Tensor) and x.dim() > 0 and x.shape[0] == size
            and bool((x == torch.arange(size).view(-1, *[1] * (x.dim() - 1))).all()))


def _take_per_sample(b: Builder, x: Operand, index: Operand) -> Operand:
    """x[sample, index[sample, ...]]. A constant that is the same for all samples is a move."""
    samples, length, *rest = x.shape
    if isinstance(index, torch.Tensor) and bool((index == index[:1]).all()):
        return b.reshape(take(b, x, 1, index[0].flatten()), b.result.shape)
    wide = b.reshape(index, (samples, -1, *([1] * len(rest))))
    wide = b.expand(wide, (samples, wide.shape[1], *rest))
    return b.reshape(b.emit("gather", x, wide, axis=1), b.result.shape)


def _take_flat(b: Builder, x: Operand, axes: list[int], indices: list[Operand]) -> Operand:
    """Several indices of adjacent axes: one index of their product."""
    flat = _flat_index(b, x, axes, indices)
    shape = (*x.shape[:axes[0]], -1, *x.shape[axes[-1] + 1:])
    return take(b, b.reshape(x, shape), axes[0], flat)


def _flat_index(b: Builder, x: Operand, axes: list[int], indices: list[Operand]) -> Operand:
    """The index into the product of adjacent axes."""
    flat: Any = None
    for axis, at in zip(axes, indices):
        size = x.shape[axis]
        at = at % size if isinstance(at, torch.Tensor) else at
        flat = at if flat is None else _plus(b, _times(b, flat, size), at)
    return flat


def _times(b: Builder, x: Operand, size: int) -> Operand:
    return x * size if isinstance(x, torch.Tensor) else b.emit("mul", x, torch.tensor(size))


def _plus(b: Builder, x: Operand, y: Operand) -> Operand:
    both = isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
    return x + y if both else b.emit("add", x, y)


@lowers("index_put.default")
def index_put(b: Builder, self: Operand, indices: list, values: Operand,
              accumulate: bool) -> Operand:
    """Constant indices: an index_select of the old and the new rows. What is added is scattered."""
    (first, *others) = indices
    if not others and first is not None and type_of(first) == "bool" and (
            isinstance(first, Val) or values.dim() == 0):
        return _written_where(b, self, first, values, accumulate)
    indices = _integer_indices(indices)
    if len(indices) == 2 and all(x is not None for x in indices):
        own = _index_of_samples(b, self, indices)
        if isinstance(own, Val) or _are_few_places(own):
            return _written_per_sample(b, self, own, values, accumulate)
    axes = [axis for axis, x in enumerate(indices) if x is not None]
    if axes != list(range(axes[0], axes[-1] + 1)):
        order = _with_first(self, axes)
        written = index_put(b, b.permute(self, order), [indices[axis] for axis in axes], values,
                            accumulate)
        return b.permute(written, [order.index(axis) for axis in range(self.dim())])
    flat = _flat_index(b, self, axes, [indices[axis] for axis in axes])
    axis, before, after = axes[0], self.shape[:axes[0]], self.shape[axes[-1] + 1:]
    rows = b.reshape(self, (*before, -1, *after))
    new = b.expand(values, (*before, *flat.shape, *after))
    new = b.cast(b.reshape(new, (*before, -1, *after)), _type(b))
    if accumulate:
        places = b.reshape(flat, (*[1] * len(before), -1, *[1] * len(after)))
        places = b.expand(places, new.shape)
        return b.reshape(b.emit("scatter_add", rows, places, new, axis=axis), self.shape)
    if isinstance(flat, Val):
        places, alike = b.reshape(flat, (-1,)), _without_places(b, values, flat.dim(), len(after))
        written = (_written_rows(b, rows, axis, places, new) if alike is None else
                   _written_alike(b, rows, axis, places, b.cast(alike, _type(b))))
        return b.reshape(written, self.shape)
    if b.is_for_samples(self, axis, indices[axis]):
        return _written_for_samples(b, rows, new)
    source, named = list(range(rows.shape[axis])), flat.flatten().tolist()
    if named == source:  # of samples, their number may not be in an index
        return b.reshape(new, self.shape)
    for number, row in enumerate(named):
        source[row] = rows.shape[axis] + number
    both = b.concat([rows, new], axis)
    return b.reshape(b.emit("index_select", both, axis=axis, index=source), self.shape)


def _are_few_places(index: torch.Tensor | None) -> bool:
    """Whether a constant index of samples has the same places for all of them, and few."""
    return (index is not None and math.prod(index.shape[1:]) <= WRITES_MAX
            and bool((index == index[:1]).all()))


@lowers("index_copy.default")
def index_copy(b: Builder, self: Operand, dim: int, index: Operand, source: Operand) -> Operand:
    return index_put(b, self, [None] * (dim % self.dim()) + [index], source, False)


def _written_rows(b: Builder, x: Operand, axis: int, index: Operand, new: Operand) -> Operand:
    """`x` with the rows `index` of an axis replaced by those of `new`.

    Torch does not say which of two rows stays that are written to one place; here such a place selects
    a row that does not exist, so the step ends with an error.
    """
    count, size = index.shape[0], x.shape[axis]
    nothing, times = torch.zeros(size), _times_named(b, size, index)
    number = b.emit("scatter_add", nothing, index, torch.arange(count, dtype=torch.float32), axis=0)
    twice = b.emit("gt", times, torch.tensor(1.0))
    number = b.cast(b.emit("where", twice, torch.tensor(float(count)), number), "i32")
    written = _over(b, x, axis, b.emit("gt", times, torch.tensor(0.0)))
    return b.emit("where", written, take(b, new, axis, number), x)


def _written_for_samples(b: Builder, x: Operand, new: Operand) -> Operand:
    """`x` with its first rows replaced by those of the samples."""
    numbers = torch.arange(x.shape[0], dtype=torch.float32)
    # A value, because a constant would be computed with, and the result is no multiple of the samples.
    samples = b.value(torch.tensor(float(b.samples)))
    written = b.emit("gt", samples, numbers)
    number = b.cast(b.emit("where", written, numbers, torch.tensor(0.0)), "i32")
    return b.emit("where", _over(b, x, 0, written), b.emit("take_rows", new, number), x)


def _written_alike(b: Builder, x: Operand, axis: int, index: Operand, new: Operand) -> Operand:
    """`x` with `new` at all places `index` of an axis. It does not matter which write stays, but torch
    counts the gradient of a place as often as the index names it."""
    times = _over(b, x, axis, _times_named(b, x.shape[axis], index))
    named = b.emit("gt", times, torch.tensor(0.0))
    if isinstance(new, Val) and new.type == "f32":
        fixed = b.emit("stop_gradient", new)
        new = b.emit("add", fixed, b.emit("mul", b.emit("sub", new, fixed), times))
    return b.emit("where", named, new, x)


def _without_places(b: Builder, values: Operand, places: int, after: int) -> Operand | None:
    """What is written, as broadcast over `x`, if it is the same at all places; None otherwise.

    `places` and `after` are the axes of the index and those behind them.
    """
    begin, end = max(values.dim() - after - places, 0), max(values.dim() - after, 0)
    if any(size != 1 for size in values.shape[begin:end]):
        return None
    middle = (1,) if end else ()
    return b.reshape(values, (*values.shape[:begin], *middle, *values.shape[end:]))


def _times_named(b: Builder, size: int, index: Operand) -> Operand:
    """How often an index names each place, as real numbers [size]."""
    return b.emit("scatter_add", torch.zeros(size), index, torch.ones(index.shape[0]), axis=0)


def _over(b: Builder, x: Operand, axis: int, numbers: Operand) -> Operand:
    """Numbers of the places of an axis, with the axes of `x`."""
    return b.reshape(numbers, [x.shape[axis] if i == axis else 1 for i in range(x.dim())])


def _written_where(b: Builder, x: Operand, mask: Operand, values: Operand,
                   accumulate: bool) -> Operand:
    """One number at all places that a mask of the leading axes chooses."""
    if values.dim() > 0 and values.shape != (1,):
        raise CannotLower("a write of several numbers at computed places")
    if isinstance(mask, torch.Tensor) and not bool(mask.any()):
        return x
    new = b.cast(b.reshape(values, ()), _type(b))
    wide = b.reshape(mask, (*mask.shape, *[1] * (x.dim() - mask.dim())))
    return b.emit("where", wide, b.emit("add", x, new) if accumulate else new, x)


def _written_per_sample(b: Builder, x: Operand, index: Operand, values: Operand,
                        accumulate: bool) -> Operand:
    """x[sample, index[sample, ...]] = values. A place that is named twice has the last number."""
    samples, length, *rest = x.shape
    count = math.prod(index.shape[1:])
    if isinstance(index, torch.Tensor):
        index = index % length
    if not accumulate and count > WRITES_MAX:
        raise CannotLower(f"a write at more than {WRITES_MAX} computed places of a sample")
    new = b.cast(b.expand(values, (*index.shape, *rest)), _type(b))
    new = b.reshape(new, (samples, count, *rest))
    places = b.reshape(index, (samples, count, *[1] * len(rest)))
    if accumulate:
        return b.emit("scatter_add", x, b.expand(places, (samples, count, *rest)), new, axis=1)
    numbers = torch.arange(length).reshape(1, -1, *[1] * len(rest))
    for i in range(count):
        place = b.slice(places, 1, i, i + 1)
        named = b.emit("or", b.emit("eq", numbers, place),  # a place may be counted from the end
                       b.emit("eq", numbers - length, place))
        x = b.emit("where", named, b.slice(new, 1, i, i + 1), x)
    return x


@lowers("embedding_renorm.default")
def embedding_renorm(b: Builder, **_: Any) -> Operand:
    raise CannotLower("an embedding with max_norm, which changes its parameter")


@lowers("item.default", "_local_scalar_dense.default")
def item(b: Builder, **_: Any) -> Operand:
    raise CannotLower(f"a number that Python reads of a tensor, and computes with; {KEPT}")


@lowers("bincount.default", "nonzero.default", "masked_select.default", "unique2.default",
        "_unique2.default", "repeat_interleave.Tensor")
def data_dependent(b: Builder, **_: Any) -> Operand:
    raise CannotLower("the shape of its result depends on the data")
