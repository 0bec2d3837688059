"""Operators of torch that an operator of ONNX is written with."""
from __future__ import annotations

from typing import Any

import torch

from ..tracing.errors import UnsupportedOperators
from ..tracing.graph import Graph, Meta, Node, Ref, meta_of, replace_refs
from ..tracing.lower.builder import BUILT, Operand, Val
from ..tracing.lower.table import CannotLower
from ..tracing.merge import Lowering, simplify
from ..tracing.schema import operator
from .builder import OnnxBuilder
from .state import BufferState


def call_torch(b: OnnxBuilder, target: str, **args: Any) -> list[Operand]:
    """The results of an operator such as "aten.topk.default", whose arguments are all named."""
    graph, named, known = Graph(), {}, {}

    def value_of(x: Any) -> Any:
        if isinstance(x, list):
            return [value_of(item) for item in x]
        if not isinstance(x, (Val, torch.Tensor)):
            return x
        meta = Meta(tuple(x.shape), BUILT[x.type]) if isinstance(x, Val) else meta_of(x)
        value = graph.new_value(meta)
        if isinstance(x, Val):
            name = f"operand{value}"
            graph.inputs[name], named[name] = value, x
        else:
            graph.constants[value] = x
        known[value] = torch.empty(meta.shape, dtype=meta.dtype, device="meta")
        return Ref(value)
    given = {name: value_of(x) for name, x in args.items()}
    results = operator(target)(**{name: replace_refs(x, known.__getitem__)
                                  for name, x in given.items()})
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    outputs = [graph.new_value(meta_of(x)) for x in results]
    graph.nodes.append(Node(target, given, outputs))
    graph.outputs = [Ref(value) for value in outputs]
    node, readers = b.node, b.readers.copy()
    try:
        state: Any = BufferState({})
        simple = simplify(graph, state, training=True, states=set())
        return Lowering(b, simple, state, named, {}, {}).run()
    except UnsupportedOperators as error:
        raise CannotLower(error.missing[0].reason) from error
    finally:
        b.node, b.readers = node, readers
