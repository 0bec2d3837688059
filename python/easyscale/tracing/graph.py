"""The neutral graph between a tracer and the lowering.

A Graph knows the names of aten operators, but no version of torch.export. Values are numbers; an
argument that is no value stays what it is in Python.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Ref:
    """A value of the graph as an argument."""

    id: int


@dataclass(frozen=True)
class Meta:
    """Shape and element type of a value."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def meta_of(value: Any) -> Meta | None:
    """Shape and type of a tensor; None for another value."""
    if not isinstance(value, torch.Tensor):
        return None
    return Meta(tuple(int(size) for size in value.shape), value.dtype)


@dataclass
class Node:
    """A call of an aten operator: `args` has all arguments of its schema by name.

    `site` numbers the random draws in the order of execution; -1 for other operators. A recurrent
    layer draws once between each two of its layers, and `site` is the first number. `path` is
    the module's path and `source` the user's line. Nodes with the same `region` other than 0 are
    computed again in the backward pass. `no_grad`: the node stands in a block of torch.no_grad, so no
    gradient flows through what it writes.
    """

    target: str
    args: dict[str, Any]
    outputs: list[int]
    path: str = ""
    source: str = ""
    site: int = -1
    region: int = 0
    no_grad: bool = False


@dataclass
class Graph:
    """Nodes in the order of execution, and what they read from outside.

    `inputs` are values by name, `parameters` and `buffers` names by value, and `constants` tensors
    by value. `written` are the buffers and frozen parameters that the nodes write, names by value.
    `outputs` has the flat results, and in `training` behind them the next contents of these. `mirrored` are the sites of which the module uses 1 - u
    where its program uses u.
    """

    nodes: list[Node] = field(default_factory=list)
    metas: dict[int, Meta] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    parameters: dict[int, str] = field(default_factory=dict)
    buffers: dict[int, str] = field(default_factory=dict)
    constants: dict[int, torch.Tensor] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    written: dict[int, str] = field(default_factory=dict)
    training: bool = True
    mirrored: set[int] = field(default_factory=set)

    def new_value(self, meta: Meta | None) -> int:
        """Adds a value."""
        number = len(self.metas)
        self.metas[number] = meta
        return number


def refs(tree: Any) -> Iterator[int]:
    """The values in an argument, which may be a list or a dict of arguments."""
    if isinstance(tree, Ref):
        yield tree.id
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from refs(item)
    elif isinstance(tree, dict):
        yield from refs(list(tree.values()))


def replace_refs(tree: Any, change: Callable[[int], Any]) -> Any:
    """An argument with every value exchanged by what `change` returns for it."""
    if isinstance(tree, Ref):
        return change(tree.id)
    if isinstance(tree, (list, tuple)):
        return [replace_refs(item, change) for item in tree]
    if isinstance(tree, dict):
        return {key: replace_refs(item, change) for key, item in tree.items()}
    return tree


# The norms that change running statistics, and the argument that says so.
NORMS = {"aten.batch_norm.default": "training", "aten.instance_norm.default": "use_input_stats"}


def moves_statistics(graph: Graph, node: Node) -> bool:
    """Whether a node is a norm that changes running statistics, in training."""
    if not graph.training or node.target not in NORMS or not node.args[NORMS[node.target]]:
        return False
    return any(value in graph.buffers for value in refs(node.args["running_mean"]))


def remove_unused(graph: Graph) -> None:
    """Removes the nodes that no output needs and that change nothing."""
    needed = set(refs(graph.outputs))
    kept = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs) or moves_statistics(graph, node):
            kept.append(node)
            needed.update(refs(node.args))
    graph.nodes = kept[::-1]
