"""The reference implementation of ONNX, with a max pool of its own.

That of the package is slow, and wrong for padding that is uneven or meets ceil_mode.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .package import OpRun, ReferenceEvaluator


class MaxPool(OpRun):
    """The maxima of windows, as numpy sees them; the names of arguments are those of ONNX."""

    op_domain = ""

    def _run(self, x: np.ndarray, auto_pad: str | None = None, ceil_mode: int | None = None,
             dilations: Any = None, kernel_shape: Any = None, pads: Any = None,
             storage_order: int | None = None, strides: Any = None) -> tuple[np.ndarray]:
        for axis, kernel in enumerate(kernel_shape):
            stride = strides[axis] if strides is not None else 1
            dilation = dilations[axis] if dilations is not None else 1
            sides = (0, 0) if pads is None else (pads[axis], pads[axis + len(kernel_shape)])
            window = _Window(kernel, stride, dilation, bool(ceil_mode))
            x = window.maxima(x, axis + 2, window.sides(x.shape[axis + 2], auto_pad, sides))
        return (x,)


class _Window:
    """The window of one axis: the maximum over several axes is that of one after the other."""

    def __init__(self, kernel: int, stride: int, dilation: int, ceil: bool):
        self.stride, self.dilation, self.ceil = stride, dilation, ceil
        self.reach = dilation * (kernel - 1) + 1

    def sides(self, size: int, mode: str | None, given: tuple[int, int]) -> tuple[int, int]:
        """The padding before and after an axis."""
        if mode not in ("SAME_UPPER", "SAME_LOWER"):
            return given
        total = max((math.ceil(size / self.stride) - 1) * self.stride + self.reach - size, 0)
        pair = (total // 2, total - total // 2)
        return pair if mode == "SAME_UPPER" else pair[::-1]

    def maxima(self, x: np.ndarray, axis: int, sides: tuple[int, int]) -> np.ndarray:
        """`x` with the maximum of every window of an axis, which must begin before its end."""
        size = x.shape[axis] + sum(sides)
        steps = (size - self.reach) / self.stride
        count = (math.ceil(steps) if self.ceil else math.floor(steps)) + 1
        count -= (count - 1) * self.stride >= x.shape[axis] + sides[0]
        missing = max((count - 1) * self.stride + self.reach - size, 0)
        padding = [(0, 0)] * x.ndim
        padding[axis] = (sides[0], sides[1] + missing)
        padded = np.pad(x, padding, constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.reach, axis)
        windows = windows[..., ::self.dilation].max(-1)
        return np.take(windows, np.arange(count) * self.stride, axis)


def evaluate(proto: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model."""
    return ReferenceEvaluator(proto, new_ops=[MaxPool]).run(None, inputs)
