"""Choices by indices."""
from __future__ import annotations

import torch

from ...tracing.lower.builder import Operand, Val, type_of
from ...tracing.lower.moves import pick, repeats_rows, take
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..table import Call, converts, numbers
from ..torch_calls import call_torch


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


@converts("TopK")
def top_k(b: OnnxBuilder, call: Call, x: Operand, k: Operand) -> list[Operand]:
    (count,) = numbers(k, "number") or [0]
    return call_torch(b, "aten.topk.default", self=x, k=int(count), dim=call.get("axis", -1) % x.dim(),
                      largest=bool(call.get("largest", 1)), sorted=True)


@converts("ScatterElements")
def scatter_elements(b: OnnxBuilder, call: Call, x: Operand, index: Operand,
                     updates: Operand) -> Operand:
    axis, how = call.get("axis", 0) % x.dim(), call.get("reduction", "none")
    if how not in ("none", "add"):
        raise CannotLower(f"the reduction {how}")
    if isinstance(index, torch.Tensor):
        index = index % x.shape[axis]
    target = "aten.scatter_add.default" if how == "add" else "aten.scatter.src"
    return call_torch(b, target, self=x, dim=axis, index=index, src=updates)[0]


@converts("ScatterND")
def scatter_nd(b: OnnxBuilder, call: Call, x: Operand, indices: Operand,
               updates: Operand) -> Operand:
    """Writes at constant indices, which are the same for every sample if the first axis is it."""
    how = call.get("reduction", "none")
    if how not in ("none", "add") or not isinstance(indices, torch.Tensor):
        raise CannotLower("a write at computed indices" if how == "none" else f"the reduction {how}")
    places = list(indices.unbind(-1))
    own = _of_every_sample(places, x, updates)
    if own is None:
        return _put(b, x, places, updates, how)
    samples, size = x.shape[0], len(places)
    rows = b.permute(x, [*range(1, size), 0, *range(size, x.dim())])
    count = own[0].numel()
    values = b.reshape(updates, (samples, count, *x.shape[size:]))
    values = b.permute(values, [1, 0, *range(2, values.dim())])
    written = _put(b, rows, [at.reshape(-1) for at in own], values, how)
    return b.permute(written, [size - 1, *range(size - 1), *range(size, x.dim())])


def _put(b: OnnxBuilder, x: Operand, places: list[torch.Tensor], values: Operand,
         how: str) -> Operand:
    return call_torch(b, "aten.index_put.default", self=x, indices=places, values=values,
                      accumulate=how == "add")[0]


def _of_every_sample(places: list[torch.Tensor], x: Operand,
                     updates: Operand) -> list[torch.Tensor] | None:
    """The indices behind the first one, if that numbers the samples and they do not depend on it."""
    first, *others = places
    samples = x.shape[0]
    if not others or first.dim() == 0 or first.shape[0] != samples or updates.shape[0] != samples:
        return None
    numbered = torch.arange(samples).reshape(-1, *[1] * (first.dim() - 1))
    if not bool((first == numbered).all()) or any(bool((at != at[:1]).any()) for at in others):
        return None
    return [at[0] for at in others]


GRID_MODES = {"bilinear": 0, "linear": 0, "nearest": 1, "bicubic": 2, "cubic": 2}
GRID_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


@converts("GridSample")
def grid_sample(b: OnnxBuilder, call: Call, x: Operand, grid: Operand) -> Operand:
    return call_torch(
        b, "aten.grid_sampler.default", input=x, grid=grid,
        interpolation_mode=GRID_MODES[call.get("mode", "linear")],
        padding_mode=GRID_PADDINGS[call.get("padding_mode", "zeros")],
        align_corners=bool(call.get("align_corners", 0)))[0]
