"""Operators that work element by element, with broadcasting."""
from __future__ import annotations

import math
from functools import reduce
from typing import Any

import torch

from ...tracing.lower import elementwise as torch_elementwise
from ...tracing.lower.builder import Operand, type_of
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..file import decimal
from ..fuse import fused_product, fused_quotient, fused_sum
from ..table import Call, converts, numbers
from ..torch_calls import call_torch

SAME_KIND = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "HardSwish": "hardswish",
             "Mish": "mish", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Sin": "sin",
             "Cos": "cos", "Erf": "erf", "Abs": "abs", "Neg": "neg", "Floor": "floor",
             "Round": "round", "Sign": "sign"}
COMPARISONS = {"Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt",
               "GreaterOrEqual": "ge"}


def _register_unary(name: str, kind: str) -> None:
    @converts(name)
    def convert(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
        return b.emit(kind, x)


for _name, _kind in SAME_KIND.items():
    _register_unary(_name, _kind)


def _register_as_torch(name: str, lowering: str) -> None:
    """`lowering` is the name of a function of tracing/lower/elementwise.py."""
    @converts(name)
    def convert(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
        return getattr(torch_elementwise, lowering)(b, x)


for _name in ("Ceil", "Tan", "Softsign", "IsNaN"):
    _register_as_torch(_name, _name.lower())


@converts("Softplus")
def softplus(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return b.emit("softplus", x, beta=1.0)


@converts("Gelu")
def gelu(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return b.emit("gelu", x, approximate=call.get("approximate", "none"))


@converts("Elu")
def elu(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return b.emit("elu", x, alpha=call.get("alpha", 1.0))


@converts("Celu")
def celu(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return torch_elementwise.celu(b, x, call.get("alpha", 1.0))


@converts("Selu")
def selu(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    inner = b.emit("elu", x, alpha=call.get("alpha", 1.6732632))
    return b.scale(inner, call.get("gamma", 1.050701))


@converts("LeakyRelu")
def leaky_relu(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return b.emit("leaky_relu", x, slope=call.get("alpha", 0.01))


@converts("ThresholdedRelu")
def thresholded_relu(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return torch_elementwise.threshold(b, x, call.get("alpha", 1.0), 0.0)


@converts("PRelu")
def prelu(b: OnnxBuilder, call: Call, x: Operand, slope: Operand) -> Operand:
    above = b.emit("gt", x, torch.tensor(0.0))
    return b.emit("where", above, x, b.emit("mul", x, slope))


@converts("HardSigmoid")
def hard_sigmoid(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    alpha, beta = call.get("alpha", 0.2), call.get("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return b.emit("hardsigmoid", x)
    return b.emit("clamp", b.shift(b.scale(x, alpha), beta), min=0.0, max=1.0)


@converts("Clip")
def clip(b: OnnxBuilder, call: Call, x: Operand, low: Operand | None = None,
         high: Operand | None = None) -> Operand:
    return torch_elementwise.clamp_tensor(b, x, _scalar(low), _scalar(high))


def _scalar(x: Operand | None) -> Operand | None:
    """A bound without axes, as it has to be."""
    return x.reshape(()) if isinstance(x, torch.Tensor) else x


def single(x: Operand, other: Operand) -> float | None:
    """The number that a constant with one element is, if it leaves the extents of `other`."""
    if isinstance(x, torch.Tensor) and x.numel() == 1 and x.dim() <= other.dim():
        return decimal(float(x)) if x.dtype == torch.float32 else float(x)
    return None


@converts("Pow")
def power(b: OnnxBuilder, call: Call, x: Operand, exponent: Operand) -> Operand:
    if type_of(x) != "f32":
        raise CannotLower("a power of integers")
    number = single(exponent, x)
    if number is not None:
        return torch_elementwise.real_power(b, x, number)
    return b.emit("pow", x, b.cast(exponent, "f32"))


@converts("Reciprocal")
def reciprocal(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    root = b.made(x, "sqrt")
    return b.emit("rsqrt", b.read(root, 0)) if root else b.emit("reciprocal", x)


@converts("Add")
def add(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
    if type_of(x) == "i32":
        return b.emit("add", x, y)
    for value, other in ((x, y), (y, x)):
        term = single(other, value)
        if term is not None:
            return b.shift(value, term)
    return fused_sum(b, x, y) or b.emit("add", x, y)


@converts("Sub")
def sub(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
    term = single(y, x)
    return b.shift(x, -term) if term is not None and type_of(x) == "f32" else b.emit("sub", x, y)


@converts("Mul")
def mul(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
    if type_of(x) == "i32":
        return b.emit("mul", x, y)
    fused = fused_product(b, x, y)
    if fused is not None:
        return fused
    for value, other in ((x, y), (y, x)):
        factor = single(other, value)
        if factor is not None:
            return b.scale(value, factor)
    return b.emit("mul", x, y)


@converts("Div")
def div(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
    if type_of(x) != "f32":
        raise CannotLower("a division of integers")
    if isinstance(x, torch.Tensor) and single(x, y) == 1:
        return reciprocal(b, call, y)
    return fused_quotient(b, x, y) or b.emit("div", x, y)


def _register_variadic(name: str, kind: str) -> None:
    @converts(name)
    def convert(b: OnnxBuilder, call: Call, *xs: Operand) -> Operand:
        return reduce(lambda x, y: b.emit(kind, x, y), xs)


for _name, _kind in (("Max", "maximum"), ("Min", "minimum"), ("Sum", "add")):
    _register_variadic(_name, _kind)


@converts("Mean")
def mean(b: OnnxBuilder, call: Call, *xs: Operand) -> Operand:
    return b.scale(reduce(lambda x, y: b.emit("add", x, y), xs), 1 / len(xs))


def _register_comparison(name: str, kind: str) -> None:
    @converts(name)
    def convert(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
        to = "f32" if type_of(x) == "f32" else "i32"
        return b.emit(kind, b.cast(x, to), b.cast(y, to))


for _name, _kind in COMPARISONS.items():
    _register_comparison(_name, _kind)


@converts("And")
def and_(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
    return b.emit("and", x, y)


@converts("Or")
def or_(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
    return b.emit("or", x, y)


@converts("Xor")
def xor(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
    return b.emit("ne", b.cast(x, "i32"), b.cast(y, "i32"))


@converts("Not")
def not_(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    return b.emit("not", x)


@converts("Where")
def where(b: OnnxBuilder, call: Call, condition: Operand, x: Operand, y: Operand) -> Operand:
    return b.emit("where", condition, x, y)


# The numbers of onnx.TensorProto.DataType that have a type in the file.
ELEMENT_TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool}


@converts("Cast")
def cast(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
    to = ELEMENT_TYPES.get(call.get("to"))
    if to is None:
        raise CannotLower(f"a conversion to the type number {call.get('to')}")
    # As in torch: a real number that has no such integer ends the step.
    return call_torch(b, "aten.to.dtype", self=x, dtype=to, non_blocking=False, copy=False,
                      memory_format=None)[0]


@converts("CastLike")
def cast_like(b: OnnxBuilder, call: Call, x: Operand, like: Operand) -> Operand:
    return b.cast(x, type_of(like))


@converts("Dropout")
def dropout(b: OnnxBuilder, call: Call, x: Operand, ratio: Operand | None = None,
            training: Any = None) -> Operand:
    """Drops in training, whatever the file says about its mode."""
    p = decimal((numbers(ratio, "ratio") or [0.5])[0])
    if p == 0 or isinstance(x, torch.Tensor):
        return x
    return b.emit("dropout", x, p=p, site=b.new_site())


def _register_of_torch(name: str) -> None:
    @converts(name)
    def convert(b: OnnxBuilder, call: Call, x: Operand) -> Operand:
        return call_torch(b, f"aten.{name.lower()}.default", self=x)[0]


for _name in ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh"):
    _register_of_torch(_name)


@converts("Mod")
def mod(b: OnnxBuilder, call: Call, x: Operand, y: Operand) -> Operand:
    target = "aten.fmod.Tensor" if call.get("fmod", 0) else "aten.remainder.Tensor"
    return call_torch(b, target, self=x, other=y)[0]
