"""Choices by indices."""
from __future__ import annotations

import torch

from ...tracing.lower.builder import Operand, Val, type_of
from ...tracing.lower.moves import pick, repeats_rows, take
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..table import Call, converts, numbers


@converts("Gather")
def gather(b: OnnxBuilder, call: Call, x: Operand, index: Operand) -> Operand:
    axis = call.get("axis", 0) % x.dim()
    if isinstance(index, torch.Tensor) and index.dim() == 0:
        return pick(b, x, axis, int(index))
    if isinstance(x, Val) and x.id in b.weights and x.dim() == 2 and axis == 0:
        return _embedding(b, x, index)
    return take(b, x, axis, index)


def _embedding(b: OnnxBuilder, weight: Operand, index: Operand) -> Operand:
    if isinstance(index, torch.Tensor):
        index = index % weight.shape[0]
        if repeats_rows(index):
            once = b.emit("embedding", weight, index[:1], padding_idx=-1)
            return b.expand(once, (*index.shape, weight.shape[1]))
    return b.emit("embedding", weight, index, padding_idx=-1)


@converts("GatherElements")
def gather_elements(b: OnnxBuilder, call: Call, x: Operand, index: Operand) -> Operand:
    axis = call.get("axis", 0) % x.dim()
    if isinstance(index, torch.Tensor):
        index = index % x.shape[axis]
    return b.emit("gather", x, index, axis=axis)


@converts("OneHot")
def one_hot(b: OnnxBuilder, call: Call, index: Operand, depth: Operand, values: Operand) -> Operand:
    (classes,), rank = numbers(depth, "depth") or [0], index.dim() + 1
    axis = call.get("axis", -1) % rank
    if not isinstance(values, torch.Tensor):
        raise CannotLower("its values are computed from data")
    apart = b.reshape(index, (*index.shape[:axis], 1, *index.shape[axis:]))
    numbered = torch.arange(int(classes)).reshape([-1 if i == axis else 1 for i in range(rank)])
    off, on = values.reshape(-1)
    return b.emit("where", b.emit("eq", apart, numbered), on, off)


@converts("Trilu")
def trilu(b: OnnxBuilder, call: Call, x: Operand, k: Operand | None = None) -> Operand:
    ones = torch.ones(tuple(x.shape[-2:]), dtype=torch.bool)
    diagonal = int((numbers(k, "diagonal") or [0])[0])
    kept = ones.triu(diagonal) if call.get("upper", 1) else ones.tril(diagonal)
    zero = torch.zeros((), dtype=torch.float32 if type_of(x) == "f32" else torch.int64)
    return b.emit("where", kept, x, zero)
