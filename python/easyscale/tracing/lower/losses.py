"""The losses of torch.nn."""
from __future__ import annotations

import torch

from .builder import Builder, Operand, type_of
from .norms import cosine_similarity
from .reductions import reduce, vector_norm
from .table import CannotLower, lowers

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
    if smoothing or weight is not None:
        raise CannotLower("a cross-entropy of rows with weights or label smoothing")
    return nll_rows(b, b.emit("log_softmax", logits, axis=1), target, ignore_index)


def nll_rows(b: Builder, log_probs: Operand, target: Operand, ignore_index: int) -> Operand:
    """The negative log-likelihood of every label, zero for ignored ones."""
    ignored = b.emit("eq", target, torch.tensor(ignore_index))
    safe = b.emit("where", ignored, torch.tensor(0), target)
    shape = (target.shape[0], 1, *target.shape[1:])
    chosen = b.reshape(b.emit("gather", log_probs, b.reshape(safe, shape), axis=1), target.shape)
    return b.emit("where", ignored, torch.tensor(0.0), b.emit("neg", chosen))


@lowers("nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default")
def nll_loss(b: Builder, self: Operand, target: Operand, weight: Operand | None, reduction: int,
             ignore_index: int) -> Operand:
    if reduction == 0:
        if weight is not None:
            raise CannotLower("a likelihood of rows with weights")
        return nll_rows(b, self, target, ignore_index)
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


def _rounded_l1(b: Builder, kind: str, xs: tuple[Operand, Operand], reduction: int,
                **near: float) -> Operand:
    """A loss that is a square near 0; `near` says how near."""
    if reduction == 0:
        raise CannotLower(f"a {kind} loss of elements")
    return b.emit(kind, *_alike(b, *xs), **near, reduction=NAMES[reduction])


@lowers("smooth_l1_loss.default")
def smooth_l1_loss(b: Builder, self: Operand, target: Operand, reduction: int,
                   beta: float) -> Operand:
    return _rounded_l1(b, "smooth_l1", (self, target), reduction, beta=float(beta))


@lowers("huber_loss.default")
def huber_loss(b: Builder, self: Operand, target: Operand, reduction: int,
               delta: float) -> Operand:
    return _rounded_l1(b, "huber", (self, target), reduction, delta=float(delta))


@lowers("binary_cross_entropy.default")
def bce(b: Builder, self: Operand, target: Operand, weight: Operand | None,
        reduction: int) -> Operand:
    if weight is None and reduction:
        return b.emit("bce", self, b.cast(target, "f32"), reduction=NAMES[reduction])
    low = torch.tensor(-100.0)
    ones = b.emit("maximum", b.emit("log", self), low)
    zeros = b.emit("maximum", b.emit("log", b.shift(b.emit("neg", self), 1)), low)
    rest = b.shift(b.emit("neg", target), 1)
    rows = b.emit("neg", b.emit("add", b.emit("mul", target, ones), b.emit("mul", rest, zeros)))
    return _reduced(b, rows if weight is None else b.emit("mul", rows, weight), reduction)


@lowers("binary_cross_entropy_with_logits.default")
def bce_with_logits(b: Builder, self: Operand, target: Operand, weight: Operand | None,
                    pos_weight: Operand | None, reduction: int) -> Operand:
    target = b.cast(target, "f32")
    if reduction:
        return b.emit("bce_with_logits", self, target, weight, pos_weight,
                      reduction=NAMES[reduction])
    if weight is not None or pos_weight is not None:
        raise CannotLower("a binary cross-entropy of elements with weights")
    plus = b.emit("softplus", self, beta=1.0)
    return b.emit("sub", plus, b.emit("mul", self, target))


@lowers("kl_div.default")
def kl_div(b: Builder, self: Operand, target: Operand, reduction: int,
           log_target: bool) -> Operand:
    if reduction == 0:
        if not log_target:
            raise CannotLower("a divergence of elements")
        return b.emit("mul", b.emit("exp", target), b.emit("sub", target, self))
    return b.emit("kl_div", self, target, log_target=log_target, reduction=NAMES[reduction])


def _hinge(b: Builder, x: Operand) -> Operand:
    """max(x, 0)."""
    return b.emit("relu", x)


@lowers("cosine_embedding_loss.default")
def cosine_embedding_loss(b: Builder, input1: Operand, input2: Operand, target: Operand,
                          margin: float, reduction: int) -> Operand:
    similarity = cosine_similarity(b, input1, input2, -1, 1e-8)
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
    if full:
        raise CannotLower("a Poisson loss with the Stirling term")
    if log_input:
        rows = b.emit("sub", b.emit("exp", input), b.emit("mul", target, input))
    else:
        rows = b.emit("sub", input, b.emit("mul", target, b.emit("log", b.shift(input, eps))))
    return _reduced(b, rows, reduction)
