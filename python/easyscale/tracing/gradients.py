"""torch.autograd.grad inside of a forward pass: the gradients that a loss is made of.

Physics-informed networks and gradient penalties need them. While a forward pass is traced, such a
call becomes one operator; after the trace the nodes between its inputs and its outputs are run once
more by torch's autograd, and the nodes of this backward pass take the place of the operator. The
engine then differentiates these like any others.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .decompose import called, trace_arguments, traced
from .errors import CaptureError, Missing, UnsupportedOperators
from .graph import Graph, Node, Ref, meta_of, refs, replace_refs
from .regions import LIBRARY
from .schema import named_arguments, operator

GRADIENT = "easyscale.gradient.default"
CUTS = {"aten.detach.default"}
DRAWN = {"bernoulli", "normal_functional", "uniform"}

LIBRARY.define("gradient(Tensor[] outputs, Tensor[] inputs, Tensor[] weights) -> Tensor[]")
LIBRARY.impl("gradient", lambda outputs, inputs, weights: [torch.zeros_like(x) for x in inputs],
             "CompositeExplicitAutograd")


def traced_gradient(outputs: Any, inputs: Any, grad_outputs: Any = None,
                    retain_graph: bool | None = None, create_graph: bool = False,
                    only_inputs: bool = True, allow_unused: bool | None = None,
                    is_grads_batched: bool = False,
                    materialize_grads: bool = False) -> tuple[torch.Tensor, ...]:
    """What torch.autograd.grad does under a tracer."""
    outputs, inputs = _listed(outputs), _listed(inputs)
    given = [None] * len(outputs) if grad_outputs is None else _listed(grad_outputs)
    if is_grads_batched:
        raise CaptureError("torch.autograd.grad(is_grads_batched=True) cannot be captured; call it "
                           "once for each gradient")
    weights = [torch.ones_like(output) if weight is None else weight
               for output, weight in zip(outputs, given)]
    found = torch.ops.easyscale.gradient(outputs, inputs, weights)
    return tuple(found) if create_graph else tuple(gradient.detach() for gradient in found)


def _listed(tensors: Any) -> list:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def expand_gradients(graph: Graph) -> bool:
    """Replaces the gradients of a functional graph by the nodes that compute them, and returns
    whether there was one."""
    nodes: list[Node] = []
    same: dict[int, int] = {}
    for node in graph.nodes:
        node.args = {name: replace_refs(x, lambda value: Ref(same.get(value, value)))
                     for name, x in node.args.items()}
        if node.target != GRADIENT:
            nodes.append(node)
            continue
        new, results = _Backward(graph, nodes, node).run()
        nodes += new
        same.update(zip(node.outputs, results))
    graph.nodes = nodes
    graph.outputs = replace_refs(graph.outputs, lambda value: Ref(same.get(value, value)))
    return bool(same)


class _Backward:
    """The nodes of one gradient; `before` are those of the graph in front of it."""

    def __init__(self, graph: Graph, before: Sequence[Node], node: Node):
        self.graph, self.node = graph, node
        self.outputs, self.inputs, self.weights = (
            list(refs(node.args[name])) for name in ("outputs", "inputs", "weights"))
        self.forward = self._between(before)

    def run(self) -> tuple[list[Node], list[int]]:
        """The nodes, and their values for the outputs of the gradient."""
        made = {value for node in self.forward for value in node.outputs}
        read = [value for node in self.forward for value in refs(node.args)]
        outside = list(dict.fromkeys(
            [*self.inputs, *self.weights, *[x for x in [*read, *self.outputs] if x not in made]]))
        with FakeTensorMode() as mode:
            fakes = [torch.empty(self.graph.metas[v].shape, dtype=self.graph.metas[v].dtype)
                     for v in outside]
        with mode, torch.enable_grad():
            trace = traced(lambda *tensors: self._gradients(dict(zip(outside, tensors))), fakes)
        return self._copied(trace, outside)

    def _between(self, before: Sequence[Node]) -> list[Node]:
        """The nodes that depend on the inputs and that the outputs depend on."""
        needed, dependent = set(self.outputs) - set(self.inputs), set(self.inputs)
        for node in before:
            if not _ends_gradients(node) and dependent.intersection(refs(node.args)):
                dependent.update(node.outputs)
        kept = []
        for node in reversed(before):
            if needed.intersection(node.outputs) and dependent.intersection(node.outputs) and not (
                    set(self.inputs).intersection(node.outputs)):
                _check_repeatable(node)
                kept.append(node)
                needed.update(set(refs(node.args)) - set(self.inputs))
        return kept[::-1]

    def _gradients(self, known: dict[int, torch.Tensor]) -> list[torch.Tensor]:
        leaves = {value: known[value].detach().requires_grad_(True) for value in self.inputs}
        known = known | leaves
        for node in self.forward:
            results = called(operator(node.target), node.target, {
                name: replace_refs(x, known.__getitem__) for name, x in node.args.items()})
            known |= zip(node.outputs, [results] if isinstance(results, torch.Tensor) else results)
        found = torch.autograd.grad(
            [known[value] for value in self.outputs], list(leaves.values()),
            [known[value] for value in self.weights], allow_unused=True)
        return [torch.zeros_like(leaf) if gradient is None else gradient
                for leaf, gradient in zip(leaves.values(), found)]

    def _copied(self, trace: torch.fx.GraphModule,
                outside: list[int]) -> tuple[list[Node], list[int]]:
        known: dict[Any, Any] = {}
        nodes: list[Node] = []
        given = iter(outside)
        for call in trace.graph.nodes:
            if call.op == "placeholder":
                known[call] = Ref(next(given))
            elif call.op == "get_attr":
                tensor = getattr(trace, call.target)
                known[call] = Ref(self.graph.new_value(meta_of(tensor)))
                self.graph.constants[known[call].id] = tensor.detach()
            elif call.op == "output":
                results = list(refs(trace_arguments(call.args[0], known)))
            elif getattr(call.target, "__name__", "") == "getitem":
                known[call] = known[call.args[0]][call.args[1]]
            elif str(call.target) in CUTS:
                known[call] = known[call.args[0]]  # autograd keeps results so; no gradient ends here
            else:
                known[call] = self._call(call, known, nodes)
        return nodes, results

    def _call(self, call: torch.fx.Node, known: dict[Any, Any], nodes: list[Node]) -> Any:
        args = named_arguments(call.target, trace_arguments(call.args, known),
                               trace_arguments(call.kwargs, known))
        results = call.meta["val"]
        single = isinstance(results, torch.Tensor)
        outputs = [self.graph.new_value(meta_of(x)) for x in ([results] if single else results)]
        nodes.append(Node(str(call.target), args, outputs, self.node.path, self.node.source,
                          region=self.node.region))
        return Ref(outputs[0]) if single else [Ref(x) for x in outputs]


def _ends_gradients(node: Node) -> bool:
    """Whether no gradient passes a node: random numbers take the shape of an input only."""
    name = node.target.split(".")[1]
    return node.target in CUTS or (node.site >= 0 and (name in DRAWN or name.endswith("_like")))


def _check_repeatable(node: Node) -> None:
    """Raises UnsupportedOperators for a node that would not do the same when it is run again."""
    if node.site >= 0:
        reason = "it draws random numbers"
    elif node.args.get("training") and "running_mean" in node.args:
        reason = "it changes statistics"
    else:
        return
    raise UnsupportedOperators([Missing(
        node.target, f"{reason} between the inputs and the outputs of a torch.autograd.grad",
        node.path, node.source)])
