"""Kernels, strides and padding of convolutions and pools."""
from __future__ import annotations

from dataclasses import dataclass

from ...tracing.lower.builder import Operand
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..table import Call


@dataclass
class Window:
    """The attributes that convolutions and pools share, with one number for each spatial axis."""

    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    before: list[int]
    after: list[int]


def window(call: Call, x: Operand, kernel: list[int]) -> Window:
    """The window of an operator on x [n,c,spatial...]."""
    rank = len(kernel)
    if not 1 <= rank <= 3 or x.dim() != rank + 2:
        raise CannotLower(f"{rank} spatial axes; allowed are 1 to 3")
    shape = Window(kernel, list(call.get("strides", [1] * rank)),
                   list(call.get("dilations", [1] * rank)), [0] * rank, [0] * rank)
    _set_padding(shape, call, list(x.shape[2:]))
    return shape


def _set_padding(shape: Window, call: Call, sizes: list[int]) -> None:
    mode, rank = call.get("auto_pad", "NOTSET"), len(sizes)
    if mode == "NOTSET":
        pads = list(call.get("pads", [0] * (2 * rank)))
        shape.before, shape.after = pads[:rank], pads[rank:]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        for axis, size in enumerate(sizes):
            total = _same_padding(shape, axis, size)
            small, large = total // 2, total - total // 2
            pair = (small, large) if mode == "SAME_UPPER" else (large, small)
            shape.before[axis], shape.after[axis] = pair


def _same_padding(shape: Window, axis: int, size: int) -> int:
    """The padding with which the output has ceil(size / stride) elements."""
    stride = shape.stride[axis]
    reach = shape.dilation[axis] * (shape.kernel[axis] - 1) + 1
    return max((-(-size // stride) - 1) * stride + reach - size, 0)


def explicit_padding(b: OnnxBuilder, x: Operand, shape: Window,
                     value: float) -> tuple[Operand, list[int]]:
    """`x` and the padding of both sides; another padding becomes a node that pads."""
    if shape.before == shape.after:
        return x, shape.before
    padded = b.emit("pad", x, before=[0, 0, *shape.before], after=[0, 0, *shape.after], value=value)
    return padded, [0] * len(shape.before)
