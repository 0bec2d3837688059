"""Replaces operators that have no lowering by operators that have one.

Such an operator is written with others in rewrites/, or torch knows how it is made of others. The
function is traced for the shapes of the node, and the nodes of this trace take its place.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from . import matrices  # noqa: F401  (its functions are registered)
from .complex_numbers import Complex, rule_for
from .errors import Missing, UnsupportedOperators
from .fold import FILLED
from .graph import Graph, Node, Ref, meta_of, refs, replace_refs
from .lower import LOWERINGS
from .lower.integers import OF_INTEGERS
from .rewrites import REWRITES
from .schema import functional_name, named_arguments, operator, written_argument

DEPTH_MAX = 8  # decompositions of decompositions
# A lowering of these refuses some arguments, for which there is a function.
ROUNDING = {"aten.div.Tensor_mode", "aten.div.Scalar_mode"}
ARITHMETIC_DIVISION = (None, "floor")


def traced(run: Callable, fakes: list[torch.Tensor]) -> torch.fx.GraphModule:
    """The trace of a function, with its detach(). torch 2.15 drops them unless a table is given."""
    return make_fx(run, decomposition_table={})(*fakes)


def decompose(graph: Graph) -> None:
    """Replaces what can be replaced; the rest stays, and the lowering reports it."""
    _Decomposer(graph).run()


class _Unknown(Exception):
    """There is no decomposition, or it ends at an operator that has no lowering."""


class _Decomposer:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.same: dict[int, int] = {}  # output of a replaced node -> value of its replacement
        self.parts: dict[int, tuple[int, ...]] = {}  # complex value -> its real and imaginary part

    def run(self) -> None:
        nodes: list[Node] = []
        for node in self.graph.nodes:
            node.args = {k: replace_refs(x, self._value) for k, x in node.args.items()}
            nodes += self._replaced(node)
        self.graph.outputs = replace_refs(self.graph.outputs, self._value)
        self.graph.nodes = nodes

    def _value(self, value: int) -> Ref:
        return Ref(self.same.get(value, value))

    def _replaced(self, node: Node) -> list[Node]:
        complex_ = not all(map(self._is_real, [*refs(node.args), *node.outputs]))
        if not complex_ and _has_lowering(node, self.graph):
            return [node]
        try:
            nodes, results = self._traced(node, DEPTH_MAX)
        except _Unknown:
            if complex_ and written_argument(node.target):
                # Nothing reads its result, so the lowering would not see it.
                raise UnsupportedOperators([Missing(
                    node.target, "it writes complex numbers", node.path, node.source)]) from None
            return [node]
        written = written_argument(node.target)
        if written is not None and not self._is_real(node.outputs[0]):
            return [*nodes, *self._written_parts(node, written)]
        if written is not None:
            # The new content is written where the operator would have written it.
            copied = {"self": node.args[written], "src": Ref(results[0]), "non_blocking": False}
            return [*nodes, Node("aten.copy_.default", copied, node.outputs, node.path,
                                 node.source, region=node.region, no_grad=node.no_grad)]
        self.same.update(zip(node.outputs, results))
        return nodes

    def _written_parts(self, node: Node, written: str) -> list[Node]:
        """Writes both parts of new complex content where the operator would have written it."""
        (output,), copies, after = node.outputs, [], []
        for old, new in zip(self._parts(node.args[written].id), self.parts[output]):
            after.append(self.graph.new_value(self.graph.metas[old]))
            copies.append(Node("aten.copy_.default", {
                "self": Ref(old), "src": Ref(new), "non_blocking": False}, [after[-1]], node.path,
                node.source, region=node.region))
        self.parts[output] = tuple(after)
        return copies

    def _traced(self, node: Node, depth: int) -> tuple[list[Node], list[int]]:
        """The nodes that replace one node, and their values for its outputs."""
        arguments = list(dict.fromkeys(refs(node.args)))
        real = all(map(self._is_real, [*arguments, *node.outputs]))
        function = _function_of(node.target) if real else _complex_function_of(node.target)
        if depth == 0 or node.site >= 0:
            raise _Unknown
        if function is None and not real:
            return self._written_out(node, arguments, depth)
        if function is None:
            raise _Unknown
        # A complex argument is traced as its two parts.
        values = [part for value in arguments for part in self._parts(value)]

        def run(*tensors: torch.Tensor) -> Any:
            given = iter(tensors)
            known = {v: next(given) if self._is_real(v) else Complex(next(given), next(given))
                     for v in arguments}
            return _flat(called(function, node.target, {
                k: replace_refs(x, known.__getitem__) for k, x in node.args.items()}))
        nodes, results = self._copied(self._trace(run, values), values, node, depth)
        return nodes, results if real else self._joined(node, results)

    def _trace(self, run: Callable, values: list[int]) -> torch.fx.GraphModule:
        """The trace of a function of tensors like these values."""
        try:
            with FakeTensorMode() as mode:
                fakes = [torch.empty(self.graph.metas[v].shape, dtype=self.graph.metas[v].dtype)
                         for v in values]
            with mode:
                return traced(run, fakes)
        except Exception as error:  # a decomposition raises whatever it does not support
            raise _Unknown from error

    def _written_out(self, node: Node, arguments: list[int],
                     depth: int) -> tuple[list[Node], list[int]]:
        """Replaces an operator on complex numbers by others on them, as torch itself does."""
        function = _function_of_torch(node.target)
        if function is None:
            raise _Unknown

        def run(*tensors: torch.Tensor) -> Any:
            known = dict(zip(arguments, tensors))
            return called(function, node.target, {
                k: replace_refs(x, known.__getitem__) for k, x in node.args.items()})
        nodes, results = self._copied(self._trace(run, arguments), arguments, node, depth)
        for output, result in zip(node.outputs, results):
            if not self._is_real(output):
                self.parts[output] = self._parts(result)
        return nodes, [result if self._is_real(output) else output
                       for output, result in zip(node.outputs, results)]

    def _is_real(self, value: int) -> bool:
        meta = self.graph.metas[value]
        return meta is None or not meta.dtype.is_complex

    def _parts(self, value: int) -> tuple[int, ...]:
        """The values that stand for a value: its parts, if it is complex."""
        if self._is_real(value):
            return (value,)
        if value not in self.parts:
            constant = self.graph.constants.get(value)
            if constant is None:
                raise _Unknown
            whole = torch.view_as_real(constant.resolve_conj())
            self.parts[value] = tuple(self._constant(whole[..., i].contiguous()).id for i in (0, 1))
        return self.parts[value]

    def _joined(self, node: Node, results: list[int]) -> list[int]:
        """The outputs of a node; those that are complex get their parts."""
        given = iter(results)
        outputs = []
        for output in node.outputs:
            if self._is_real(output):
                outputs.append(next(given))
            else:
                self.parts[output] = (next(given), next(given))
                outputs.append(output)
        return outputs

    def _copied(self, trace: torch.fx.GraphModule, values: list[int], origin: Node,
                depth: int) -> tuple[list[Node], list[int]]:
        known: dict[Any, Any] = {}
        nodes: list[Node] = []
        inputs = iter(values)
        for node in trace.graph.nodes:
            if node.op == "placeholder":
                known[node] = Ref(next(inputs))
            elif node.op == "get_attr":
                known[node] = self._constant(getattr(trace, node.target))
            elif node.op == "call_function":
                known[node] = self._call(node, known, origin, nodes, depth)
            elif node.op == "output":
                results = trace_arguments(node.args[0], known)
        return nodes, list(refs(results))

    def _constant(self, tensor: torch.Tensor) -> Ref:
        value = self.graph.new_value(meta_of(tensor))
        self.graph.constants[value] = tensor.detach()
        return Ref(value)

    def _call(self, node: Any, known: dict, origin: Node, nodes: list[Node], depth: int) -> Any:
        if getattr(node.target, "__name__", "") == "getitem":
            return known[node.args[0]][node.args[1]]
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
            raise _Unknown
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            raise _Unknown  # its draws would have no number
        args = named_arguments(node.target, trace_arguments(node.args, known),
                               trace_arguments(node.kwargs, known))
        results = node.meta["val"]
        single = not isinstance(results, (list, tuple))
        outputs = [self.graph.new_value(meta_of(x)) for x in ([results] if single else results)]
        new = Node(str(node.target), args, outputs, origin.path, origin.source,
                   region=origin.region)
        real = all(map(self._is_real, [*refs(args), *outputs]))
        if real and _has_lowering(new, self.graph):
            nodes.append(new)
        else:
            inner, outputs = self._traced(new, depth - 1)
            nodes += inner
        return Ref(outputs[0]) if single else [Ref(x) for x in outputs]


def _has_lowering(node: Node, graph: Graph) -> bool:
    target = node.target
    if written_argument(target) is not None:
        target = functional_name(target) or target
    if target in OF_INTEGERS:
        return not graph.metas[node.outputs[0]].dtype.is_floating_point
    if target in ROUNDING:
        return (node.args["rounding_mode"] in ARITHMETIC_DIVISION
                and graph.metas[node.outputs[0]].dtype == torch.float32)
    return (target in LOWERINGS or target == "aten.copy_.default"
            or target.split(".")[1] in FILLED or _reads_no_tensor(node))


def _reads_no_tensor(node: Node) -> bool:
    """True for torch.zeros and the like: it is evaluated."""
    return next(refs(list(node.args.values())), None) is None


def _function_of(target: str) -> Callable | None:
    target = functional_name(target) or target if written_argument(target) else target
    return REWRITES.get(target) or _function_of_torch(target)


def _function_of_torch(target: str) -> Callable | None:
    op = operator(target)
    # Of a gradient, newer versions trace the kernel that is made of others as the operator itself.
    composite = not (target.split(".")[1].endswith("_backward") and op in decomposition_table)
    if composite and torch._C._dispatch_has_kernel_for_dispatch_key(
            op.name(), "CompositeImplicitAutograd"):
        return op.decompose
    return decomposition_table.get(op)


def _complex_function_of(target: str) -> Callable | None:
    rule = rule_for(target)
    return None if rule is None else functools.partial(rule, operator(target))


def _flat(results: Any) -> Any:
    """The results of a function, with the two parts of a complex one."""
    if isinstance(results, Complex):
        return [results.real, results.imag]
    if isinstance(results, (list, tuple)):
        return [part for result in results for part in
                (_flat(result) if isinstance(result, Complex) else [result])]
    return results


def called(function: Callable, target: str, args: dict[str, Any]) -> Any:
    """Calls a function like the operator: torch's functions name some arguments otherwise."""
    schema = operator(target)._schema.arguments
    return function(*(args[a.name] for a in schema if not a.kwarg_only and a.name in args),
                    **{a.name: args[a.name] for a in schema if a.kwarg_only and a.name in args})


def trace_arguments(tree: Any, known: dict) -> Any:
    if isinstance(tree, torch.fx.Node):
        return known[tree]
    if isinstance(tree, (list, tuple)):
        return [trace_arguments(item, known) for item in tree]
    if isinstance(tree, dict):
        return {key: trace_arguments(item, known) for key, item in tree.items()}
    return tree
