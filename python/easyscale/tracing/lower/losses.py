"""The losses of torch.nn."""
from __future__ import annotations

import math

import torch

from .builder import Builder, Operand, type_of
from .elementwise import clamp
from .moves import take
from .reductions import reduce, vector_norm
from .table import lowers

NAMES = {1: "mean", 2: "sum"}


def _reduced(b: Builder, rows: Operand, reduction: int) -> Operand:
    """The mean (1), the sum (2) or the elements (0) of a loss."""
    return reduce(b, NAMES[reduction], rows, None, False) if reduction else rows


@lowers("cross_entropy_loss.default")
def cross_entropy(b: Builder, self: Operand, target: Operand, weight: Operand | None,
                  reduction: int, ignore_index: int, label_smoothing: float) -> Operand:
    if self.dim() == 1:
        self, target = b.reshape(self, (1, -1)), b.reshape(target, (1, *target.shape))
    if type_of(target) == "f32":
        return _soft_cross_entropy(b, self, target, weight, reduction, label_smoothing)
    if reduction == 0:
        return _cross_entropy_rows(b, self, target, weight, ignore_index, label_smoothing)
    return b.emit("cross_entropy", self, target, weight, ignore_index=ignore_index,
                  label_smoothing=float(label_smoothing), reduction=NAMES[reduction])


def _soft_cross_entropy(b: Builder, logits: Operand, target: Operand, weight: Operand | None,
                        reduction: int, smoothing: float) -> Operand:
    if smoothing:
        target = b.shift(b.scale(target, 1 - smoothing), smoothing / logits.shape[1])
    if weight is None and reduction and logits.dim() == 2:
        return b.emit("cross_entropy_soft", logits, target, reduction=NAMES[reduction])
    parts = b.emit("mul", b.emit("log_softmax", logits, axis=1), target)
    if weight is not None:
        parts = b.emit("mul", parts, b.reshape(weight, (-1, *[1] * (logits.dim() - 2))))
    rows = b.emit("neg", reduce(b, "sum", parts, [1], False))
    return _reduced(b, rows, reduction)


def _cross_entropy_rows(b: Builder, logits: Operand, target: Operand, weight: Operand | None,
                        ignore_index: int, smoothing: float) -> Operand:
    log_probs = b.emit("log_softmax", logits, axis=1)
    rows = nll_rows(b, log_probs, target, weight, ignore_index)
    if not smoothing:
        return rows
    if weight is not None:
        log_probs = b.emit("mul", log_probs, b.reshape(weight, (-1, *[1] * (logits.dim() - 2))))
    ignored = b.emit("eq", target, torch.tensor(ignore_index))
    spread = b.emit("where", ignored, torch.tensor(0.0), reduce(b, "sum", log_probs, [1], False))
    return b.emit("sub", b.scale(rows, 1 - smoothing), b.scale(spread, smoothing / logits.shape[1]))


def nll_rows(b: Builder, log_probs: Operand, target: Operand, weight: Operand | None,
             ignore_index: int) -> Operand:
    """The negative log-likelihood of every label, zero for ignored ones."""
    ignored = b.emit("eq", target, torch.tensor(ignore_index))
    safe = b.emit("where", ignored, torch.tensor(0), target)
    shape = (target.shape[0], 1, *target.shape[1:])
    chosen = b.reshape(b.emit("gather", log_probs, b.reshape(safe, shape), axis=1), target.shape)
    if weight is not None:
        chosen = b.emit("mul", chosen, take(b, weight, 0, safe))
    return b.emit("where", ignored, torch.tensor(0.0), b.emit("neg", chosen))


@lowers("nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default")
def nll_loss(b: Builder, self: Operand, target: Operand, weight: Operand | None, reduction: int,
             ignore_index: int) -> Operand:
    if reduction == 0:
        return nll_rows(b, self, target, weight, ignore_index)
    return b.emit("nll", self, target, weight, ignore_index=ignore_index,
                  reduction=NAMES[reduction])


def _alike(b: Builder, x: Operand, y: Operand) -> tuple[Operand, Operand]:
    """Both operands with their common extents, as the kinds of losses need them."""
    shape = torch.broadcast_shapes(tuple(x.shape), tuple(y.shape))
    return b.expand(b.cast(x, "f32"), shape), b.expand(b.cast(y, "f32"), shape)


@lowers("mse_loss.default")
def mse_loss(b: Builder, self: Operand, target: Operand, reduction: int) -> Operand:
    x, y = _alike(b, self, target)
    if reduction == 0:
        return b.emit("square", b.emit("sub", x, y))
    return b.emit("mse", x, y, reduction=NAMES[reduction])


@lowers("l1_loss.default")
def l1_loss(b: Builder, self: Operand, target: Operand, reduction: int) -> Operand:
    x, y = _alike(b, self, target)
    if reduction == 0:
        return b.emit("abs", b.emit("sub", x, y))
    return b.emit("l1", x, y, reduction=NAMES[reduction])


def _rounded_l1_rows(b: Builder, xs: tuple[Operand, Operand], near: float,
                     factor: float) -> Operand:
    """factor * (d^2 / 2 below `near`, otherwise near * (d - near / 2)) of the distances d."""
    x, y = _alike(b, *xs)
    distance = b.emit("abs", b.emit("sub", x, y))
    close = b.scale(b.emit("square", distance), 0.5)
    far = b.scale(b.shift(distance, -near / 2), near)
    rows = b.emit("where", b.emit("lt", distance, torch.tensor(near)), close, far)
    return b.scale(rows, factor)


@lowers("smooth_l1_loss.default")
def smooth_l1_loss(b: Builder, self: Operand, target: Operand, reduction: int,
                   beta: float) -> Operand:
    if beta == 0:
        return l1_loss(b, self, target, reduction)
    if reduction == 0:
        return _rounded_l1_rows(b, (self, target), float(beta), 1 / beta)
    return b.emit("smooth_l1", *_alike(b, self, target), beta=float(beta),
                  reduction=NAMES[reduction])


@lowers("huber_loss.default")
def huber_loss(b: Builder, self: Operand, target: Operand, reduction: int,
               delta: float) -> Operand:
    if reduction == 0:
        return _rounded_l1_rows(b, (self, target), float(delta), 1.0)
    return b.emit("huber", *_alike(b, self, target), delta=float(delta),
                  reduction=NAMES[reduction])


@lowers("binary_cross_entropy.default")
def bce(b: Builder, self: Operand, target: Operand, weight: Operand | None,
        reduction: int) -> Operand:
    if weight is None and reduction:
        return b.emit("bce", self, b.cast(target, "f32"), reduction=NAMES[reduction])
    rows = _bce_rows(b, self, b.cast(target, "f32"))
    return _reduced(b, rows if weight is None else b.emit("mul", rows, weight), reduction)


LEAST = 2.0 ** -149  # the least positive number, whose logarithm is below -100


def _bce_rows(b: Builder, p: Operand, target: Operand) -> Operand:
    """What the kind `bce` reduces: the logarithms are limited at -100, and the slope is that of torch,
    (p - t) / max(p (1 - p), 1e-12), also there. It is written as that of a term which is 0."""
    fixed = b.emit("stop_gradient", p)
    rest = b.shift(b.emit("neg", fixed), 1)

    def logarithm(x: Operand) -> Operand:
        return b.emit("clamp", b.emit("log", b.emit("clamp", x, min=LEAST)), min=-100.0)
    yes = b.emit("mul", target, logarithm(fixed))
    no = b.emit("mul", b.shift(b.emit("neg", target), 1), logarithm(rest))
    rows = b.emit("neg", b.emit("add", yes, no))
    divisor = b.emit("clamp", b.emit("mul", fixed, rest), min=1e-12)
    slope = b.emit("stop_gradient", b.emit("div", b.emit("sub", fixed, target), divisor))
    return b.emit("add", rows, b.emit("mul", b.emit("sub", p, fixed), slope))


@lowers("binary_cross_entropy_with_logits.default")
def bce_with_logits(b: Builder, self: Operand, target: Operand, weight: Operand | None,
                    pos_weight: Operand | None, reduction: int) -> Operand:
    target = b.cast(target, "f32")
    if reduction:
        return b.emit("bce_with_logits", self, target, weight, pos_weight,
                      reduction=NAMES[reduction])
    plus = b.emit("softplus", self, beta=1.0)
    rows = b.emit("sub", plus, b.emit("mul", self, target))
    if pos_weight is not None:
        # A yes counts pos_weight times: softplus(-x) is its loss.
        more = b.emit("mul", b.shift(pos_weight, -1.0), target)
        yes = b.emit("softplus", b.emit("neg", self), beta=1.0)
        rows = b.emit("add", rows, b.emit("mul", more, yes))
    return rows if weight is None else b.emit("mul", rows, weight)


@lowers("kl_div.default")
def kl_div(b: Builder, self: Operand, target: Operand, reduction: int,
           log_target: bool) -> Operand:
    shape = torch.broadcast_shapes(self.shape, target.shape)
    self, target = b.expand(self, shape), b.expand(target, shape)
    if reduction == 0 and not log_target:
        positive = b.emit("gt", target, torch.tensor(0.0))
        safe = b.emit("where", positive, target, torch.tensor(1.0))
        own = b.emit("mul", target, b.emit("log", safe))  # 0 for a target of 0
        return b.emit("sub", own, b.emit("mul", target, self))
    if reduction == 0:
        return b.emit("mul", b.emit("exp", target), b.emit("sub", target, self))
    return b.emit("kl_div", self, target, log_target=log_target, reduction=NAMES[reduction])


def _hinge(b: Builder, x: Operand) -> Operand:
    """max(x, 0) with the slope of a clamp at 0, as torch has it in its losses."""
    return clamp(b, x, 0.0, None)


def _cosine(b: Builder, x: Operand, y: Operand) -> Operand:
    """The cosine of rows as cosine_embedding_loss has it, which adds a number to the squares of their
    norms where cosine_similarity has a least norm."""
    def dot(x: Operand, y: Operand) -> Operand:
        return reduce(b, "sum", b.emit("mul", x, y), [x.dim() - 1], False)
    squares = b.emit("mul", b.shift(dot(x, x), 1e-12), b.shift(dot(y, y), 1e-12))
    return b.emit("div", dot(x, y), b.emit("sqrt", squares))


@lowers("cosine_embedding_loss.default")
def cosine_embedding_loss(b: Builder, input1: Operand, input2: Operand, target: Operand,
                          margin: float, reduction: int) -> Operand:
    similarity = _cosine(b, input1, input2)
    same = b.shift(b.emit("neg", similarity), 1)
    other = _hinge(b, b.shift(similarity, -margin))
    positive = b.emit("gt", b.cast(target, "f32"), torch.tensor(0.0))
    return _reduced(b, b.emit("where", positive, same, other), reduction)


@lowers("triplet_margin_loss.default")
def triplet_margin_loss(b: Builder, anchor: Operand, positive: Operand, negative: Operand,
                        margin: float, p: float, eps: float, swap: bool,
                        reduction: int) -> Operand:
    def distance(x: Operand, y: Operand) -> Operand:
        return vector_norm(b, b.shift(b.emit("sub", x, y), eps), p, [x.dim() - 1], False)
    far = distance(anchor, negative)
    far = b.emit("minimum", far, distance(positive, negative)) if swap else far
    gap = b.emit("sub", distance(anchor, positive), far)
    return _reduced(b, _hinge(b, b.shift(gap, margin)), reduction)


@lowers("margin_ranking_loss.default")
def margin_ranking_loss(b: Builder, input1: Operand, input2: Operand, target: Operand,
                        margin: float, reduction: int) -> Operand:
    signed = b.emit("mul", b.emit("sub", input2, input1), b.cast(target, "f32"))
    return _reduced(b, _hinge(b, b.shift(signed, margin)), reduction)


@lowers("hinge_embedding_loss.default")
def hinge_embedding_loss(b: Builder, self: Operand, target: Operand, margin: float,
                         reduction: int) -> Operand:
    positive = b.emit("gt", b.cast(target, "f32"), torch.tensor(0.0))
    other = _hinge(b, b.shift(b.emit("neg", self), margin))
    return _reduced(b, b.emit("where", positive, self, other), reduction)


@lowers("soft_margin_loss.default")
def soft_margin_loss(b: Builder, self: Operand, target: Operand, reduction: int) -> Operand:
    signed = b.emit("neg", b.emit("mul", self, b.cast(target, "f32")))
    return _reduced(b, b.emit("softplus", signed, beta=1.0), reduction)


@lowers("poisson_nll_loss.default")
def poisson_nll_loss(b: Builder, input: Operand, target: Operand, log_input: bool, full: bool,
                     eps: float, reduction: int) -> Operand:
    if log_input:
        rows = b.emit("sub", b.emit("exp", input), b.emit("mul", target, input))
    else:
        rows = b.emit("sub", input, b.emit("mul", target, b.emit("log", b.shift(input, eps))))
    if full:
        large = b.emit("gt", target, torch.tensor(1.0))
        safe = b.emit("where", large, target, torch.tensor(1.0))
        stirling = b.emit("sub", b.emit("mul", b.shift(safe, 0.5), b.emit("log", safe)), safe)
        stirling = b.shift(stirling, 0.5 * math.log(2 * math.pi))
        rows = b.emit("add", rows, b.emit("where", large, stirling, torch.tensor(0.0)))
    return _reduced(b, rows, reduction)
