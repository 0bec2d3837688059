"""Operators that work element by element, with broadcasting."""
from __future__ import annotations

import math
from typing import Any

import torch

from ..ties import TIES_ARE_SHARED
from . import integers
from .builder import CONSTANT_TYPES, TYPES, Builder, Operand, Val, number, type_of
from .table import CannotLower, lowers

SAME_NAME = ["relu", "tanh", "sigmoid", "silu", "hardswish", "hardsigmoid", "mish", "exp", "log",
             "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "erf", "abs", "neg",
             "square", "floor", "round", "sign"]
BINARY = {"add": "add", "sub": "sub", "mul": "mul", "maximum": "maximum", "minimum": "minimum"}
COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]
LOGICAL = {"logical_and.default": "and", "logical_or.default": "or"}


def _register_unary(name: str) -> None:
    @lowers(f"{name}.default")
    def lower(b: Builder, self: Operand) -> Operand:
        of_integers = type_of(self) == "i32" and not b.result.dtype.is_floating_point
        result = integers.unary(b, name, self) if of_integers else None
        return b.emit(name, b.cast(self, "f32")) if result is None else result


for _name in SAME_NAME:
    _register_unary(_name)


@lowers("leaky_relu.default")
def leaky_relu(b: Builder, self: Operand, negative_slope: float) -> Operand:
    return b.emit("leaky_relu", self, slope=float(negative_slope))


@lowers("gelu.default")
def gelu(b: Builder, self: Operand, approximate: str) -> Operand:
    return b.emit("gelu", self, approximate=approximate)


@lowers("elu.default")
def elu(b: Builder, self: Operand, alpha: float, scale: float, input_scale: float) -> Operand:
    if input_scale != 1:
        raise CannotLower("elu with an input scale")
    return b.scale(b.emit("elu", self, alpha=float(alpha)), scale)


@lowers("celu.default")
def celu(b: Builder, self: Operand, alpha: float) -> Operand:
    return b.scale(b.emit("elu", b.scale(self, 1 / alpha), alpha=1.0), alpha)


@lowers("selu.default")
def selu(b: Builder, self: Operand) -> Operand:
    return b.scale(b.emit("elu", self, alpha=1.6732632423543772), 1.0507009873554805)


@lowers("softplus.default")
def softplus(b: Builder, self: Operand, beta: float, threshold: float) -> Operand:
    smooth = b.emit("softplus", self, beta=float(beta))
    if threshold >= SOFTPLUS_THRESHOLD:  # above it both are equal in fp32
        return smooth
    is_above = b.emit("gt", b.scale(self, float(beta)), b.operand(float(threshold), "f32"))
    return b.emit("where", is_above, self, smooth)


@lowers("log_sigmoid.default")
def log_sigmoid(b: Builder, self: Operand) -> Operand:
    return b.emit("neg", b.emit("softplus", b.emit("neg", self), beta=1.0))


@lowers("prelu.default")
def prelu(b: Builder, self: Operand, weight: Operand) -> Operand:
    shape = [1] * self.dim()
    if math.prod(weight.shape) > 1:
        shape[1] = math.prod(weight.shape)
    negative = b.emit("mul", self, b.reshape(weight, shape))
    return b.emit("where", b.emit("gt", self, torch.tensor(0.0)), self, negative)


@lowers("threshold.default")
def threshold(b: Builder, self: Operand, threshold: float, value: float) -> Operand:
    above = b.emit("gt", self, torch.tensor(float(threshold)))
    return b.emit("where", above, self, torch.tensor(float(value)))


@lowers("glu.default")
def glu(b: Builder, self: Operand, dim: int) -> Operand:
    axis, half = dim % self.dim(), self.shape[dim] // 2
    gate = b.emit("sigmoid", b.slice(self, axis, half, 2 * half))
    return b.emit("mul", b.slice(self, axis, 0, half), gate)


@lowers("softsign.default")
def softsign(b: Builder, self: Operand) -> Operand:
    return b.emit("div", self, b.shift(b.emit("abs", self), 1))


@lowers("ceil.default")
def ceil(b: Builder, self: Operand) -> Operand:
    return b.emit("neg", b.emit("floor", b.emit("neg", self)))


@lowers("tan.default")
def tan(b: Builder, self: Operand) -> Operand:
    return b.emit("div", b.emit("sin", self), b.emit("cos", self))


@lowers("hardtanh.default")
def hardtanh(b: Builder, self: Operand, min_val: float, max_val: float) -> Operand:
    return _flat_at_limits(b, self, *_finite_bounds(min_val, max_val))


def _finite_bounds(min: Any, max: Any) -> tuple[Any, Any]:
    """An infinite bound bounds nothing, and a model file has finite numbers only."""
    return None if min == -math.inf else min, None if max == math.inf else max


def _flat_at_limits(b: Builder, x: Operand, min: float | None, max: float | None) -> Operand:
    """A clamp whose slope at its limits is 0; that of a clamp of older versions of torch is 1."""
    above = x
    if min is not None:
        low = torch.tensor(float(min))
        above = b.emit("relu", x) if min == 0 else b.emit("where", b.emit("gt", x, low), x, low)
    if max is None:
        return above
    high = torch.tensor(float(max))
    return b.emit("where", b.emit("lt", x, high), above, high)


@lowers("relu6.default")
def relu6(b: Builder, self: Operand) -> Operand:
    return hardtanh(b, self, 0.0, 6.0)


@lowers("clamp.default", "clip.default")
def clamp(b: Builder, self: Operand, min: Any, max: Any) -> Operand:
    min, max = _finite_bounds(min, max)
    if type_of(self) == "i32":
        lower = self if min is None else b.emit("maximum", self, torch.tensor(int(min)))
        return lower if max is None else b.emit("minimum", lower, torch.tensor(int(max)))
    if TIES_ARE_SHARED:
        return _flat_at_limits(b, self, min, max)
    bounds = {"min": min, "max": max}
    given = {name: float(bound) for name, bound in bounds.items() if bound is not None}
    return b.emit("clamp", self, **given) if given else self


@lowers("clamp_min.default")
def clamp_min(b: Builder, self: Operand, min: float) -> Operand:
    return clamp(b, self, min, None)


@lowers("clamp_max.default")
def clamp_max(b: Builder, self: Operand, max: float) -> Operand:
    return clamp(b, self, None, max)


@lowers("clamp.Tensor")
def clamp_tensor(b: Builder, self: Operand, min: Any, max: Any) -> Operand:
    low, high = number(min), number(max)
    if (min is None or low is not None) and (max is None or high is not None):
        return clamp(b, self, low, high)
    if TIES_ARE_SHARED:
        lower = self if min is None else b.emit("maximum", self, min)
        return lower if max is None else b.emit("minimum", lower, max)
    lower = self if min is None else b.emit("where", b.emit("ge", self, min), self, min)
    return lower if max is None else b.emit("where", b.emit("le", lower, max), lower, max)


@lowers("clamp_min.Tensor")
def clamp_min_tensor(b: Builder, self: Operand, min: Operand) -> Operand:
    return clamp_tensor(b, self, min, None)


@lowers("clamp_max.Tensor")
def clamp_max_tensor(b: Builder, self: Operand, max: Operand) -> Operand:
    return clamp_tensor(b, self, None, max)


SOFTPLUS_THRESHOLD = 20
POWERS = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


@lowers("pow.Tensor_Scalar")
def power(b: Builder, self: Operand, exponent: float) -> Operand:
    if not b.result.dtype.is_floating_point:
        return integers.power(b, self, exponent)
    return real_power(b, self, exponent)


def real_power(b: Builder, self: Operand, exponent: float) -> Operand:
    """A power of real numbers."""
    self = b.cast(self, "f32")
    if exponent == 1:
        return self
    if exponent == 3:
        return b.emit("mul", b.emit("square", self), self)
    if exponent in POWERS:
        return b.emit(POWERS[exponent], self)
    return b.emit("pow_scalar", self, exponent=float(exponent))


@lowers("pow.Tensor_Tensor", "pow.Scalar")
def power_of_tensors(b: Builder, self: Any, exponent: Any) -> Operand:
    if not b.result.dtype.is_floating_point:
        return integers.power(b, self, exponent)
    if number(exponent) is not None:
        return power(b, self, number(exponent))
    return b.emit("pow", b.operand(self, "f32"), b.operand(exponent, "f32"))


def _arithmetic_type(b: Builder) -> str:
    type_ = TYPES.get(b.result.dtype)
    if type_ not in ("f32", "i32"):
        raise CannotLower(f"arithmetic in {b.result.dtype}")
    return type_


def binary(b: Builder, kind: str, x: Any, y: Any) -> Operand:
    """`x kind y` in the type of the result; a constant number becomes an attribute."""
    to = _arithmetic_type(b)
    term = number(y)
    if to == "f32" and term is not None and isinstance(x, Val):
        x = b.cast(x, "f32")
        if kind == "mul":
            return b.scale(x, term)
        if kind in ("add", "sub"):
            return b.shift(x, term if kind == "add" else -term)
    if kind in ("add", "mul") and number(x) is not None and isinstance(y, Val) and to == "f32":
        return binary(b, kind, y, x)
    return b.emit(kind, b.operand(x, to), b.operand(y, to))


def _scaled(b: Builder, x: Any, alpha: float) -> Any:
    if alpha == 1:
        return x
    if number(x) is not None:
        return number(x) * alpha
    return binary(b, "mul", x, alpha)


@lowers("add.Tensor", "add.Scalar")
def add(b: Builder, self: Any, other: Any, alpha: float) -> Operand:
    if b.result.dtype == torch.bool and alpha == 1:
        return b.emit("or", b.operand(self, "bool"), b.operand(other, "bool"))
    return binary(b, "add", self, _scaled(b, other, alpha))


@lowers("sub.Tensor", "sub.Scalar")
def sub(b: Builder, self: Any, other: Any, alpha: float) -> Operand:
    return binary(b, "sub", self, _scaled(b, other, alpha))


@lowers("rsub.Scalar", "rsub.Tensor")
def rsub(b: Builder, self: Any, other: Any, alpha: float) -> Operand:
    if number(other) is not None and _arithmetic_type(b) == "f32":
        return b.shift(b.scale(b.cast(self, "f32"), -alpha), number(other))
    return binary(b, "sub", other, _scaled(b, self, alpha))


@lowers("mul.Tensor", "mul.Scalar", "multiply.Tensor")
def mul(b: Builder, self: Any, other: Any) -> Operand:
    if b.result.dtype == torch.bool:
        return b.emit("and", self, other)
    return binary(b, "mul", self, other)


@lowers("div.Tensor", "div.Scalar", "divide.Tensor", "true_divide.Tensor")
def div(b: Builder, self: Any, other: Any) -> Operand:
    return b.emit("div", b.operand(self, "f32"), b.operand(other, "f32"))


@lowers("div.Tensor_mode", "div.Scalar_mode")
def div_mode(b: Builder, self: Any, other: Any, rounding_mode: str | None) -> Operand:
    quotient = div(b, self, other)
    if rounding_mode is None:
        return quotient
    if rounding_mode != "floor" or b.result.dtype != torch.float32:
        raise CannotLower("a division that rounds")
    return b.emit("floor", quotient)


@lowers("maximum.default", "max.other")
def maximum(b: Builder, self: Operand, other: Operand) -> Operand:
    if b.result.dtype == torch.bool:
        return b.emit("or", self, other)
    return binary(b, "maximum", self, other)


@lowers("minimum.default", "min.other")
def minimum(b: Builder, self: Operand, other: Operand) -> Operand:
    if b.result.dtype == torch.bool:
        return b.emit("and", self, other)
    return binary(b, "minimum", self, other)


@lowers("addcmul.default")
def addcmul(b: Builder, self: Any, tensor1: Any, tensor2: Any, value: float) -> Operand:
    return binary(b, "add", self, b.scale(binary(b, "mul", tensor1, tensor2), value))


@lowers("addcdiv.default")
def addcdiv(b: Builder, self: Any, tensor1: Any, tensor2: Any, value: float) -> Operand:
    return binary(b, "add", self, b.scale(binary(b, "div", tensor1, tensor2), value))


@lowers("lerp.Scalar", "lerp.Tensor")
def lerp(b: Builder, self: Operand, end: Operand, weight: Any) -> Operand:
    return binary(b, "add", self, binary(b, "mul", binary(b, "sub", end, self), weight))


def _register_compare(name: str) -> None:
    @lowers(f"{name}.Tensor", f"{name}.Scalar")
    def lower(b: Builder, self: Any, other: Any) -> Operand:
        floats = "f32" in {type_of(x) for x in (self, other) if not isinstance(x, (int, float))}
        to = "f32" if floats or isinstance(other, float) else "i32"
        return b.emit(name, b.operand(self, to), b.operand(other, to))


for _name in COMPARE:
    _register_compare(_name)


def _register_logical(overload: str, kind: str) -> None:
    @lowers(overload)
    def lower(b: Builder, self: Operand, other: Operand) -> Operand:
        return b.emit(kind, as_bool(b, self), as_bool(b, other))


for _overload, _kind in LOGICAL.items():
    _register_logical(_overload, _kind)


def as_bool(b: Builder, x: Operand) -> Operand:
    """True where `x` is not zero."""
    return b.cast(x, "bool")


@lowers("logical_not.default")
def logical_not(b: Builder, self: Operand) -> Operand:
    return b.emit("not", as_bool(b, self))


@lowers("logical_xor.default")
def logical_xor(b: Builder, self: Operand, other: Operand) -> Operand:
    x, y = b.cast(as_bool(b, self), "i32"), b.cast(as_bool(b, other), "i32")
    return b.emit("ne", x, y)


@lowers("isnan.default")
def isnan(b: Builder, self: Operand) -> Operand:
    return b.emit("ne", self, self)


@lowers("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(b: Builder, condition: Any, self: Any, other: Any) -> Operand:
    to = CONSTANT_TYPES[b.result.dtype]
    if isinstance(condition, bool):
        condition = torch.tensor(condition)
    return b.emit("where", as_bool(b, condition), b.operand(self, to), b.operand(other, to))


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(b: Builder, self: Any, mask: Any, value: Any) -> Operand:
    to = type_of(self)
    return b.emit("where", as_bool(b, mask), b.operand(value, to), self)


@lowers("clone.default", "contiguous.default", "alias.default", "lift_fresh_copy.default",
        "lift_fresh.default", "positive.default")
def same(b: Builder, self: Operand, **_: Any) -> Operand:
    return self


@lowers("detach.default")
def detach(b: Builder, self: Operand) -> Operand:
    return b.emit("stop_gradient", self) if type_of(self) == "f32" else self


@lowers("fill.Tensor")
def fill(b: Builder, self: Operand, value: Operand) -> Operand:
    return b.expand(value, b.result.shape)
