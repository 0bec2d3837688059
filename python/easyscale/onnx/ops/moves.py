"""Operators that move elements and compute nothing."""
from __future__ import annotations

import math

import torch

from ...tracing.lower.builder import Operand
from ...tracing.lower.moves import pieces
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..fuse import whole_group_norm
from ..table import Call, axes_of, converts, numbers


@converts("Identity")
def identity(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return x


def _with_samples(b: OnnxBuilder, x: Operand, shape: list[int]) -> list[int]:
    """The shape with the samples of this program in place of the number that the file has."""
    if shape and shape[0] == b.fixed_samples and x.dim() and x.shape[0] == b.samples:
        return [b.samples, *shape[1:]]
    return shape


@converts("Reshape")
def reshape(b: OnnxBuilder, call: Call, x: Operand, shape: Operand) -> Operand:
    wanted = _with_samples(b, x, numbers(shape, "shape") or [])
    if not call.get("allowzero", 0):
        wanted = [x.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    known = math.prod(size for size in wanted if size != -1)
    total = math.prod(x.shape)
    if (total % known if -1 in wanted else total - known) if known else total:
        raise CannotLower(f"{list(x.shape)} cannot have the shape {wanted}; a file with a fixed "
                          "number of samples may have it in its shapes")
    wanted = [total // known if size == -1 else size for size in wanted]
    return whole_group_norm(b, x, wanted) or b.reshape(x, wanted)


@converts("Flatten")
def flatten(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    axis = call.get("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    return b.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@converts("Squeeze")
def squeeze(b: OnnxBuilder, call: Call, x: Operand, axes: Operand | None = None) -> Operand:
    gone = axes_of(x, call, axes)
    if gone is None:
        gone = [axis for axis, size in enumerate(x.shape) if size == 1]
    return b.reshape(x, [size for axis, size in enumerate(x.shape) if axis not in gone])


@converts("Unsqueeze")
def unsqueeze(b: OnnxBuilder, call: Call, x: Operand, axes: Operand) -> Operand:
    added = numbers(axes, "axes") or []
    rank = x.dim() + len(added)
    places, rest = {axis % rank for axis in added}, iter(x.shape)
    return b.reshape(x, [1 if axis in places else next(rest) for axis in range(rank)])


@converts("Transpose")
def transpose(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return b.permute(x, call.get("perm", list(reversed(range(x.dim())))))


@converts("Concat")
def concat(b: OnnxBuilder, call: Call, *xs: Operand) -> Operand:
    axis = call.get("axis") % xs[0].dim()
    return b.concat(_of_all_samples(b, xs) if axis else list(xs), axis)


def _of_all_samples(b: OnnxBuilder, xs: tuple[Operand, ...]) -> list[Operand]:
    """What a file for one sample has once, a class token, is the same for every sample."""
    if b.fixed_samples != 1 or all(x.shape[0] == 1 for x in xs):
        return list(xs)
    return [b.expand(x, (b.samples, *x.shape[1:])) for x in xs]


@converts("Split")
def split(b: OnnxBuilder, call: Call, x: Operand, sizes: Operand | None = None) -> list[Operand]:
    axis = call.get("axis", 0) % x.dim()
    given = numbers(sizes, "sizes")
    if given is None:
        count = call.get("num_outputs", call.outputs)
        size, total = -(-x.shape[axis] // count), x.shape[axis]
        given = [min(size, total - i * size) for i in range(count)]
    return pieces(b, x, axis, given)


@converts("Slice")
def slice_(b: OnnxBuilder, call: Call, x: Operand, starts: Operand, ends: Operand,
           axes: Operand | None = None, steps: Operand | None = None) -> Operand:
    begin, end = numbers(starts, "starts") or [], numbers(ends, "ends") or []
    over = numbers(axes, "axes") or list(range(len(begin)))
    step = numbers(steps, "steps") or [1] * len(begin)
    for axis, window in zip(over, map(slice, begin, end, step)):
        x = _window(b, x, axis % x.dim(), window)
    return x


def _window(b: OnnxBuilder, x: Operand, axis: int, window: slice) -> Operand:
    taken = range(x.shape[axis])[window]
    if not taken:
        raise CannotLower("a slice without elements")
    if taken.step > 0:
        return b.slice(x, axis, taken.start, min(taken.stop, x.shape[axis]), taken.step)
    forward = b.slice(x, axis, taken[-1], taken[0] + 1, -taken.step)
    return b.emit("flip", forward, axes=[axis])


PAD_KINDS = {"reflect": "pad_reflect", "edge": "pad_replicate", "wrap": "pad_circular"}


@converts("Pad")
def pad(b: OnnxBuilder, call: Call, x: Operand, pads: Operand, value: Operand | None = None,
        axes: Operand | None = None) -> Operand:
    sides = numbers(pads, "pads") or []
    over = numbers(axes, "axes") or list(range(x.dim()))
    before, after = [0] * x.dim(), [0] * x.dim()
    for i, axis in enumerate(over):
        before[axis], after[axis] = sides[i], sides[i + len(over)]
    mode = call.get("mode", "constant")
    if not any(sides):
        return x
    if mode == "constant":
        number = (numbers(value, "value") or [0.0])[0]
        return b.emit("pad", x, before=before, after=after, value=float(number))
    if min(sides) < 0:
        raise CannotLower(f"a negative padding of the mode {mode}")
    return b.emit(PAD_KINDS[mode], x, before=before, after=after)


@converts("Expand")
def expand(b: OnnxBuilder, call: Call, x: Operand, shape: Operand) -> Operand:
    wanted = _with_samples(b, x, numbers(shape, "shape") or [])
    return b.expand(x, torch.broadcast_shapes(tuple(x.shape), tuple(wanted)))


@converts("Tile")
def tile(b: OnnxBuilder, call: Call, x: Operand, repeats: Operand) -> Operand:
    times = numbers(repeats, "repeats") or []
    apart = [part for size in x.shape for part in (1, size)]
    wide = [part for count, size in zip(times, x.shape) for part in (count, size)]
    shape = [count * size for count, size in zip(times, x.shape)]
    return b.reshape(b.expand(b.reshape(x, apart), wide), shape)


@converts("DepthToSpace")
def depth_to_space(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    r, (n, c, h, w) = call.get("blocksize"), x.shape
    rest = c // r ** 2
    if call.get("mode", "DCR") == "DCR":
        apart = b.permute(b.reshape(x, (n, r, r, rest, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        apart = b.permute(b.reshape(x, (n, rest, r, r, h, w)), (0, 1, 4, 2, 5, 3))
    return b.reshape(apart, (n, rest, h * r, w * r))


@converts("SpaceToDepth")
def space_to_depth(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    r, (n, c, h, w) = call.get("blocksize"), x.shape
    apart = b.permute(b.reshape(x, (n, c, h // r, r, w // r, r)), (0, 3, 5, 1, 2, 4))
    return b.reshape(apart, (n, c * r ** 2, h // r, w // r))
