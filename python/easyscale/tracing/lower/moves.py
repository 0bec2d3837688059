"""Operators that move elements and compute nothing."""
from __future__ import annotations

import math
from typing import Any

import torch

from .builder import Builder, Operand, Val, type_of
from .reductions import reduce
from .table import CannotLower, lowers

FP32_MAX = torch.finfo(torch.float32).max
DIAGONAL_MAX = 2 ** 20  # the elements of a matrix whose diagonal is a sum


@lowers("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints",
        "unflatten.int", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default",
        "view_as.default", "reshape_as.default", "atleast_2d.default")
def reshape(b: Builder, self: Operand, **_: Any) -> Operand:
    return b.reshape(self, b.result.shape)


@lowers("expand.default", "expand_as.default", "broadcast_to.default")
def expand(b: Builder, self: Operand, **_: Any) -> Operand:
    return b.expand(self, b.result.shape)


@lowers("broadcast_tensors.default")
def broadcast_tensors(b: Builder, tensors: list[Operand]) -> list[Operand]:
    return [b.expand(x, b.result.shape) for x in tensors]


@lowers("permute.default")
def permute(b: Builder, self: Operand, dims: list[int]) -> Operand:
    return b.permute(self, dims)


@lowers("transpose.int", "swapdims.default")
def transpose(b: Builder, self: Operand, dim0: int, dim1: int) -> Operand:
    return b.swap(self, dim0, dim1) if self.dim() else self


@lowers("swapaxes.default")
def swapaxes(b: Builder, self: Operand, axis0: int, axis1: int) -> Operand:
    return b.swap(self, axis0, axis1)


@lowers("t.default", "mT.default", "numpy_T.default", "adjoint.default", "matrix_H.default")
def matrix_transpose(b: Builder, self: Operand) -> Operand:
    return b.swap(self, -2, -1) if self.dim() > 1 else self


@lowers("movedim.intlist", "moveaxis.intlist")
def movedim(b: Builder, self: Operand, source: list[int], destination: list[int]) -> Operand:
    rank = self.dim()
    moved = {d % rank: s % rank for s, d in zip(source, destination)}
    rest = iter(axis for axis in range(rank) if axis not in moved.values())
    return b.permute(self, [moved[i] if i in moved else next(rest) for i in range(rank)])


@lowers("movedim.int", "moveaxis.int")
def movedim_one(b: Builder, self: Operand, source: int, destination: int) -> Operand:
    return movedim(b, self, [source], [destination])


def _position(index: int | None, size: int, default: int) -> int:
    """A Python slice bound in [0, size]."""
    if index is None:
        return default
    return min(max(index + size if index < 0 else index, 0), size)


@lowers("slice.Tensor")
def slice_(b: Builder, self: Operand, dim: int, start: Any, end: Any, step: int) -> Operand:
    axis, size = dim % self.dim(), self.shape[dim]
    begin = _position(start, size, 0)
    return b.slice(self, axis, begin, max(begin, _position(end, size, size)), step)


def pick(b: Builder, x: Operand, axis: int, index: int) -> Operand:
    """`x` at one index of an axis, without that axis."""
    index %= x.shape[axis]
    kept = tuple(x.shape[:axis]) + tuple(x.shape[axis + 1:])
    return b.reshape(b.slice(x, axis, index, index + 1), kept)


@lowers("select.int")
def select(b: Builder, self: Operand, dim: int, index: int) -> Operand:
    return pick(b, self, dim % self.dim(), index)


@lowers("unbind.int")
def unbind(b: Builder, self: Operand, dim: int) -> list[Operand]:
    axis = dim % self.dim()
    return [pick(b, self, axis, i) for i in range(self.shape[axis])]


@lowers("narrow.default")
def narrow(b: Builder, self: Operand, dim: int, start: int, length: int) -> Operand:
    start %= self.shape[dim]
    return b.slice(self, dim % self.dim(), start, start + length)


def pieces(b: Builder, x: Operand, axis: int, sizes: list[int]) -> list[Operand]:
    """`x` cut along an axis."""
    ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
    return [b.slice(x, axis, end - size, end) for size, end in zip(sizes, ends)]


@lowers("split_with_sizes.default", "split.sizes")
def split_with_sizes(b: Builder, self: Operand, dim: int, split_sizes: Any = None,
                     split_size: Any = None) -> list[Operand]:
    return pieces(b, self, dim % self.dim(), split_sizes or split_size)


def _equal_pieces(b: Builder, x: Operand, axis: int, size: int) -> list[Operand]:
    total = x.shape[axis]
    return pieces(b, x, axis, [min(size, total - i) for i in range(0, total, size)])


@lowers("split.Tensor")
def split(b: Builder, self: Operand, split_size: int, dim: int) -> list[Operand]:
    return _equal_pieces(b, self, dim % self.dim(), split_size)


@lowers("chunk.default")
def chunk(b: Builder, self: Operand, chunks: int, dim: int) -> list[Operand]:
    return _equal_pieces(b, self, dim % self.dim(), -(-self.shape[dim] // chunks))


@lowers("tensor_split.sections")
def tensor_split(b: Builder, self: Operand, sections: int, dim: int) -> list[Operand]:
    size, more = divmod(self.shape[dim], sections)
    return pieces(b, self, dim % self.dim(), [size + (i < more) for i in range(sections)])


@lowers("cat.default", "concat.default", "concatenate.default")
def cat(b: Builder, tensors: list[Operand], dim: int) -> Operand:
    return b.concat(tensors, dim % len(b.result.shape))


@lowers("stack.default")
def stack(b: Builder, tensors: list[Operand], dim: int) -> Operand:
    axis = dim % len(b.result.shape)
    shape = list(b.result.shape)
    shape[axis] = 1
    return b.concat([b.reshape(x, shape) for x in tensors], axis)


@lowers("hstack.default")
def hstack(b: Builder, tensors: list[Operand]) -> Operand:
    return b.concat(tensors, 0 if len(b.result.shape) == 1 else 1)


@lowers("vstack.default")
def vstack(b: Builder, tensors: list[Operand]) -> Operand:
    return b.concat([x if x.dim() > 1 else b.reshape(x, (1, *x.shape)) for x in tensors], 0)


def _axis_sides(sides: list[int], rank: int) -> tuple[list[int], list[int]]:
    """The elements before and after every axis; torch names the last axis first."""
    before, after = [0] * rank, [0] * rank
    for i in range(len(sides) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = sides[2 * i], sides[2 * i + 1]
    return before, after


def _finite(value: float | None) -> float:
    """A number that a model file can hold: a pool of maxima drops the smallest like -inf."""
    return min(max(float(value or 0), -FP32_MAX), FP32_MAX)


@lowers("pad.default")
def pad(b: Builder, self: Operand, pad: list[int], mode: str, value: float | None) -> Operand:
    if not any(pad):
        return self
    before, after = _axis_sides(pad, self.dim())
    if mode == "constant":
        return b.emit("pad", self, before=before, after=after, value=_finite(value))
    return b.emit(f"pad_{mode}", self, before=before, after=after)


@lowers("constant_pad_nd.default")
def constant_pad(b: Builder, self: Operand, pad: list[int], value: float) -> Operand:
    before, after = _axis_sides(pad, self.dim())
    return b.emit("pad", self, before=before, after=after, value=_finite(value))


def _register_pad(overload: str, kind: str) -> None:
    @lowers(overload)
    def lower(b: Builder, self: Operand, padding: list[int]) -> Operand:
        before, after = _axis_sides(padding, self.dim())
        return b.emit(kind, self, before=before, after=after)


for _rank in (1, 2, 3):
    _register_pad(f"reflection_pad{_rank}d.default", "pad_reflect")
    _register_pad(f"replication_pad{_rank}d.default", "pad_replicate")


@lowers("roll.default")
def roll(b: Builder, self: Operand, shifts: list[int], dims: list[int]) -> Operand:
    if not dims:
        flat = b.emit("roll", b.reshape(self, (-1,)), axis=0, shift=shifts[0])
        return b.reshape(flat, self.shape)
    for shift, dim in zip(shifts, dims):
        if shift % self.shape[dim]:
            self = b.emit("roll", self, axis=dim % self.dim(), shift=shift)
    return self


@lowers("flip.default")
def flip(b: Builder, self: Operand, dims: list[int]) -> Operand:
    return b.emit("flip", self, axes=sorted(d % self.dim() for d in dims))


@lowers("repeat.default")
def repeat(b: Builder, self: Operand, repeats: list[int]) -> Operand:
    shape = (1,) * (len(repeats) - self.dim()) + tuple(self.shape)
    split_shape = [part for size in shape for part in (1, size)]
    target = [part for times, size in zip(repeats, shape) for part in (times, size)]
    return b.reshape(b.expand(b.reshape(self, split_shape), target), b.result.shape)


@lowers("tile.default")
def tile(b: Builder, self: Operand, dims: list[int]) -> Operand:
    return repeat(b, self, [1] * (self.dim() - len(dims)) + list(dims))


@lowers("repeat_interleave.self_int")
def repeat_interleave(b: Builder, self: Operand, repeats: int, dim: int | None,
                      output_size: Any) -> Operand:
    if dim is None:
        self, dim = b.reshape(self, (-1,)), 0
    axis = dim % self.dim()
    shape = list(self.shape)
    apart = shape[:axis + 1] + [1] + shape[axis + 1:]
    wide = shape[:axis + 1] + [repeats] + shape[axis + 1:]
    return b.reshape(b.expand(b.reshape(self, apart), wide), b.result.shape)


@lowers("pixel_shuffle.default")
def pixel_shuffle(b: Builder, self: Operand, upscale_factor: int) -> Operand:
    r, (n, c, h, w) = upscale_factor, self.shape
    apart = b.reshape(self, (n, c // r ** 2, r, r, h, w))
    return b.reshape(b.permute(apart, (0, 1, 4, 2, 5, 3)), b.result.shape)


@lowers("pixel_unshuffle.default")
def pixel_unshuffle(b: Builder, self: Operand, downscale_factor: int) -> Operand:
    r, (n, c, h, w) = downscale_factor, self.shape
    apart = b.reshape(self, (n, c, h // r, r, w // r, r))
    return b.reshape(b.permute(apart, (0, 1, 3, 5, 2, 4)), b.result.shape)


@lowers("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(b: Builder, self: Operand, groups: int) -> Operand:
    n, c, *spatial = self.shape
    apart = b.reshape(self, (n, groups, c // groups, *spatial))
    return b.reshape(b.swap(apart, 1, 2), self.shape)


def repeats_rows(index: Operand) -> bool:
    """True for a constant whose rows are equal, for example positions of every sample."""
    return (isinstance(index, torch.Tensor) and index.dim() > 1 and len(index) > 1
            and bool((index == index[:1]).all()))


def windows(b: Builder, x: Operand, axis: int, index: torch.Tensor) -> Operand:
    """Exchanges an axis by the axes of `index`, whose elements are picked."""
    if repeats_rows(index):
        once = windows(b, x, axis, index[:1])
        return b.expand(once, (*once.shape[:axis], len(index), *once.shape[axis + 1:]))
    shape = tuple(x.shape[:axis]) + tuple(index.shape) + tuple(x.shape[axis + 1:])
    flat = index.reshape(-1).tolist()
    if flat == list(range(x.shape[axis])):
        return b.reshape(x, shape)
    return b.reshape(b.emit("index_select", x, axis=axis, index=flat), shape)


def _window_index(size: int, kernel: int, stride: int, dilation: int = 1) -> torch.Tensor:
    """[windows, kernel]: the elements of every window of an axis."""
    count = (size - dilation * (kernel - 1) - 1) // stride + 1
    return torch.arange(count)[:, None] * stride + torch.arange(kernel)[None] * dilation


@lowers("unfold.default")
def unfold(b: Builder, self: Operand, dimension: int, size: int, step: int) -> Operand:
    axis = dimension % self.dim()
    taken = windows(b, self, axis, _window_index(self.shape[axis], size, step))
    order = [i for i in range(taken.dim()) if i != axis + 1] + [axis + 1]
    return b.permute(taken, order)


@lowers("im2col.default")
def im2col(b: Builder, self: Operand, kernel_size: list[int], dilation: list[int],
           padding: list[int], stride: list[int]) -> Operand:
    return patches_of(b, self, kernel_size, dilation, padding, stride)


def patches_of(b: Builder, x: Operand, kernel_size: list[int], dilation: list[int],
               padding: list[int], stride: list[int]) -> Operand:
    """What the windows of images [n,c,h,w] see, [n, c * pixels of the window, windows]."""
    padded = pad(b, x, [padding[1], padding[1], padding[0], padding[0]], "constant", 0.0)
    rows = _window_index(padded.shape[2], kernel_size[0], stride[0], dilation[0])
    columns = _window_index(padded.shape[3], kernel_size[1], stride[1], dilation[1])
    taken = windows(b, windows(b, padded, 3, columns), 2, rows)  # [n,c,ho,kh,wo,kw]
    pixels = math.prod(kernel_size)
    return b.reshape(b.permute(taken, (0, 1, 3, 5, 2, 4)), (x.shape[0], x.shape[1] * pixels, -1))


@lowers("col2im.default")
def col2im(b: Builder, self: Operand, output_size: list[int], kernel_size: list[int],
           dilation: list[int], padding: list[int], stride: list[int]) -> Operand:
    return image_of(b, self, output_size, kernel_size, dilation, padding, stride)


def image_of(b: Builder, x: Operand, output_size: list[int], kernel_size: list[int],
             dilation: list[int], padding: list[int], stride: list[int]) -> Operand:
    """The sums of what overlapping windows have, [n, c * pixels of the window, windows]."""
    h, w = (size + 2 * p for size, p in zip(output_size, padding))
    rows = _window_index(h, kernel_size[0], stride[0], dilation[0])
    columns = _window_index(w, kernel_size[1], stride[1], dilation[1])
    target = rows.T[:, None, :, None] * w + columns.T[None, :, None, :]  # [kh,kw,ho,wo]
    n, c = x.shape[0], x.shape[1] // math.prod(kernel_size)
    flat = b.reshape(x, (n, c, target.numel()))
    index = target.reshape(1, 1, -1).expand(n, c, -1)
    summed = b.emit("scatter_add", torch.zeros(n, c, h * w), index, flat, axis=2)
    image = b.reshape(summed, (n, c, h, w))
    inner = b.slice(image, 2, padding[0], h - padding[0])
    return b.slice(inner, 3, padding[1], w - padding[1])


@lowers("index_select.default")
def index_select(b: Builder, self: Operand, dim: int, index: Operand) -> Operand:
    return take(b, self, dim % self.dim(), index)


def take(b: Builder, x: Operand, axis: int, index: Operand) -> Operand:
    """`x` with an axis exchanged by the axes of an integer index, which may be computed."""
    if isinstance(index, torch.Tensor) and not b.is_for_samples(x, axis, index):
        return windows(b, x, axis, index % x.shape[axis])
    if type_of(index) != "i32":
        raise CannotLower("a choice by a computed mask, whose size depends on the data")
    order = [axis] + [i for i in range(x.dim()) if i != axis]
    rows = b.emit("take_rows", b.permute(x, order), index)
    count = index.dim()
    back = list(range(count, count + axis)) + list(range(count)) + list(
        range(count + axis, rows.dim()))
    return b.permute(rows, back)


@lowers("tril.default")
def tril(b: Builder, self: Operand, diagonal: int) -> Operand:
    mask = torch.ones(self.shape[-2:], dtype=torch.bool).tril(diagonal)
    return b.emit("where", mask, self, torch.zeros((), dtype=b.result.dtype))


@lowers("triu.default")
def triu(b: Builder, self: Operand, diagonal: int) -> Operand:
    mask = torch.ones(self.shape[-2:], dtype=torch.bool).triu(diagonal)
    return b.emit("where", mask, self, torch.zeros((), dtype=b.result.dtype))


def _masked_diagonal(b: Builder, x: Operand, offset: int) -> Operand:
    """The diagonal of a matrix as sums over its other elements, which holds for pairs of samples."""
    rows, columns = x.shape
    kept = (torch.arange(rows)[:, None] + offset == torch.arange(columns)).contiguous()
    whole = reduce(b, "sum", b.emit("where", kept, x, torch.zeros((), dtype=b.result.dtype)),
                   [1 if offset >= 0 else 0], False)
    return b.slice(whole, 0, 0, b.result.shape[0])


@lowers("diagonal.default")
def diagonal(b: Builder, self: Operand, offset: int, dim1: int, dim2: int) -> Operand:
    rank = self.dim()
    dim1, dim2 = dim1 % rank, dim2 % rank
    rest = [i for i in range(rank) if i not in (dim1, dim2)]
    moved = b.permute(self, rest + [dim1, dim2])
    rows, columns = moved.shape[-2:]
    if rank == 2 and rows * columns <= DIAGONAL_MAX and (
            isinstance(self, Val) and self.type == "f32"):
        return _masked_diagonal(b, moved, offset)
    index = torch.arange(rows * columns).reshape(rows, columns).diagonal(offset)
    return windows(b, b.reshape(moved, (*moved.shape[:-2], rows * columns)), rank - 2, index)
