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
        if divisor_override:
            raise CannotLower("an average pool with its own divisor")
        kernel = _each(kernel_size, rank)
        return _with_samples(b, self, rank, lambda x: b.emit(
            "avg_pool", x, kernel=kernel, stride=_each(stride or kernel, rank),
            padding=_each(padding, rank), ceil=ceil_mode, count_include_pad=count_include_pad))


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


def _resize(b: Builder, x: Operand, mode: str, align: bool) -> Operand:
    size = list(b.result.shape[2:])
    if tuple(size) == tuple(x.shape[2:]):
        return x
    if mode == "cubic" and x.dim() != 4:
        raise CannotLower("a cubic resize of other than images")
    return b.emit("resize", x, size=size, mode=mode, align_corners=align)


def _check_scales(x: Operand, b: Builder, scales: Any) -> None:
    """The engine derives the scale from the sizes; another given scale would change the result."""
    for before, after, scale in zip(x.shape[2:], b.result.shape[2:], scales or []):
        if scale is not None and not math.isclose(before * scale, after):
            raise CannotLower("a resize whose scale factor is not the ratio of the sizes")


def _register_nearest(overload: str) -> None:
    @lowers(overload)
    def lower(b: Builder, scale_factors: Any = None, scales: Any = None, scales_h: Any = None,
              scales_w: Any = None, **args: Any) -> Operand:
        x = args.get("input", args.get("self"))
        _check_scales(x, b, scale_factors)
        return _resize(b, x, "nearest", False)


def _register_smooth(overload: str, mode: str) -> None:
    @lowers(overload)
    def lower(b: Builder, align_corners: bool, scale_factors: Any = None, **args: Any) -> Operand:
        x = args.get("input", args.get("self"))
        _check_scales(x, b, scale_factors)
        return _resize(b, x, mode, align_corners)


for _rank in (1, 2, 3):
    _register_nearest(f"upsample_nearest{_rank}d.vec")
    _register_nearest(f"upsample_nearest{_rank}d.default")
for _name, _mode in (("linear1d", "linear"), ("bilinear2d", "linear"), ("trilinear3d", "linear"),
                     ("bicubic2d", "cubic")):
    _register_smooth(f"upsample_{_name}.vec", _mode)
    _register_smooth(f"upsample_{_name}.default", _mode)


def _resize_matrix(before: int, after: int, mode: str, align: bool) -> torch.Tensor:
    """[after, before]: what an antialiased resize of one axis multiplies with."""
    # Two columns, because torch resizes images of one column along a wrong axis.
    unit = torch.eye(before).reshape(1, before, before, 1).repeat(1, 1, 1, 2)
    wide = F.interpolate(unit, (after, 2), mode=mode, align_corners=align, antialias=True)
    return wide[0, :, :, 0].T


def _register_antialiased(name: str, mode: str) -> None:
    @lowers(f"_upsample_{name}2d_aa.vec", f"_upsample_{name}2d_aa.default")
    def lower(b: Builder, align_corners: bool, scale_factors: Any = None, **args: Any) -> Operand:
        x = args.get("input", args.get("self"))
        _check_scales(x, b, scale_factors)
        (h, w), (ho, wo) = x.shape[2:], b.result.shape[2:]
        rows = b.emit("matmul", _resize_matrix(h, ho, mode, align_corners), x)
        return b.emit("matmul", rows, _resize_matrix(w, wo, mode, align_corners).T)


_register_antialiased("bilinear", "bilinear")
_register_antialiased("bicubic", "bicubic")
