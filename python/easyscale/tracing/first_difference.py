"""Finds the operator of which a captured program first has another result than torch.

Both programs are there: the graph that was traced, whose operators torch runs, and the nodes that
were made of it.
"""
from __future__ import annotations

from typing import Any

import torch

from ..interpret import Context, run_kind
from .check import OUTPUT_ERROR, compare
from .errors import SelfCheckFailed
from .fold import evaluate
from .graph import Graph, Node
from .lower.builder import BUILT, Builder, Val
from .merge import Static
from .same_draws import SameDraws, site_numbers
from .state import State

Tensors = dict[str, torch.Tensor]


def first_difference(static: Static, state: State, inputs: Tensors) -> str:
    """The operator, its line and the two numbers, as a text for a message."""
    tensors = {name: tensor.detach().clone() for name, tensor in state.tensors().items()}
    own = _of_builder(static, tensors, inputs)
    known = _known(static.graph, state, tensors, inputs)
    for node in static.graph.nodes:
        with SameDraws(site_of=lambda draw, first=max(node.site, 0): first + draw,
                       mirrored=static.graph.mirrored):
            known.update(zip(node.outputs, evaluate(node, known)))
        for output in node.outputs:
            value = static.operands.get(output)
            if isinstance(value, Val) and (found := _difference(own[value.id], known[output])):
                return f"the first operator with another result is {_place(node)}, with {found}"
    return ("every operator of the traced program has the result of torch, so a part of the "
            "forward pass is not in it")


def _known(graph: Graph, state: State, tensors: Tensors, inputs: Tensors) -> dict[int, Any]:
    known: dict[int, Any] = {value: x.clone() for value, x in graph.constants.items()}
    known |= {value: tensors[name] for value, name in graph.buffers.items()}
    known |= {value: tensors[state.name_of(name)] for value, name in graph.parameters.items()}
    return known | {value: inputs[name] for name, value in graph.inputs.items()}


@torch.no_grad()
def _of_builder(static: Static, tensors: Tensors, inputs: Tensors) -> dict[int, torch.Tensor]:
    """The values of the nodes, which are those of torch where they have the same type."""
    b: Builder = static.builder
    values = {i: torch.from_numpy(array).to(BUILT[b.values[i].type])
              for i, array in b.constants.items()}
    values |= {val.id: inputs[name].to(BUILT[val.type]) for name, val in static.inputs.items()}
    values |= {val.id: tensors[name].reshape(val.shape) for name, val in static.parameters.items()}
    states = [tensors[name].to(BUILT[val.type]) for name, val in b.states.items()]
    values |= {val.id: x for val, x in zip(b.states.values(), states)}
    for node in b.nodes:
        context = Context(shape=b.values[node.output].shape, draw=site_numbers, states=states,
                          ints=torch.int64)
        given = [None if i < 0 else values[i] for i in node.inputs]
        values[node.output] = run_kind(node.kind, given, node.attributes, context)
    return values


def _difference(own: torch.Tensor, theirs: torch.Tensor) -> str:
    """The two numbers that differ most; "" if none do."""
    try:
        compare("", own, theirs, OUTPUT_ERROR)
        return ""
    except SelfCheckFailed:
        if own.shape != theirs.shape:
            return f"the shape {list(own.shape)} in place of {list(theirs.shape)}"
    apart = (own.double() - theirs.double()).abs().nan_to_num(torch.inf).flatten()
    place = int(apart.argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(place), theirs.shape)]
    found, wanted = (x.flatten()[place].item() for x in (own, theirs))
    return f"{found:.6g} in place of {wanted:.6g} at {index}"


def _place(node: Node) -> str:
    return f"{node.target} in {node.path or 'the model'}" + f" ({node.source})" * bool(node.source)
