"""Pooling and resizing of images and sequences."""
from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from .builder import Builder, Operand
from .table import CannotLower, lowers


def _each(value: list[int], rank: int) -> list[int]:
    return list(value) * rank if len(value) == 1 else list(value)


def _with_samples(b: Builder, x: Operand, rank: int, pool: Any) -> Operand:
    """Pools [n,c,spatial...]; an input without samples gets one."""
    if x.dim() == rank + 2:
        return pool(x)
    return b.reshape(pool(b.reshape(x, (1, *x.shape))), b.result.shape)


def _register_max_pool(rank: int) -> None:
    @lowers(f"max_pool{rank}d.default")
    def lower(b: Builder, self: Operand, kernel_size: list[int], stride: list[int],
              padding: list[int], dilation: list[int], ceil_mode: bool) -> Operand:
        kernel = _each(kernel_size, rank)
        return _with_samples(b, self, rank, lambda x: b.emit(
            "max_pool", x, kernel=kernel, stride=_each(stride or kernel, rank),
            padding=_each(padding, rank), dilation=_each(dilation, rank), ceil=ceil_mode))


def _register_avg_pool(rank: int) -> None:
    @lowers(f"avg_pool{rank}d.default")
    def lower(b: Builder, self: Operand, kernel_size: list[int], stride: list[int],
              padding: list[int], ceil_mode: bool, count_include_pad: bool,
              divisor_override: int | None = None) -> Operand:
        kernel = _each(kernel_size, rank)
        steps, pads = _each(stride or kernel, rank), _each(padding, rank)
        mean = _with_samples(b, self, rank, lambda x: b.emit(
            "avg_pool", x, kernel=kernel, stride=steps, padding=pads, ceil=ceil_mode,
            count_include_pad=count_include_pad or divisor_override is not None))
        if divisor_override is None:
            return mean
        counts = torch.tensor(1.0)  # of the elements of every window, with the padding
        for axis in range(-rank, 0):
            starts = torch.arange(b.result.shape[axis]) * steps[axis] - pads[axis]
            ends = torch.clamp(starts + kernel[axis], max=self.shape[axis] + pads[axis])
            counts = counts[..., None] * (ends - starts).float()
        return b.emit("mul", mean, counts / divisor_override)


def _register_adaptive(rank: int) -> None:
    @lowers(f"adaptive_avg_pool{rank}d.default")
    def average(b: Builder, self: Operand, output_size: list[int]) -> Operand:
        return _with_samples(b, self, rank, lambda x: b.emit(
            "adaptive_avg_pool", x, size=_each(output_size, rank)))

    @lowers(f"adaptive_max_pool{rank}d.default")
    def largest(b: Builder, self: Operand, output_size: list[int]) -> list[Any]:
        return [_with_samples(b, self, rank, lambda x: b.emit(
            "adaptive_max_pool", x, size=_each(output_size, rank))), None]


for _rank in (1, 2, 3):
    _register_max_pool(_rank)
    _register_avg_pool(_rank)
    _register_adaptive(_rank)


# How torch names the modes for images; all work on one axis after the other.
IMAGE_MODE = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}


def _resize(b: Builder, x: Operand, mode: str, align: bool, scales: list) -> Operand:
    size = list(b.result.shape[2:])
    if not align and not _are_ratios(x, size, scales):
        return _resize_by_matrices(b, x, scales, IMAGE_MODE[mode], align, False)
    if tuple(size) == tuple(x.shape[2:]):
        return x
    if mode == "cubic" and x.dim() != 4:
        raise CannotLower("a cubic resize of other than images")
    return b.emit("resize", x, size=size, mode=mode, align_corners=align)


def _are_ratios(x: Operand, size: list[int], scales: list) -> bool:
    """Whether all scale factors are those of the sizes, from which the engine derives them."""
    return all(scale is None or math.isclose(before * scale, after)
               for before, after, scale in zip(x.shape[2:], size, scales))


def _resize_by_matrices(b: Builder, x: Operand, scales: list, mode: str, align: bool,
                        antialias: bool) -> Operand:
    """One axis after the other as a product with a constant matrix."""
    for axis, after in enumerate(b.result.shape[2:], 2):
        scale = scales[axis - 2] if scales else None
        matrix = _resize_matrix(x.shape[axis], after, scale, mode, align, antialias)
        last = b.emit("matmul", b.swap(x, axis, x.dim() - 1), matrix.T)
        x = b.swap(last, axis, x.dim() - 1)
    return x


def _resize_matrix(before: int, after: int, scale: float | None, mode: str, align: bool,
                   antialias: bool) -> torch.Tensor:
    """[after, before]: what a resize of one axis multiplies with."""
    # Two columns, because torch resizes images of one column along a wrong axis.
    unit = torch.eye(before).reshape(1, before, before, 1).repeat(1, 1, 1, 2)
    size = {"size": (after, 2)} if scale is None else {"scale_factor": (scale, 1.0)}
    corners = None if mode == "nearest" else align
    wide = F.interpolate(unit, mode=mode, align_corners=corners, antialias=antialias, **size)
    return wide[0, :, :, 0].T


def _scales_of(options: dict[str, Any]) -> list:
    """The scale factors of the axes, under any of their names; no list if there are none."""
    found = options.get("scale_factors") or [
        options[name] for name in ("scales_d", "scales_h", "scales", "scales_w") if name in options]
    return found if any(scale is not None for scale in found) else []


def _register_resize(overload: str, mode: str) -> None:
    @lowers(overload)
    def lower(b: Builder, align_corners: bool = False, **options: Any) -> Operand:
        x = options.get("input", options.get("self"))
        return _resize(b, x, mode, align_corners, _scales_of(options))


for _name, _mode in (("nearest1d", "nearest"), ("nearest2d", "nearest"), ("nearest3d", "nearest"),
                     ("linear1d", "linear"), ("bilinear2d", "linear"), ("trilinear3d", "linear"),
                     ("bicubic2d", "cubic")):
    _register_resize(f"upsample_{_name}.vec", _mode)
    _register_resize(f"upsample_{_name}.default", _mode)


def _register_antialiased(mode: str) -> None:
    @lowers(f"_upsample_{mode}2d_aa.vec", f"_upsample_{mode}2d_aa.default")
    def lower(b: Builder, align_corners: bool, **options: Any) -> Operand:
        x = options.get("input", options.get("self"))
        return _resize_by_matrices(b, x, _scales_of(options), mode, align_corners, True)


_register_antialiased("bilinear")
_register_antialiased("bicubic")
