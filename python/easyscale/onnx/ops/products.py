"""Products of matrices and convolutions."""
from __future__ import annotations

from ...tracing.lower import products as torch_products
from ...tracing.lower.builder import Operand, Val, type_of
from ...tracing.lower.table import CannotLower
from ...tracing.lower.written_attention import written_attention
from ..builder import OnnxBuilder
from ..table import Call, converts
from .windows import Window, explicit_padding, window


@converts("MatMul")
def matmul(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
    if type_of(x) != "f32":
        raise CannotLower("a product of integers")
    if isinstance(y, Val) and y.dim() == 2 and x.dim() >= 2 and b.is_weight(y):
        return b.emit("linear", x, b.swap(y, 0, 1), None)
    # Exporters write PyTorch's operator out, in which a row that sees nothing is zero.
    return written_attention(b, x, y, all_may_hide=True) or torch_products.matmul(b, x, y)


@converts("Gemm")
def gemm(b: OnnxBuilder, call: Call, x: Operand, y: Operand, c: Operand | None = None) -> Operand:
    """alpha * x y + beta * c."""
    x = b.swap(x, 0, 1) if call.get("transA", 0) else x
    scaled = [name for name in ("alpha", "beta") if call.get(name, 1.0) != 1.0]
    rows = y if call.get("transB", 0) else b.swap(y, 0, 1)
    if isinstance(y, Val) and b.is_weight(y) and not scaled and _is_bias(c, rows):
        return b.emit("linear", x, rows, None if c is None else b.reshape(c, (rows.shape[0],)))
    product = b.scale(torch_products.matmul(b, x, b.swap(rows, 0, 1)), call.get("alpha", 1.0))
    return product if c is None else b.emit("add", product, b.scale(c, call.get("beta", 1.0)))


def _is_bias(c: Operand | None, rows: Operand) -> bool:
    return c is None or (tuple(c.shape) in ((rows.shape[0],), (1, rows.shape[0])))


@converts("Einsum")
def einsum(b: OnnxBuilder, call: Call, *xs: Operand) -> Operand:
    return torch_products.einsum(b, call.get("equation"), list(xs), None)


@converts("Conv")
def conv(b: OnnxBuilder, call: Call, x: Operand, weight: Operand,
         bias: Operand | None = None) -> Operand:
    shape = window(call, x, list(weight.shape[2:]))
    x, padding = explicit_padding(b, x, shape, 0.0)
    return b.emit("conv", x, weight, bias, stride=shape.stride, padding=padding,
                  dilation=shape.dilation, groups=call.get("group", 1))


@converts("ConvTranspose")
def conv_transpose(b: OnnxBuilder, call: Call, x: Operand, weight: Operand,
                   bias: Operand | None = None) -> Operand:
    """Padding that is not the same on both sides is cut off behind."""
    if call.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or call.get("output_shape"):
        raise CannotLower("a transposed convolution whose padding follows from its output")
    shape = window(call, x, list(weight.shape[2:]))
    more = list(call.get("output_padding", [0] * len(shape.kernel)))
    common = [min(pair) for pair in zip(shape.before, shape.after)]
    out = b.emit("conv_transpose", x, weight, bias, stride=shape.stride, padding=common,
                 output_padding=more, dilation=shape.dilation, groups=call.get("group", 1))
    return _cut(b, out, shape, common)


def _cut(b: OnnxBuilder, out: Operand, shape: Window, done: list[int]) -> Operand:
    for axis, (before, after, both) in enumerate(zip(shape.before, shape.after, done), start=2):
        out = b.slice(out, axis, before - both, out.shape[axis] - (after - both))
    return out
