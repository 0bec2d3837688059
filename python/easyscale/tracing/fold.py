"""Evaluates with torch what depends on constants only, so that the file has its result."""
from __future__ import annotations

from typing import Any

import torch

from .functional import SET_STATE
from .graph import Graph, Meta, Node, Ref, refs, replace_refs
from .schema import operator


# Operators whose result depends on the shape of their argument only, and what they fill it with.
FILLED = {"zeros_like": 0, "ones_like": 1, "full_like": None, "empty_like": 0, "new_zeros": 0,
          "new_ones": 1, "new_full": None, "new_empty": 0}


def fold_constants(graph: Graph, state: dict[str, torch.Tensor], states: set[str]) -> None:
    """Moves the results of constant nodes to `graph.constants`.

    Buffers are constants too, with the content that `state` has under their names, but not those whose
    names are `states`, which a step of training changes.
    """
    known = dict(graph.constants)
    for value, name in graph.buffers.items():
        if name not in states:
            known[value] = state[name].detach()
    kept = []
    for node in graph.nodes:
        filled = _filled(node, graph.metas[node.outputs[0]], known)
        if filled is not None:
            known[node.outputs[0]] = filled
        elif node.target != SET_STATE and not _is_random(node) and all(value in known for value in refs(node.args)):
            known.update(zip(node.outputs, evaluate(node, known)))
        else:
            kept.append(node)
    graph.nodes = kept
    graph.constants = known


def _is_random(node: Node) -> bool:
    """Whether a node draws, also one whose draws the lowering refuses."""
    return node.site >= 0 or torch.Tag.nondeterministic_seeded in operator(node.target).tags


def _filled(node: Node, meta: Meta, known: dict[int, torch.Tensor]) -> torch.Tensor | None:
    """The result of a node of FILLED, if its number is known."""
    name = node.target.split(".")[1]
    if name not in FILLED:
        return None
    number = node.args.get("fill_value", FILLED[name])
    if isinstance(number, Ref):
        if number.id not in known:
            return None
        number = known[number.id].item()
    return torch.full(meta.shape, number, dtype=meta.dtype)


@torch.no_grad()
def evaluate(node: Node, known: dict[int, torch.Tensor]) -> list[Any]:
    """The results of a node whose arguments are known."""
    args = {name: replace_refs(arg, known.__getitem__) for name, arg in node.args.items()}
    result = operator(node.target)(**args)
    return list(result) if isinstance(result, (list, tuple)) else [result]
