"""Rewrites in-place operators into functional ones.

Every tensor of the graph is a base, or a view of another tensor. A write to a view makes new
content for its base; other views of that base are computed again before they are read.

A buffer that is written in training becomes a state, and so does a frozen parameter: an operator
SET_STATE takes its last content, and what is read of it from there on is the result of this operator.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import TRAINED, Missing, StateChanged, UnsupportedOperators
from .graph import Graph, Meta, Node, Ref, replace_refs
from .regions import LIBRARY
from .schema import functional_name, viewed_argument, written_argument

RESHAPES = {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze",
            "view_as", "reshape_as", "contiguous", "alias", "detach", "to", "dropout", "float",
            "type_as", "expand", "expand_as", "lift_fresh_copy"}
# Arguments that the in-place operator and the functional one call differently.
RENAMED = {"dropout": {"self": "input"}, "feature_dropout": {"self": "input"},
           "alpha_dropout": {"self": "input"}, "feature_alpha_dropout": {"self": "input"},
           "full_like": {"value": "fill_value"}}
SET_STATE = "easyscale.set_state.default"
LIBRARY.define("set_state(Tensor x, str name) -> Tensor")
LIBRARY.impl("set_state", lambda x, name: x.clone(), "CompositeExplicitAutograd")
# What the assignment of a tensor to a buffer is under a tracer: the tensor, as it is read from there on.
ASSIGN = "easyscale.assign.default"
LIBRARY.define("assign(Tensor buffer, Tensor value) -> Tensor")
LIBRARY.impl("assign", lambda buffer, value: value.clone(), "CompositeExplicitAutograd")
INACTIVE = {"aten.dropout.default": "input", "aten.feature_dropout.default": "input"}


@dataclass
class _View:
    """How a tensor comes from its parent, and the state of the base that it was computed from."""

    parent: int
    node: Node
    index: int  # which output of the node
    version: int


class _Rewriter:
    def __init__(self, graph: Graph, counters: set[str], frozen: set[str]):
        self.graph = graph
        self.counters = counters
        # What may become a state: value -> name.
        self.kept = graph.buffers | {value: name for value, name in graph.parameters.items()
                                     if name in frozen}
        self.nodes: list[Node] = []
        self.same: dict[int, int] = {}     # result of an in-place operator -> what it changed
        self.current: dict[int, int] = {}  # tensor -> value with its content of now
        self.version: dict[int, int] = {}  # base -> number of writes
        self.views: dict[int, _View] = {}
        self.with_gradient: dict[int, bool] = {}  # buffer -> it was written outside of no_grad
        self.assigned: dict[int, int] = {}  # buffer -> the tensor that was assigned last

    def run(self) -> None:
        for node in self.graph.nodes:
            written = written_argument(node.target)
            if node.target == ASSIGN:
                self._assign(node)
            elif written is None:
                self._read(node)
            else:
                self._write(node, written)
        self.graph.outputs = replace_refs(self.graph.outputs, self._content)
        self.graph.nodes = self.nodes
        for base, name in self.kept.items():
            if base in self.assigned or self.version.get(base, 0):
                self.graph.written[base] = name
                if self.graph.training:
                    self._set_state(base, self._content(self.assigned.get(base, base)).id)

    def _assign(self, node: Node) -> None:
        """A tensor that is assigned to a buffer: the name has another tensor from there on."""
        before = self._tensor(node.args["buffer"].id)
        owners = [base for base, tensor in self.assigned.items() if tensor == before]
        base = owners[0] if owners else self._base(before)
        if self.kept.get(base) in self.counters:
            self.same[node.outputs[0]] = base
            return
        if base not in self.kept:
            raise StateChanged(f"the forward pass assigns to a buffer ({node.source or node.path}) that "
                               "had another tensor before; register each buffer with a tensor of its own")
        self._check_buffer(node, base, node.no_grad)
        target, args = "aten.clone.default", {"self": node.args["value"], "memory_format": None}
        if node.no_grad:
            target, args = "aten.detach.default", {"self": node.args["value"]}
        self._read(Node(target, args, node.outputs, node.path, node.source, region=node.region))
        self.views.pop(node.outputs[0], None)  # a write to it is none to what was assigned
        self.assigned[base] = node.outputs[0]

    def _set_state(self, base: int, content: int) -> None:
        """Adds the operator SET_STATE behind the last write to a buffer."""
        name, meta = self.kept[base], self.graph.metas[base]
        after = self.graph.new_value(meta)
        at = next((i + 1 for i, node in enumerate(self.nodes) if content in node.outputs), 0)
        for node in self.nodes[at:]:
            node.args = {key: replace_refs(x, lambda value: Ref(after if value == content else value))
                         for key, x in node.args.items()}
        self.graph.outputs = replace_refs(
            self.graph.outputs, lambda value: Ref(after if value == content else value))
        last = self.nodes[at - 1] if at else Node("", {}, [])
        self.nodes.insert(at, Node(SET_STATE, {"x": Ref(content), "name": name}, [after], last.path,
                                   last.source, region=last.region))
        self.graph.outputs.append(Ref(after))

    def _tensor(self, value: int) -> int:
        return self.same.get(value, value)

    def _base(self, tensor: int) -> int:
        while tensor in self.views:
            tensor = self.views[tensor].parent
        return tensor

    def _content(self, value: int) -> Ref:
        """The value that has the content of a tensor at this point of the graph."""
        tensor = self._tensor(value)
        view = self.views.get(tensor)
        version = self.version.get(self._base(tensor), 0)
        if view is not None and view.version != version:
            self._view_again(view, version)
        return Ref(self.current.get(tensor, tensor))

    def _view_again(self, view: _View, version: int) -> None:
        node = view.node
        args = dict(node.args)
        args[_viewed(node)] = self._content(view.parent)
        outputs = [self.graph.new_value(self.graph.metas[x]) for x in node.outputs]
        self.nodes.append(Node(node.target, args, outputs, node.path, node.source,
                               region=node.region))
        for old, new in zip(node.outputs, outputs):
            sibling = self.views.get(old)
            if sibling is not None and sibling.node is node:
                self.current[old] = new
                sibling.version = version

    def _read(self, node: Node) -> None:
        viewed = _viewed(node)
        parent = node.args.get(viewed) if viewed else None
        node.args = {k: replace_refs(x, self._content) for k, x in node.args.items()}
        self.nodes.append(node)
        if not isinstance(parent, Ref):
            return
        tensor = self._tensor(parent.id)
        for index, output in enumerate(node.outputs):
            version = self.version.get(self._base(tensor), 0)
            self.views[output] = _View(tensor, node, index, version)

    def _write(self, node: Node, written: str) -> None:
        tensor = self._tensor(node.args[written].id)
        base = self._base(tensor)
        name = self.kept.get(base)
        if name is None and base in self.graph.parameters:
            raise StateChanged(f"the forward pass changes {self._name(base)} "
                               f"({node.source or node.path}); {TRAINED}")
        if name in self.counters:  # a counter of batches, which nothing reads in the graph
            self.same.update((output, base) for output in node.outputs)
            return
        without_gradient = node.no_grad or self._is_detached(tensor)
        if name is not None:
            self._check_buffer(node, base, without_gradient)
        args = {k: replace_refs(x, self._content) for k, x in node.args.items()}
        result = self._functional(node, written, args, self.graph.metas[tensor])
        if name is not None and without_gradient:
            # A buffer has no gradient before, so what is written without one has none.
            result = self._emit("aten.detach.default", {"self": Ref(result)}, self.graph.metas[tensor],
                                node)
        for output in node.outputs:
            self.same[output] = tensor
        self._store(tensor, result, node)
        self.version[base] = self.version.get(base, 0) + 1
        while tensor in self.views:
            self.views[tensor].version = self.version[base]
            tensor = self.views[tensor].parent

    def _name(self, base: int) -> str:
        return (self.graph.buffers | self.graph.parameters)[base].removeprefix("model.")

    def _is_detached(self, tensor: int) -> bool:
        """Whether a tensor is a view of its base past autograd."""
        while tensor in self.views:
            if self.views[tensor].node.target == "aten.detach.default":
                return True
            tensor = self.views[tensor].parent
        return False

    def _check_buffer(self, node: Node, base: int, without_gradient: bool) -> None:
        """Raises StateChanged for a write to a buffer that cannot be a state."""
        place = f"({node.source or node.path})"
        if without_gradient and self.with_gradient.get(base):
            raise StateChanged(f"the forward pass writes {self._name(base)} with gradients and then "
                               f"without them {place}; write what has no gradient only")
        self.with_gradient[base] = self.with_gradient.get(base, False) or not without_gradient

    def _functional(self, node: Node, written: str, args: dict[str, Any], meta: Meta) -> int:
        if node.target == "aten.copy_.default":
            cast = self._emit("aten.to.dtype", {"self": args["src"], "dtype": meta.dtype}, meta,
                              node, self.graph.metas[args["src"].id].shape)
            return self._emit("aten.expand.default", {"self": Ref(cast), "size": meta.shape}, meta,
                              node)
        target = functional_name(node.target)
        if target is None:
            raise UnsupportedOperators([Missing(node.target, "it writes to a tensor", node.path,
                                                node.source)])
        for old, new in RENAMED.get(target.split(".")[1], {}).items():
            args[new] = args.pop(old)
        return self._emit(target, args, meta, node, site=node.site)

    def _emit(self, target: str, args: dict, meta: Meta, node: Node, shape: Any = None,
              site: int = -1) -> int:
        value = self.graph.new_value(Meta(meta.shape if shape is None else shape, meta.dtype))
        self.nodes.append(Node(target, args, [value], node.path, node.source, site, node.region))
        return value

    def _store(self, tensor: int, result: int, node: Node) -> None:
        """Gives a tensor new content, and the tensors that it is a view of."""
        self.current[tensor] = result
        view = self.views.get(tensor)
        if view is None:
            return
        parent_meta = self.graph.metas[view.parent]
        before = self._content(view.parent)
        if view.node.target == "aten.detach.default":
            if self._base(tensor) in self.kept:
                self._store(view.parent, result, node)  # there is no gradient of the content before
                return
            self._store(view.parent, self._aside(before, Ref(result), parent_meta, node), node)
            return
        target, args = _inverse(view, before, Ref(result), parent_meta, self.graph)
        self._store(view.parent, self._emit(target, args, parent_meta, node), node)

    def _aside(self, before: Ref, new: Ref, meta: Meta, node: Node) -> int:
        """New content that was written past autograd: the gradient is that of the content before."""
        change = self._emit("aten.sub.Tensor", {"self": new, "other": before, "alpha": 1}, meta, node)
        fixed = self._emit("aten.detach.default", {"self": Ref(change)}, meta, node)
        return self._emit("aten.add.Tensor", {"self": before, "other": Ref(fixed), "alpha": 1}, meta,
                          node)


def _viewed(node: Node) -> str | None:
    if node.target in INACTIVE:
        return INACTIVE[node.target] if node.site < 0 else None
    return viewed_argument(node.target)


def _inverse(view: _View, parent: Ref, new: Ref, meta: Meta, graph: Graph) -> tuple[str, dict]:
    """The operator that puts the new content of a view into its parent."""
    node, args = view.node, view.node.args
    name = node.target.split(".")[1]
    if name in RESHAPES:
        return "aten.reshape.default", {"self": new, "shape": list(meta.shape)}
    if name in ("transpose", "t", "permute", "swapaxes", "swapdims"):
        return "aten.permute.default", {"self": new, "dims": _inverse_order(name, args, meta)}
    rank = len(meta.shape)
    dim = args.get("dim", 0) % rank if rank else 0
    if name == "slice":
        return "aten.slice_scatter.default", {
            "self": parent, "src": new, "dim": dim, "start": args.get("start"),
            "end": args.get("end"), "step": args.get("step", 1)}
    if name in ("select", "unbind"):
        index = args["index"] if name == "select" else view.index
        return "aten.select_scatter.default", {"self": parent, "src": new, "dim": dim,
                                               "index": index}
    if name in ("split", "chunk", "split_with_sizes"):
        begin = sum(graph.metas[x].shape[dim] for x in node.outputs[:view.index])
        size = graph.metas[node.outputs[view.index]].shape[dim]
        return "aten.slice_scatter.default", {"self": parent, "src": new, "dim": dim,
                                              "start": begin, "end": begin + size, "step": 1}
    if name == "diagonal":
        return "aten.diagonal_scatter.default", {
            "self": parent, "src": new, "offset": args.get("offset", 0),
            "dim1": args.get("dim1", 0), "dim2": args.get("dim2", 1)}
    raise UnsupportedOperators([Missing(node.target, "its result is written to", node.path,
                                        node.source)])


def _inverse_order(name: str, args: dict, meta: Meta) -> list[int]:
    rank = len(meta.shape)
    order = list(range(rank))
    if name == "permute":
        forward = [d % rank for d in args["dims"]]
        return sorted(order, key=lambda axis: forward[axis])
    first, second = (0, rank - 1) if name == "t" else (
        args.get("dim0", args.get("axis0")) % rank, args.get("dim1", args.get("axis1")) % rank)
    order[first], order[second] = order[second], order[first]
    return order


def make_functional(graph: Graph, counters: set[str], frozen: set[str]) -> None:
    """Replaces all in-place operators of a graph. Writes to `counters`, which are buffers, are left
    out, and those to the parameters `frozen` are states as those to buffers."""
    _Rewriter(graph, counters, frozen).run()
