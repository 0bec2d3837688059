"""Lowers the train graph and the eval graph of a module into one static program."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from .errors import (CaptureError, LossNotScalar, Missing, NotUnderstood, NoTrainableParameter,
                     StateChanged, UnsupportedOperators, UnsupportedType)
from .decompose import decompose
from .fold import fold_constants
from .functional import SET_STATE, make_functional
from .gradients import expand_gradients
from .graph import Graph, Meta, Node, Ref, refs, remove_unused, replace_refs
from .lower import LOWERINGS
from .lower.builder import TYPES, Builder, Operand, Val, number, type_of
from .lower.integers import NARROW, wrapped
from .lower.table import CannotLower
from .patterns import name_stochastic_depth
from .sites import draws
from .state import State

# Kinds whose result has no gradient.
NO_GRADIENT = {"stop_gradient", "argmax", "argmin", "eq", "ne", "lt", "le", "gt", "ge", "and", "or",
               "not", "floor", "round", "sign"}


@dataclass
class Static:
    """A program at one batch size: what the builder has, and the values that are named."""

    builder: Builder
    inputs: dict[str, Val]
    parameters: dict[str, Val]
    loss: Val
    outputs: list[tuple[str, Val]]
    evaluation_differs: bool = False  # evaluation has nodes that training does not have
    graph: Graph = field(default_factory=Graph)  # of training, if it was traced
    operands: dict[int, Any] = field(default_factory=dict)  # what its values were made to


class _Unknown:
    """Stands for the result of an operator that could not be lowered."""


class Lowering:
    """Lowers one graph into a builder, and collects what cannot be lowered."""

    def __init__(self, builder: Builder, graph: Graph, state: State, named: dict[str, Val],
                 parameters: dict[str, Val], states: dict[str, Val]):
        self.builder, self.graph = builder, graph
        self.values: dict[int, Any] = dict(graph.constants)
        self.values |= {value: named[name] for name, value in graph.inputs.items()}
        self.values |= {value: parameters[state.name_of(target)]
                        for value, target in graph.parameters.items()}
        self.values |= {value: states[name] for value, name in graph.buffers.items()
                        if name in states}
        self.uses = Counter(value for node in graph.nodes for value in refs(node.args))
        self.uses.update(refs(graph.outputs))
        builder.readers.clear()
        self.missing: list[Missing] = []

    def run(self) -> list[Operand]:
        """The outputs of the graph."""
        for node in self.graph.nodes:
            self.builder.node = node
            self.builder.results = [self.graph.metas[output] for output in node.outputs]
            self._lower(node)
        if self.missing:
            raise UnsupportedOperators(self.missing)
        return [replace_refs(output, self.values.__getitem__) for output in self.graph.outputs]

    def _lower(self, node: Node) -> None:
        args = {name: replace_refs(arg, self._known) for name, arg in node.args.items()}
        self._wrap_numbers(node, args)
        results: list = [_Unknown()] * len(node.outputs)
        rule = LOWERINGS.get(node.target)
        if rule is None:
            self._miss(node, "there is no kind for it")
        elif any(value not in self.values for value in refs(node.args)):
            self._miss(node, "there is none for complex numbers")
        elif not _has_unknown(args):
            try:
                results = self._typed(node, rule(self.builder, **args))
            except CannotLower as reason:
                self._miss(node, str(reason))
            except CaptureError:
                raise
            except Exception as error:  # the module has run there, so the rule is wrong
                raise NotUnderstood(
                    f"{node.target} in {node.path or 'the model'}"
                    + f" ({node.source})" * bool(node.source)
                    + f": the capture fails here, and not the model ({type(error).__name__}: {error}); "
                    "write it with other operators of torch") from error
        self.values.update(zip(node.outputs, results))
        self._count_readers(node, results)

    def _wrap_numbers(self, node: Node, args: dict[str, Any]) -> None:
        """A number beside a tensor of narrow integers has their type in torch: uint8 > 300 is > 44."""
        for name, other in (("self", "other"), ("other", "self")):
            beside = node.args.get(other)
            meta = self.graph.metas[beside.id] if isinstance(beside, Ref) else None
            known = number(args[name]) if name in args else None
            if meta is not None and meta.dtype in NARROW and meta.shape and isinstance(
                    known, int) and not isinstance(known, bool):
                args[name] = torch.tensor(known).to(meta.dtype).item()

    def _count_readers(self, node: Node, results: list) -> None:
        """Adds those of the results; an operator that returns what it reads is no reader."""
        passed = {x.id for x in map(self._known, refs(node.args)) if isinstance(x, Val)}
        for output, result in zip(node.outputs, results):
            if isinstance(result, Val):
                self.builder.readers[result.id] += self.uses[output] - (result.id in passed)

    def _known(self, value: int) -> Any:
        """A value; one of complex numbers is not known if it was replaced by its parts."""
        return self.values.get(value, _Unknown())

    def _miss(self, node: Node, reason: str) -> None:
        self.missing.append(Missing(node.target, reason, node.path, node.source))

    def _typed(self, node: Node, result: Any) -> list:
        """The results that are read, which must have the extents and types that torch has."""
        results = result if isinstance(result, list) else [result]
        typed = []
        for output, operand in zip(node.outputs, results):
            meta = self.graph.metas[output]
            if operand is None and output in self.uses:
                raise CannotLower(f"its result {len(typed)}")
            if operand is not None and output in self.uses:
                if tuple(operand.shape) != meta.shape:
                    raise AssertionError(f"{node.target}: {operand.shape}, torch has {meta.shape}")
                if isinstance(operand, Val):
                    if meta.dtype not in TYPES:
                        raise CannotLower(f"its result has the type {meta.dtype}; compute with "
                                          "float32, long or bool")
                    operand = wrapped(self.builder, node.target, operand, meta.dtype)
                    operand = self.builder.cast(operand, TYPES[meta.dtype])
                else:
                    operand = operand.to(meta.dtype)
            typed.append(operand)
        return typed


def _has_unknown(tree: Any) -> bool:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        return any(_has_unknown(item) for item in tree)
    return isinstance(tree, _Unknown)


def simplify(graph: Graph, state: State, training: bool, states: set[str]) -> Graph:
    """Brings a graph that was read into the form that is lowered. `states` are the names of what training
    writes, as far as they are known; a graph of training adds its own."""
    graph.training = training
    counters, frozen = state.counters(), state.frozen()
    for value in [value for value in graph.buffers if graph.metas[value].dtype.is_complex]:
        # Its parts are taken apart, so it is a constant from the beginning.
        graph.constants[value] = state.tensors()[state.name_of(graph.buffers.pop(value))].detach()
    _read_complex_parameters(graph)
    decompose(graph)
    make_functional(graph, counters, frozen)
    remove_unused(graph)
    if expand_gradients(graph):
        decompose(graph)
        make_functional(graph, counters, frozen)
        remove_unused(graph)
    tensors = state.tensors()
    graph.written = {value: state.name_of(target) for value, target in graph.written.items()}
    for node in graph.nodes:
        if node.target == SET_STATE:
            node.args["name"] = state.name_of(node.args["name"])
    graph.buffers = {value: state.name_of(target) for value, target in graph.buffers.items()}
    if training:
        states = states | set(graph.written.values())
    for value, target in list(graph.parameters.items()):
        if state.name_of(target) in states:  # a frozen parameter that is written
            graph.buffers[value] = state.name_of(graph.parameters.pop(value))
    fold_constants(graph, tensors, states)
    remove_unused(graph)
    name_stochastic_depth(graph)
    remove_unused(graph)
    if not training:
        _check_unwritten(graph)
    return graph


def _read_complex_parameters(graph: Graph) -> None:
    """A complex parameter is stored as its parts, and read by view_as_complex."""
    for value, name in [*graph.parameters.items()]:
        meta = graph.metas[value]
        if meta.dtype.is_complex:
            stored = graph.new_value(Meta((*meta.shape, 2), torch.float32))
            graph.parameters[stored] = graph.parameters.pop(value)
            graph.nodes.insert(0, Node("aten.view_as_complex.default", {"self": Ref(stored)}, [value]))


def _check_unwritten(graph: Graph) -> None:
    """Raises StateChanged if an output of an evaluation depends on what it writes: every mini-batch of
    an evaluation begins with the same contents. Numbers are no outputs."""
    read = {value for value in refs(graph.outputs) if graph.metas[value].shape}
    for node in reversed(graph.nodes):
        if read.intersection(node.outputs):
            read.update(refs(node.args))
    for value, name in graph.written.items():
        if value in read:
            raise StateChanged(f"the forward pass changes {name} in evaluations too, and their outputs "
                               "depend on it; write it in training only (if self.training)")


def lower_both(train: Graph, evaluation: Graph | None, state: State,
               output_names: list[str], distinct: bool = False) -> Static:
    """One program of both graphs; without an eval graph the outputs are those of training.

    `distinct`: constants that are equal are not one value.
    """
    builder = Builder(distinct=distinct)
    inputs = {name: builder.new_value(train.metas[value].shape, _input_type(train, value))
              for name, value in train.inputs.items()}
    builder.samples = next(iter(inputs.values())).shape[0]
    parameters = {tied.names[0]: builder.new_value(tuple(tied.numbers().shape), "f32")
                  for tied in state.parameters.values()
                  if tied.names[0] not in train.written.values()}
    builder.buffers = train.buffers
    states = builder.states = {name: builder.new_value(*_state_value(state, name))
                               for name in sorted(train.written.values())}
    lowering = Lowering(builder, train, state, inputs, parameters, states)
    results = lowering.run()
    loss, *outputs = results[:len(results) - len(train.written)]
    check_loss(builder, loss, [parameters[tied.names[0]] for tied in state.parameters.values()
                                if tied.tensor.requires_grad])
    trained = len(builder.nodes)
    builder.sites = max((node.site + max(1, draws(node.target, node.args)) for node in train.nodes
                         if node.site >= 0), default=0)
    builder.mirrored = train.mirrored
    if evaluation is not None:
        builder.buffers, builder.evaluating = evaluation.buffers, True
        outputs = Lowering(builder, evaluation, state, inputs, parameters, states).run()
    builder.node = None
    named = [(name, builder.value(x)) for name, x in zip(output_names, outputs)
             if isinstance(x, (Val, torch.Tensor))]
    return Static(builder, inputs, parameters, loss, named, len(builder.nodes) > trained, train,
                  lowering.values)


def _state_value(state: State, name: str) -> tuple[tuple[int, ...], str]:
    """Shape and type of what a forward pass in training writes."""
    tensor = state.tensors()[name].detach()
    if others := state.names_of_memory(tensor) - {name}:
        raise StateChanged(f"the forward pass changes {name}, whose memory {min(others)} "
                           "shares; give each a tensor of its own (clone)")
    if tensor.dtype not in TYPES:
        raise UnsupportedType(f"the forward pass changes {name}, which has the type "
                              f"{tensor.dtype}; give it the type torch.float32, long or bool")
    if tensor.dtype.is_floating_point and not torch.isfinite(tensor).all():
        raise StateChanged(f"the forward pass changes {name}, which has an element that is "
                           "not finite; let it begin with a finite number")
    return tuple(tensor.shape), TYPES[tensor.dtype]


def _input_type(graph: Graph, value: int) -> str:
    dtype = graph.metas[value].dtype
    if dtype not in TYPES:
        raise UnsupportedOperators([Missing("input", f"a field of the type {dtype}", "", "")])
    return TYPES[dtype]


def check_loss(builder: Builder, loss: Operand, trainable: list[Val]) -> None:
    """Raises CaptureError unless the loss is one number that depends on a trainable parameter."""
    if not isinstance(loss, Val):
        raise NoTrainableParameter("the loss is a constant: no parameter takes part in it")
    if loss.shape != () or type_of(loss) != "f32":
        raise LossNotScalar(f"the loss has the shape {list(loss.shape)}; it must be one number")
    live = {val.id for val in trainable}
    for node in builder.nodes:
        if node.kind not in NO_GRADIENT and live.intersection(node.inputs):
            live.add(node.output)
    if loss.id not in live:
        raise NoTrainableParameter("no parameter that needs a gradient takes part in the loss; is "
                                   "the forward pass inside of torch.no_grad?")
