"""The losses that ONNX has as operators."""
from __future__ import annotations

from ...tracing.lower.builder import Operand
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..table import Call, converts

NOTHING_IGNORED = -100


def _options(call: Call) -> dict:
    reduction = call.get("reduction", "mean")
    if reduction == "none":
        raise CannotLower("a loss of elements")
    return {"ignore_index": call.get("ignore_index", NOTHING_IGNORED), "reduction": reduction}


@converts("SoftmaxCrossEntropyLoss")
def cross_entropy(b: OnnxBuilder, call: Call, scores: Operand, labels: Operand,
                  weights: Operand | None = None) -> list[Operand]:
    loss = b.emit("cross_entropy", scores, labels, weights, label_smoothing=0.0, **_options(call))
    return [loss, b.emit("log_softmax", scores, axis=1)]


@converts("NegativeLogLikelihoodLoss")
def nll(b: OnnxBuilder, call: Call, scores: Operand, labels: Operand,
        weights: Operand | None = None) -> Operand:
    return b.emit("nll", scores, labels, weights, **_options(call))
