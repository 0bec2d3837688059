"""Operators whose numbers are inputs of a program: the same with tensors without dims."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..graph import Graph, Meta, Node, Ref
from ..schema import functional_name, operator, written_argument

TENSOR_TYPES = {"Tensor", "Optional[Tensor]", "List[Tensor]", "List[Optional[Tensor]]"}
# Operators of a number that are lowered with a tensor in its place.
SAME = {"mul.Scalar", "div.Scalar", "add.Scalar", "sub.Scalar", "rsub.Scalar", "where.ScalarOther",
        "where.ScalarSelf", "where.Scalar", "masked_fill.Scalar", "lerp.Scalar", "lerp.Tensor",
        *(f"{name}.Scalar" for name in ("eq", "ne", "lt", "le", "gt", "ge"))}


class _Rewriter:
    def __init__(self, graph: Graph):
        self.graph = graph

    def run(self) -> None:
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes += self._replaced(node) if _has_numbers(node) else [node]
        self.graph.nodes = nodes

    def _replaced(self, node: Node) -> list[Node]:
        written = written_argument(node.target)
        target = node.target if written is None else functional_name(node.target) or node.target
        name, overload = target.split(".")[1:]
        rule = RULES.get(name)
        if f"{name}.{overload}" in SAME:
            rule = _same
        if rule is None:
            return [node]
        new: list[Node] = []

        def emit(operation: str, /, **args: Any) -> Ref:
            meta = self.graph.metas[node.outputs[0]]
            shapes = [self._shape(x) for x in args.values() if isinstance(x, Ref)]
            shape = meta.shape if name in ("full", "fill", "full_like", "new_full") else (
                _broadcast([s for s in shapes if s is not None]))
            value = self.graph.new_value(Meta(shape, meta.dtype))
            new.append(Node(f"aten.{operation}", args, [value], node.path, node.source))
            return Ref(value)
        result = rule(emit, {"name": f"{name}.{overload}", **node.args}, self.graph.metas[
            node.outputs[0]])
        if result is None:
            return [node]
        if written is not None:
            copied = {"self": node.args[written], "src": result, "non_blocking": False}
            new.append(Node("aten.copy_.default", copied, node.outputs, node.path, node.source))
        elif new and result.id in new[-1].outputs:
            new[-1].outputs = node.outputs
        else:
            new.append(Node("aten.clone.default", {"self": result, "memory_format": None},
                            node.outputs, node.path, node.source))
        return new

    def _shape(self, x: Ref) -> tuple[int, ...] | None:
        meta = self.graph.metas[x.id]
        return None if meta is None else meta.shape


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(*shapes))


def _has_numbers(node: Node) -> bool:
    """Whether a value stands where the operator takes a number."""
    if not node.target.startswith("aten."):
        return False
    arguments = operator(node.target)._schema.arguments
    return any(isinstance(node.args.get(a.name), Ref) and str(a.type) not in TENSOR_TYPES
               for a in arguments)


def _same(emit: Callable, a: dict[str, Any], meta: Meta) -> Ref:
    name = a.pop("name")
    return emit(name, **a)


def _times(emit: Callable, x: Any, factor: Any) -> Any:
    if isinstance(factor, (int, float)) and factor == 1:
        return x
    if not isinstance(x, Ref) and not isinstance(factor, Ref):
        return x * factor
    first, second = (x, factor) if isinstance(x, Ref) else (factor, x)
    return emit("mul.Tensor", self=first, other=second)


def _plus(emit: Callable, x: Any, y: Any) -> Ref:
    first, second = (x, y) if isinstance(x, Ref) else (y, x)
    return emit("add.Tensor", self=first, other=second, alpha=1)


def _add(emit: Callable, a: dict[str, Any], meta: Meta) -> Ref:
    return _plus(emit, a["self"], _times(emit, a["other"], a["alpha"]))


def _sub(emit: Callable, a: dict[str, Any], meta: Meta) -> Ref:
    return emit("sub.Tensor", self=a["self"], other=_times(emit, a["other"], a["alpha"]), alpha=1)


def _addcmul(emit: Callable, a: dict[str, Any], meta: Meta) -> Ref:
    product = emit("mul.Tensor", self=_times(emit, a["tensor1"], a["value"]), other=a["tensor2"])
    return _plus(emit, a["self"], product)


def _addcdiv(emit: Callable, a: dict[str, Any], meta: Meta) -> Ref:
    quotient = emit("div.Tensor", self=_times(emit, a["tensor1"], a["value"]), other=a["tensor2"])
    return _plus(emit, a["self"], quotient)


def _pow(emit: Callable, a: dict[str, Any], meta: Meta) -> Ref:
    if not isinstance(a["self"], Ref):
        return emit("pow.Scalar", self=a["self"], exponent=a["exponent"])
    return emit("pow.Tensor_Tensor", self=a["self"], exponent=a["exponent"])


def _clamp(emit: Callable, a: dict[str, Any], meta: Meta) -> Ref:
    return emit("clamp.Tensor", self=a["self"], min=a.get("min"), max=a.get("max"))


def _fill(emit: Callable, a: dict[str, Any], meta: Meta) -> Ref:
    number = a.get("fill_value", a.get("value"))
    return emit("expand.default", self=number, size=list(meta.shape), implicit=False)


RULES: dict[str, Callable] = {
    "add": _add, "sub": _sub, "addcmul": _addcmul, "addcdiv": _addcdiv, "pow": _pow, "clamp": _clamp,
    "clamp_min": _clamp, "clamp_max": _clamp, "fill": _fill, "full_like": _fill, "full": _fill,
    "new_full": _fill}


def replace_numbers(graph: Graph) -> None:
    """Rewrites the operators that have a value in place of a number."""
    _split_products(graph)
    _Rewriter(graph).run()


def _split_products(graph: Graph) -> None:
    """beta * x + alpha * (y @ z), with values as beta or alpha."""
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += list(_product(graph, node)) if node.target in PRODUCTS and _has_numbers(node) else [node]
    graph.nodes = nodes


PRODUCTS = {"aten.addmm.default": ("mm.default", "mat1", "mat2"),
            "aten.baddbmm.default": ("bmm.default", "batch1", "batch2")}


def _product(graph: Graph, node: Node) -> Iterator[Node]:
    name, left, right = PRODUCTS[node.target]
    meta = graph.metas[node.outputs[0]]
    made = [graph.new_value(meta) for _ in range(2)]
    scaled = graph.new_value(graph.metas[node.args["self"].id])
    yield Node(f"aten.{name}", {"self": node.args[left], "mat2": node.args[right]}, [made[0]],
               node.path, node.source)
    yield Node("aten.mul.Tensor", {"self": Ref(made[0]), "other": node.args["alpha"]}, [made[1]],
               node.path, node.source)
    yield Node("aten.mul.Tensor", {"self": node.args["self"], "other": node.args["beta"]}, [scaled],
               node.path, node.source)
    yield Node("aten.add.Tensor", {"self": Ref(made[1]), "other": Ref(scaled), "alpha": 1},
               node.outputs, node.path, node.source)
