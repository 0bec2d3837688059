"""Normalisation layers."""
from __future__ import annotations

from decimal import Decimal

import torch

from ...tracing.lower.builder import Operand
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..table import Call, converts


@converts("BatchNormalization")
def batch_norm(b: OnnxBuilder, call: Call, x: Operand, scale: Operand, bias: Operand,
               mean: Operand, variance: Operand) -> Operand:
    """Uses the mini-batch in training, whatever the file says about its mode."""
    names = [b.statistic_names.get(id(value)) for value in (mean, variance)]
    if None in names:
        raise CannotLower("its mean and variance are no initializers")
    index = b.statistic_index(*names, x.shape[1])
    return b.emit("batch_norm", x, scale, bias, eps=call.get("epsilon", 1e-5), mean=index[0],
                  variance=index[1], momentum=_momentum(call.get("momentum", 0.9)))


def _momentum(kept: float) -> float:
    """The part of the new statistic; ONNX names the part that is kept, 0.9 for 0.1."""
    return float(1 - Decimal(repr(kept)))


@converts("LayerNormalization")
def layer_norm(b: OnnxBuilder, call: Call, x: Operand, scale: Operand,
               bias: Operand | None = None) -> Operand:
    axis = call.get("axis", -1) % x.dim()
    affine = [scale] if bias is None else [scale, bias]
    fits = all(tuple(part.shape) == tuple(x.shape[axis:]) for part in affine)
    out = b.emit("layer_norm", x, scale if fits else None, bias if fits else None,
                 axes=x.dim() - axis, eps=call.get("epsilon", 1e-5))
    if fits:
        return out
    out = b.emit("mul", out, scale)
    return out if bias is None else b.emit("add", out, bias)


@converts("InstanceNormalization")
def instance_norm(b: OnnxBuilder, call: Call, x: Operand, scale: Operand, bias: Operand) -> Operand:
    plain = _is_all(scale, 1.0) and _is_all(bias, 0.0)
    return b.emit("group_norm", x, None if plain else scale, None if plain else bias,
                  groups=x.shape[1], eps=call.get("epsilon", 1e-5))


def _is_all(x: Operand, number: float) -> bool:
    return isinstance(x, torch.Tensor) and bool((x == number).all())
