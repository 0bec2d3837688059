"""Builds the values and nodes of a program at one static batch size.

Equal nodes are written once. The train graph comes first; then the eval graph of the same module is
lowered into the same program, and finds the nodes of the train graph where they mean the same: in
evaluation a dropout is the identity, a batch norm reads its statistics, a state stays as it is, and
the first draw of a shape has the numbers of the first one of training.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...data.rounding import Rounding
from ...errors import UsageError
from ...interpret import TORCH_TYPE, Context, Undefined, run_kind
from ..graph import Meta
from ..graph import Node as GraphNode
from .table import CannotLower

TYPES = {torch.float32: "f32", torch.int64: "i32", torch.int32: "i32", torch.int16: "i32",
         torch.uint8: "i32", torch.int8: "i32", torch.bool: "bool"}
CONSTANT_TYPES = TYPES | {torch.float64: "f32", torch.float16: "f32", torch.bfloat16: "f32"}
# All integers have 64 bits in the builder.
BUILT = TORCH_TYPE | {"i32": torch.int64}
IDENTITY_IN_EVALUATION = {"dropout", "sample_dropout"}
DRAWN = {"uniform", "normal"}
INT32 = torch.iinfo(torch.int32)
LARGE = 2 ** 24  # from here on fp32 does not have every integer


@dataclass(frozen=True)
class Val:
    """A value of the program that is being built: its number, extents and type."""

    id: int
    shape: tuple[int, ...]
    type: str

    def dim(self) -> int:
        """The number of extents."""
        return len(self.shape)


Operand = Val | torch.Tensor


@dataclass
class Emitted:
    """A node with its static output."""

    kind: str
    inputs: list[int]
    output: int
    attributes: dict
    path: str
    source: str
    region: int


def type_of(x: Operand) -> str:
    """The type of a value or constant in the file."""
    return x.type if isinstance(x, Val) else CONSTANT_TYPES[x.dtype]


@dataclass
class Builder:
    """The program so far. `node` and `results` are the operator that is lowered and its outputs.

    `readers` says how often operators of the graph that is lowered read a value.
    """

    values: list[Val] = field(default_factory=list)
    nodes: list[Emitted] = field(default_factory=list)
    constants: dict[int, np.ndarray] = field(default_factory=dict)
    statistics: list[tuple[str, int, bool]] = field(default_factory=list)
    evaluating: bool = False
    node: GraphNode | None = None
    results: list[Meta] = field(default_factory=list)
    buffers: dict[int, str] = field(default_factory=dict)
    mirrored: set[int] = field(default_factory=set)  # as in the graph of training
    distinct: bool = False  # equal constants are values of their own
    states: dict[str, Val] = field(default_factory=dict)  # their contents before the step
    samples: int = 0  # of the mini-batch that is lowered
    sites: int = 0  # the first number that is no random site of training
    evaluation_sites: dict[int, int] = field(default_factory=dict)  # draw in evaluation -> site
    readers: Counter[int] = field(default_factory=Counter)
    _makers: dict[int, Emitted] = field(default_factory=dict)
    _seen: int = 0  # nodes that are in _makers
    _draws: dict = field(default_factory=dict)  # (kind, shape) -> draws of training, with their site
    _known: dict = field(default_factory=dict)
    _known_in_evaluation: dict = field(default_factory=dict)
    _evaluated: dict[int, int] = field(default_factory=dict)
    _constant_ids: dict = field(default_factory=dict)

    @property
    def result(self) -> Meta:
        """The first output of the operator that is lowered."""
        return self.results[0]

    def new_value(self, shape: tuple[int, ...], type_: str) -> Val:
        """Adds a value."""
        self.values.append(Val(len(self.values), tuple(shape), type_))
        return self.values[-1]

    def value(self, x: Any) -> Val:
        """A value for an operand: a constant is written to the file once."""
        if isinstance(x, Val):
            return x
        type_ = CONSTANT_TYPES.get(x.dtype)
        if type_ is None:
            raise CannotLower(f"a constant of the type {x.dtype}")
        array = _array(x, type_)
        key = (type_, array.shape, array.tobytes())
        if key not in self._constant_ids or self.distinct:
            value = self.new_value(array.shape, type_)
            self.constants[value.id] = array
            self._constant_ids[key] = value
        return self._constant_ids[key]

    def emit(self, kind: str, *inputs: Operand | None, shape: tuple[int, ...] | None = None,
             **attributes: Any) -> Operand:
        """The output of a node; a constant if all inputs are constants.

        `shape` is the output's where the kind takes it from the file (reshape, expand, draws).
        """
        given = [x for x in inputs if x is not None]
        if given and all(isinstance(x, torch.Tensor) for x in given):
            return self._evaluate(kind, inputs, shape, attributes)
        vals = [None if x is None else self.value(x) for x in inputs]
        return self._find(kind, vals, attributes, shape) or self._add(kind, vals, attributes, shape)

    def maker(self, x: Operand | None) -> Emitted | None:
        """The node that has made a value; None for an input, a parameter and a constant."""
        for node in self.nodes[self._seen:]:
            self._makers[node.output] = node
        self._seen = len(self.nodes)
        return self._makers.get(x.id) if isinstance(x, Val) else None

    def made(self, x: Operand | None, *kinds: str) -> Emitted | None:
        """The node that has made a value, if it is of one of these kinds."""
        node = self.maker(x)
        return node if node is not None and node.kind in kinds else None

    def read(self, node: Emitted, index: int) -> Operand | None:
        """An input of a node: a value, a constant, or None if the node does not have it."""
        number = node.inputs[index] if index < len(node.inputs) else -1
        if number in self.constants:
            return torch.from_numpy(self.constants[number]).to(
                BUILT[self.values[number].type])
        return self.values[number] if number >= 0 else None

    def is_known(self, kind: str, *inputs: Operand | None, **attributes: Any) -> bool:
        """Whether there is such a node already."""
        vals = [None if x is None else self.value(x) for x in inputs]
        return self._find(kind, vals, attributes, None) is not None

    def set_state(self, x: Operand, name: str) -> Val:
        """The content `x` that a state has in the next step, as it is read in this one."""
        state = self.states[name]
        output = self._add("set_state", [self.value(self.cast(x, state.type))],
                           {"state": list(self.states).index(name)}, None)
        self._evaluated[output.id] = state.id
        return output

    def is_for_samples(self, x: Operand, axis: int, index: torch.Tensor) -> bool:
        """Whether an index is the numbers of the samples, [0, 1, ...], and names rows of a state. Its
        extent differs between mini-batches then, and that of the state does not."""
        named = (axis == 0 and isinstance(x, Val) and x in self.states.values()
                 and index.tolist() == list(range(self.samples)))
        if named and self.samples > x.shape[0]:
            raise CannotLower(f"a buffer of {x.shape[0]} rows for {self.samples} samples; give it more "
                              "rows")
        return named

    def draw(self, kind: str, shape: tuple[int, ...] | None = None, number: int = 0) -> Val:
        """Random numbers in the shape of the result or another; `kind` is one of DRAWN.

        `number` counts the draws of the operator that is lowered.
        """
        shape = self.result.shape if shape is None else shape
        drawn = self.node.site + number
        if not self.evaluating:
            val = self._add(kind, [], {"site": drawn}, shape)
            self._draws.setdefault((kind, shape), []).append((val, drawn))
            return val
        val, site = self._draw_in_evaluation(kind, shape)
        self.evaluation_sites[drawn] = site
        return val

    def _draw_in_evaluation(self, kind: str, shape: tuple[int, ...]) -> tuple[Val, int]:
        """The next draw of training that evaluation has not used yet, or a new one."""
        unused = self._draws.get((kind, shape))
        if unused:
            return unused.pop(0)
        self.sites += 1
        return self._add(kind, [], {"site": self.sites - 1}, shape), self.sites - 1

    def _evaluate(self, kind: str, inputs: tuple, shape: Any, attributes: dict) -> torch.Tensor:
        tensors = [None if x is None else x.to(BUILT[CONSTANT_TYPES[x.dtype]])
                   for x in inputs]
        with torch.no_grad():
            try:
                return run_kind(kind, tensors, attributes, Context(shape=shape, ints=torch.int64))
            except Undefined as error:
                raise CannotLower(str(error)) from None

    def _key(self, kind: str, vals: list, attributes: dict, shape: Any, evaluated: bool) -> tuple:
        ids = [-1 if v is None else v.id for v in vals]
        named = dict(attributes)
        if evaluated:
            ids = [self._evaluated.get(i, i) for i in ids]
            named.pop("site", None)
            if kind == "attention":
                named["dropout"] = 0.0
        return kind, tuple(ids), repr(sorted(named.items())), shape

    def _find(self, kind: str, vals: list, attributes: dict, shape: Any) -> Val | None:
        if self.evaluating:
            key = self._key(kind, vals, attributes, shape, True)
            return self._known_in_evaluation.get(key)
        return self._known.get(self._key(kind, vals, attributes, shape, False))

    def _add(self, kind: str, vals: list, attributes: dict, shape: Any) -> Operand:
        metas = [None if v is None else torch.empty(v.shape, dtype=BUILT[v.type],
                                                    device="meta") for v in vals]
        result = run_kind(kind, metas, attributes, Context(shape=shape, ints=torch.int64))
        if result.numel() == 0:
            return torch.zeros(result.shape, dtype=result.dtype)  # it depends on nothing
        output = self.new_value(tuple(result.shape), TYPES[result.dtype])
        node = Emitted(kind, [-1 if v is None else v.id for v in vals], output.id, attributes,
                       self.node.path if self.node else "", self.node.source if self.node else "",
                       self.node.region if self.node else 0)
        self.nodes.append(node)
        self._known.setdefault(self._key(kind, vals, attributes, shape, False), output)
        if kind in IDENTITY_IN_EVALUATION or (kind == "stop_gradient" and self._is_state(vals[0])):
            self._evaluated[output.id] = self._evaluated.get(vals[0].id, vals[0].id)
        elif kind not in DRAWN:
            key = self._key(kind, vals, attributes, shape, True)
            found = self._known_in_evaluation.setdefault(key, output)
            if found.id != output.id:
                self._evaluated[output.id] = found.id
        return output

    def _is_state(self, val: Val) -> bool:
        """Whether evaluation reads a state in place of a value. A state has no gradient."""
        return self._evaluated.get(val.id) in {state.id for state in self.states.values()}

    def statistic_index(self, mean: str, variance: str, size: int) -> tuple[int, int]:
        """The indices of the statistics of a batch norm; they are added if they are new."""
        names = [name for name, _, _ in self.statistics]
        if mean not in names:
            self.statistics += [(mean, size, False), (variance, size, True)]
            names += [mean, variance]
        return names.index(mean), names.index(variance)

    # What most lowerings need.

    def cast(self, x: Operand, to: str) -> Operand:
        """`x` as the type `to`."""
        return x if type_of(x) == to else self.emit("cast", x, to=to)

    def operand(self, x: Any, to: str) -> Operand:
        """A tensor or a Python number as an operand of the type `to`."""
        if isinstance(x, (bool, int, float)):
            return torch.tensor(x, dtype=BUILT[to])
        return self.cast(x, to)

    def reshape(self, x: Operand, shape: Any) -> Operand:
        """`x` with other extents and the same row-major order."""
        shape = tuple(int(size) for size in shape)
        if -1 in shape:
            known = int(np.prod([size for size in shape if size != -1]))
            total = int(np.prod(x.shape))
            shape = tuple(total // known if size == -1 else size for size in shape)
        return x if tuple(x.shape) == shape else self.emit("reshape", x, shape=shape)

    def permute(self, x: Operand, order: Any) -> Operand:
        """`x` with its axes in another order."""
        order = [axis % x.dim() for axis in order]
        return x if order == sorted(order) else self.emit("permute", x, order=order)

    def swap(self, x: Operand, first: int, second: int) -> Operand:
        """`x` with two axes exchanged."""
        order = list(range(x.dim()))
        order[first], order[second] = order[second], order[first]
        return self.permute(x, order)

    def expand(self, x: Operand, shape: Any) -> Operand:
        """`x` repeated to other extents, as broadcasting does."""
        missing = len(shape) - x.dim()
        padded = (1,) * missing + tuple(x.shape)
        shape = tuple(old if new == -1 else int(new) for old, new in zip(padded, shape))
        x = self.reshape(x, padded)
        return x if tuple(x.shape) == shape else self.emit("expand", x, shape=shape)

    def slice(self, x: Operand, axis: int, begin: int, end: int, step: int = 1) -> Operand:
        """Every `step`-th element of [begin, end) of an axis."""
        if begin == 0 and end == x.shape[axis] and step == 1:
            return x
        return self.emit("slice", x, axis=axis, begin=begin, end=end, step=step)

    def concat(self, xs: list[Operand], axis: int) -> Operand:
        """Tensors one after the other."""
        xs = [x for x in xs if 0 not in x.shape] or xs[:1]
        kept = [self.cast(x, self._common_type(xs)) for x in xs]
        return kept[0] if len(kept) == 1 else self.emit("concat", *kept, axis=axis)

    def _common_type(self, xs: list[Operand]) -> str:
        types = {type_of(x) for x in xs}
        return next(t for t in ("f32", "i32", "bool") if t in types)

    def scale(self, x: Operand, factor: float) -> Operand:
        """`x * factor`."""
        return x if factor == 1 else self.emit("mul_scalar", x, value=float(factor))

    def shift(self, x: Operand, term: float) -> Operand:
        """`x + term`."""
        return x if term == 0 else self.emit("add_scalar", x, value=float(term))


def number(x: Any) -> float | int | None:
    """The Python number of an argument or of a constant with one element, else None."""
    if isinstance(x, (bool, int, float)):
        return x
    if isinstance(x, torch.Tensor) and x.dim() == 0:
        return x.item()
    return None


def _array(x: torch.Tensor, type_: str) -> np.ndarray:
    x = x.detach()
    beyond = type_ == "i32" and x.numel() and (x.max() > INT32.max or x.min() < INT32.min)
    to = torch.float32 if type_ == "f32" else torch.int64 if beyond else torch.int32
    if x.dtype == torch.float64 and x.numel() and x.abs().max() > LARGE:
        rounding = Rounding("a constant")
        rounding.add(x.reshape(-1, 1).numpy())
        try:
            rounding.check()
        except UsageError as error:
            raise CannotLower(str(error)) from None
    return np.array(x.to(to).contiguous().numpy(), order="C")
