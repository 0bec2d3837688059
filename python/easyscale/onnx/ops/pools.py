"""Pooling and resizing."""
from __future__ import annotations

import math

from ...tracing.lower.builder import Operand
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..table import Call, converts, numbers
from .windows import explicit_padding, window


@converts("MaxPool")
def max_pool(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    shape = window(call, x, list(call.get("kernel_shape")))
    if any(2 * pad > size for pad, size in zip(shape.before, shape.kernel)):
        raise CannotLower("a padding of more than half of the kernel")
    x, padding = explicit_padding(b, x, shape, -math.inf)
    return b.emit("max_pool", x, kernel=shape.kernel, stride=shape.stride, padding=padding,
                  dilation=shape.dilation, ceil=bool(call.get("ceil_mode", 0)))


@converts("AveragePool")
def average_pool(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    shape = window(call, x, list(call.get("kernel_shape")))
    if any(step != 1 for step in shape.dilation):
        raise CannotLower("an average pool with dilations")
    counted = bool(call.get("count_include_pad", 0))
    if shape.before != shape.after and not counted:
        raise CannotLower("an average pool whose padding is not the same on both sides")
    x, padding = explicit_padding(b, x, shape, 0.0)
    return b.emit("avg_pool", x, kernel=shape.kernel, stride=shape.stride, padding=padding,
                  ceil=bool(call.get("ceil_mode", 0)), count_include_pad=counted)


def _register_global(name: str, kind: str) -> None:
    @converts(name)
    def convert(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
        return b.emit(kind, x, size=[1] * (x.dim() - 2))


for _name, _kind in (("GlobalAveragePool", "adaptive_avg_pool"),
                     ("GlobalMaxPool", "adaptive_max_pool")):
    _register_global(_name, _kind)


@converts("Resize")
def resize(b: OnnxBuilder, call: Call, x: Operand, roi: Operand | None = None,
           scales: Operand | None = None, sizes: Operand | None = None) -> Operand:
    if call.get("axes") or call.get("antialias", 0) or call.get("exclude_outside", 0):
        raise CannotLower("a resize with axes, antialias or exclude_outside")
    if call.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise CannotLower("a resize that keeps the ratio of the sizes")
    size = _size(x, numbers(scales, "scales"), numbers(sizes, "sizes"))
    if size == list(x.shape[2:]):
        return x
    mode = call.get("mode", "nearest")
    rule = call.get("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest":
        _check_nearest(call, x, size, rule)
    elif rule == "align_corners" or (rule == "half_pixel" or (
            rule == "pytorch_half_pixel" and 1 not in size)):
        _check_smooth(call, x, mode)
    else:
        raise CannotLower(f"a resize with the coordinates {rule}")
    return b.emit("resize", x, size=size, mode=mode, align_corners=rule == "align_corners")


def _size(x: Operand, scales: list | None, sizes: list | None) -> list[int]:
    """The new spatial sizes, whose ratio to the old ones must be the scale."""
    if x.dim() < 3:
        raise CannotLower("a resize of other than [n,c,spatial...]")
    if sizes is not None:
        wanted = [int(size) for size in sizes]
    else:
        wanted = [math.floor(size * scale) for size, scale in zip(x.shape, scales or [])]
        if any(not math.isclose(old * scale, new, rel_tol=1e-6)
               for old, scale, new in zip(x.shape, scales or [], wanted)):
            raise CannotLower("a resize whose scale is not the ratio of the sizes")
    if wanted[:2] != list(x.shape[:2]) or len(wanted) != x.dim():
        raise CannotLower("a resize of samples or channels")
    return wanted[2:]


def _check_nearest(call: Call, x: Operand, size: list[int], rule: str) -> None:
    """The kind takes element floor(i * old / new)."""
    floors = rule == "asymmetric" and call.get("nearest_mode", "round_prefer_floor") == "floor"
    whole = all(new % old == 0 for old, new in zip(x.shape[2:], size))
    rounds = rule in ("half_pixel", "pytorch_half_pixel") and whole
    if not floors and not rounds:
        raise CannotLower(f"a nearest resize with the coordinates {rule}, which rounds")


def _check_smooth(call: Call, x: Operand, mode: str) -> None:
    if mode == "cubic" and (x.dim() != 4 or call.get("cubic_coeff_a", -0.75) != -0.75):
        raise CannotLower("a cubic resize of other than images, or with another coefficient")
