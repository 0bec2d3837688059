"""Normalisation layers and softmax."""
from __future__ import annotations

from typing import Any

import torch

from ..graph import Ref
from .builder import Builder, Operand
from .reductions import reduce, vector_norm
from .table import CannotLower, lowers


@lowers("batch_norm.default")
def batch_norm(b: Builder, input: Operand, weight: Operand | None, bias: Operand | None,
               running_mean: Operand | None, running_var: Operand | None, training: bool,
               momentum: float, eps: float, cudnn_enabled: bool) -> Operand:
    names = [_buffer_name(b, key) for key in ("running_mean", "running_var")]
    if training and any(name in b.states for name in names):
        raise CannotLower(f"a batch norm whose statistics the forward pass writes too ({names[0]})")
    known = {name for name, _, _ in b.statistics}
    if None not in names and (names[0] in known if b.evaluating else training):
        if not momentum and not b.evaluating:
            raise CannotLower("a batch norm with the momentum 0, which None becomes (a cumulative "
                              "average)")
        mean, variance = b.statistic_index(names[0], names[1], input.shape[1])

        def norm(momentum: float) -> dict[str, Any]:
            return {"eps": float(eps), "mean": mean, "variance": variance, "momentum": momentum}
        attributes = norm(_trained_momentum(b, mean) if b.evaluating else float(momentum))
        if b.evaluating and not b.is_known("batch_norm", input, weight, bias, **attributes):
            attributes = norm(NO_MOMENTUM)
        return b.emit("batch_norm", input, weight, bias, **attributes)
    if training:
        return normalise_batch(b, input, weight, bias, eps)
    return frozen_batch_norm(b, input, weight, bias, running_mean, running_var, eps)


# A batch norm of evaluations alone, whose engine computes it in training too, reads statistics and
# leaves them as they are.
NO_MOMENTUM = 0.0


def _trained_momentum(b: Builder, mean: int) -> float:
    """The momentum that the train graph gave for a statistic; evaluation has its own number."""
    return next(node.attributes["momentum"] for node in b.nodes
                if node.kind == "batch_norm" and node.attributes["mean"] == mean)


def _buffer_name(b: Builder, key: str) -> str | None:
    argument = b.node.args[key]
    return b.buffers.get(argument.id) if isinstance(argument, Ref) else None


def _channels(b: Builder, x: Operand, rank: int) -> Operand:
    """Per-channel numbers [c] as [c, 1, ...], which broadcast over an input of `rank` axes."""
    return b.reshape(x, (-1, *[1] * (rank - 2)))


def _affine(b: Builder, x: Operand, weight: Operand | None, bias: Operand | None) -> Operand:
    if weight is not None:
        x = b.emit("mul", x, _channels(b, weight, x.dim()))
    return x if bias is None else b.emit("add", x, _channels(b, bias, x.dim()))


def normalise_batch(b: Builder, x: Operand, weight: Operand | None, bias: Operand | None,
                    eps: float) -> Operand:
    """A batch norm without statistics, which uses those of the batch in evaluation too."""
    axes = [axis for axis in range(x.dim()) if axis != 1]
    centred = b.emit("sub", x, reduce(b, "mean", x, axes, True))
    spread = reduce(b, "var", x, axes, True, correction=0)
    scaled = b.emit("mul", centred, b.emit("rsqrt", b.shift(spread, eps)))
    return _affine(b, scaled, weight, bias)


def frozen_batch_norm(b: Builder, x: Operand, weight: Operand | None, bias: Operand | None,
                      mean: Operand, variance: Operand, eps: float) -> Operand:
    """(x - mean) * (weight / sqrt(variance + eps)) + bias with statistics that are constant or states."""
    if isinstance(variance, torch.Tensor):
        rate: Operand = (variance.double() + eps).rsqrt().float()
    else:
        rate = b.emit("rsqrt", b.shift(variance, eps))
    scale = rate if weight is None else b.emit("mul", weight, rate)
    shift = b.emit("mul", scale, b.emit("neg", mean))
    shift = shift if bias is None else b.emit("add", bias, shift)
    return _affine(b, x, scale, shift)


@lowers("layer_norm.default")
def layer_norm(b: Builder, input: Operand, normalized_shape: list[int], weight: Operand | None,
               bias: Operand | None, eps: float, cudnn_enable: bool) -> Operand:
    return b.emit("layer_norm", input, weight, bias, axes=len(normalized_shape), eps=float(eps))


@lowers("rms_norm.default")
def rms_norm(b: Builder, input: Operand, normalized_shape: list[int], weight: Operand | None,
             eps: float | None) -> Operand:
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    return b.emit("rms_norm", input, weight, axes=len(normalized_shape), eps=float(eps))


@lowers("group_norm.default")
def group_norm(b: Builder, input: Operand, num_groups: int, weight: Operand | None,
               bias: Operand | None, eps: float, cudnn_enabled: bool) -> Operand:
    return b.emit("group_norm", input, weight, bias, groups=num_groups, eps=float(eps))


@lowers("instance_norm.default")
def instance_norm(b: Builder, input: Operand, weight: Operand | None, bias: Operand | None,
                  running_mean: Any, running_var: Any, use_input_stats: bool, momentum: float,
                  eps: float, cudnn_enabled: bool) -> Operand:
    if running_mean is not None:
        raise CannotLower("an instance norm with running statistics")
    return b.emit("group_norm", input, weight, bias, groups=input.shape[1], eps=float(eps))


@lowers("softmax.int", "_softmax.default")
def softmax(b: Builder, self: Operand, dim: int, **_: Any) -> Operand:
    return b.emit("softmax", b.cast(self, "f32"), axis=dim % self.dim())


@lowers("log_softmax.int", "_log_softmax.default")
def log_softmax(b: Builder, self: Operand, dim: int, **_: Any) -> Operand:
    return b.emit("log_softmax", b.cast(self, "f32"), axis=dim % self.dim())


@lowers("_weight_norm.default")
def weight_norm(b: Builder, v: Operand, g: Operand, dim: int) -> Operand:
    axes = [axis for axis in range(v.dim()) if dim < 0 or axis != dim]
    return b.emit("mul", v, b.emit("div", g, vector_norm(b, v, 2, axes, True)))


@lowers("_weight_norm_interface.default")
def weight_norm_interface(b: Builder, v: Operand, g: Operand, dim: int) -> list[Any]:
    return [weight_norm(b, v, g, dim), None]


@lowers("cosine_similarity.default")
def cosine_similarity(b: Builder, x1: Operand, x2: Operand, dim: int, eps: float) -> Operand:
    shape = torch.broadcast_shapes(x1.shape, x2.shape)
    axis = dim % len(shape)

    def unit(x: Operand) -> Operand:
        """The axis is one of the common shape, along which `x` may be repeated."""
        x = b.reshape(x, (*[1] * (len(shape) - x.dim()), *x.shape))
        x = b.expand(x, [shape[i] if i == axis else size for i, size in enumerate(x.shape)])
        return b.emit("div", x, b.emit("clamp", vector_norm(b, x, 2, [axis], True), min=float(eps)))
    return reduce(b, "sum", b.emit("mul", unit(x1), unit(x2)), [axis], False)


@lowers("pairwise_distance.default")
def pairwise_distance(b: Builder, x1: Operand, x2: Operand, p: float, eps: float,
                      keepdim: bool) -> Operand:
    difference = b.shift(b.emit("sub", x1, x2), eps)
    return vector_norm(b, difference, p, [difference.dim() - 1], keepdim)
