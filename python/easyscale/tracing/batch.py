"""Finds the extents that are multiples of the number of samples.

A model is lowered at two batch sizes. The two programs have the same nodes; an extent that differs
is a multiple of the batch, and everything else must be equal.
"""
from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..program import FORMAT_WITH_STATES, Buffer, Constant, Dim, Input, Node, Output, Parameter
from ..program import Program, Statistic, Value
from ..program import State as KeptState
from .errors import BatchTraced, CaptureError
from .lower.builder import Emitted, Val
from .lower.norms import NO_MOMENTUM
from .merge import Static
from .ranges import input_ranges
from .sample_attributes import COUNTS, Change, Cut, Factor, Logarithm, Multiple, Sizes
from .sample_attributes import change_of, count_of
from .state import SAFETENSORS_TYPE, State
from .widths import with_widths

SIZES = (3, 5)  # samples of the two captures; a batch of one would be special to torch
# Those of a second attempt: a number of the model may happen to be the number of samples.
OTHER_SIZES = (7, 11)
EXACT = 2 ** 24  # integers up to this one are exact in fp32
ADVICE = ("use -1 or tensor.shape[0] for the number of samples, no branch on it, and no buffer "
          "that has the samples as an axis, but one with more rows, of which the forward pass reads and "
          "writes self.kept[torch.arange(len(x))]")


@dataclass
class _Pair:
    """The same program at sizes[0] and at sizes[1] samples.

    `changes` are those of attributes, by the outputs of the nodes at sizes[0].
    """

    small: Static
    large: Static
    sizes: Sizes
    changes: dict[int, Change]

    def dims(self, value: int, place: str) -> list[Dim]:
        """The extents of a value with the batch as a factor."""
        shapes = self.small.builder.values[value].shape, self.large.builder.values[value].shape
        return [self._dim(a, b, place) for a, b in zip(*shapes)]

    def _dim(self, small: int, large: int, place: str) -> Dim:
        first, second = self.sizes
        if small == large:
            return Dim(small)
        if small * second != large * first or small % first:
            raise BatchTraced(f"{place}: an extent is {small} for {first} samples and {large} for "
                              f"{second}; only multiples of the number of samples can be captured")
        return Dim(small // first, True)


def _place(node: Emitted) -> str:
    return f"{node.kind} in {node.path or 'the model'}" + (f" ({node.source})" * bool(node.source))


def check_same(program: Program, other: Program) -> None:
    """Raises BatchTraced unless a program that was made with few samples is also that of more, `other`.
    """
    for node, larger in zip(program.nodes, other.nodes):
        if (node.kind, node.inputs) != (larger.kind, larger.inputs) or not _is_close(
                node.attributes, larger.attributes):
            raise _differs(f"{node.kind} in {node.name or 'the model'}"
                           + f" ({node.source})" * bool(node.source))
    if len(program.nodes) != len(other.nodes) or program.values != other.values:
        raise _differs("the model")
    for constant, larger in zip(program.constants, other.constants):
        if not np.allclose(constant.array, larger.array, rtol=1e-6, equal_nan=True):
            raise _differs(f"a constant that begins with {constant.array.flat[0]}")


def _differs(place: str) -> BatchTraced:
    return BatchTraced(f"{place}: the forward pass differs from that of few samples; {ADVICE}")


def _is_close(first: Any, second: Any) -> bool:
    """Whether attributes are equal but for rounding."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_is_close(first[k], second[k]) for k in first)
    return first == second or (isinstance(first, float) and isinstance(second, float)
                               and math.isclose(first, second, rel_tol=1e-6))


def _changes(small: Static, large: Static, sizes: Sizes) -> dict[int, Change]:
    """Those of attributes, by the outputs of the nodes of `small`; all else must be equal."""
    changes = {}
    for first, second in zip(small.builder.nodes, large.builder.nodes):
        if (first.kind, first.inputs) != (second.kind, second.inputs):
            raise BatchTraced(f"{_place(first)}: the forward pass differs for {sizes[0]} and "
                              f"{sizes[1]} samples; {ADVICE}")
        if first.attributes != second.attributes:
            change = change_of(first, second, sizes)
            if change is None:
                raise BatchTraced(f"{_place(first)}: the number of samples is in its attributes "
                                  f"({_difference(first, second)}); {ADVICE}")
            changes[first.output] = change
    if len(small.builder.nodes) != len(large.builder.nodes):
        raise BatchTraced(f"the forward pass has {len(small.builder.nodes)} nodes for {sizes[0]} "
                          f"samples and {len(large.builder.nodes)} for {sizes[1]}; {ADVICE}")
    return changes


def _difference(first: Emitted, second: Emitted) -> str:
    return ", ".join(f"{name} = {first.attributes[name]} and {second.attributes[name]}"
                     for name in first.attributes
                     if first.attributes[name] != second.attributes.get(name))


def unify(small: Static, large: Static, state: State, name: str, producer: str,
          sizes: Sizes = SIZES) -> Program:
    """The program of two static ones, which were lowered at `sizes` samples."""
    pair = _Pair(small, large, sizes, _changes(small, large, sizes))
    return with_widths(_Writer(pair, state, name, producer).write())


class _Writer:
    """Writes what the loss and the outputs need, with new numbers for the values."""

    def __init__(self, pair: _Pair, state: State, name: str, producer: str):
        self.pair, self.state = pair, state
        self.program = Program(name=name, producer=producer)
        self.numbers: dict[int, int] = {}  # builder's value -> program's value
        # Labels keep the range of a constant if no node computes them.
        self.labels = {node.inputs[1] for node in pair.small.builder.nodes
                       if node.kind in ("cross_entropy", "nll")}

    def write(self) -> Program:
        static, program = self.pair.small, self.program
        outputs = [(name, val) for name, val in static.outputs if self._is_evaluated(val)]
        named = {static.loss.id} | {val.id for _, val in outputs}
        unread = _unread_norms(static, _needed(static, named))
        needed = _needed(static, named.union(unread))
        self._write_inputs(static)
        self._write_parameters(static)
        self._write_states(static)
        for node in static.builder.nodes:  # whose lines are known, unlike those of constants
            if node.output in needed:
                self.pair.dims(node.output, _place(node))
        for value in sorted(static.builder.constants):
            if value in needed:
                self._write_constant(value)
        for node in static.builder.nodes:
            if node.output in needed:
                self._write_node(node)
        for value in unread:
            # The loss does not depend on it, so neither do its parameters have a gradient.
            number = self.numbers[value]
            same = self._value("f32", self.program.values[number].dims)
            self.program.zero_losses([self._node("stop_gradient", [number], same)])
        program.loss = self.numbers[static.loss.id]
        program.outputs = [Output(name, self.numbers[val.id]) for name, val in outputs]
        if not program.outputs:
            # A model that returns its loss only: an evaluation needs an output with the samples.
            one = self._node("reshape", [program.loss], self._value("f32", [Dim(1)]))
            wide = self._node("expand", [one], self._value("f32", [Dim(1, True)]))
            program.outputs = [Output("loss", wide)]
        self._write_statistics(static)
        self._write_buffers(static)
        return program

    def _is_evaluated(self, val: Val) -> bool:
        """Whether an evaluation can return it: real numbers, with the samples first."""
        maker = self.pair.small.builder.maker(val)
        dims = self.pair.dims(val.id, _place(maker) if maker else "an output")
        return val.type == "f32" and bool(dims) and dims[0].per_batch

    def _add(self, value: Val, dims: list[Dim]) -> int:
        self.program.values.append(Value(value.type, dims))
        self.numbers[value.id] = len(self.program.values) - 1
        return self.numbers[value.id]

    def _write_inputs(self, static: Static) -> None:
        ranges = input_ranges(static)
        for name, val in static.inputs.items():
            number = self._add(val, self.pair.dims(val.id, f"the input {name}"))
            allowed = ranges.get(val.id)
            low, high = allowed.ends() if allowed else (0, int(val.type == "bool"))
            self.program.inputs.append(Input(name, number, low, high, allowed))

    def _write_parameters(self, static: Static) -> None:
        for tied in self.state.parameters.values():
            if tied.names[0] in static.builder.states:
                continue
            val = static.parameters[tied.names[0]]
            number = self._add(val, [Dim(size) for size in val.shape])
            self.program.parameters.append(Parameter(
                tied.names[0], number, tied.names[1:], tied.tensor.requires_grad))

    def _write_states(self, static: Static) -> None:
        for name, val in static.builder.states.items():
            dtype = SAFETENSORS_TYPE[self.state.tensors()[name].dtype]
            number = self._add(val, self.pair.dims(val.id, f"the buffer {name}"))
            self.program.states.append(KeptState(name, dtype, number))
        if self.program.states:
            self.program.format = FORMAT_WITH_STATES

    def _write_constant(self, value: int) -> None:
        """A constant, or the nodes that make what depends on the number of samples."""
        builders = self.pair.small.builder, self.pair.large.builder
        val, arrays = builders[0].values[value], [b.constants[value] for b in builders]
        dims = self.pair.dims(value, "a constant")
        if not any(dim.per_batch for dim in dims):
            if np.array_equal(*arrays, equal_nan=arrays[0].dtype.kind == "f"):
                self._constant(arrays[0], val.type, self._add(val, dims))
            elif not self._write_share(val, arrays, dims):
                self._write_multiple(val, arrays)
        elif not ((value in self.labels and self._write_repeated(val, arrays, dims))
                  or self._write_share(val, arrays, dims)
                  or (val.type == "i32" and self._write_numbers(val, arrays, dims))
                  or self._write_matrix(val, arrays, dims)
                  or self._write_repeated(val, arrays, dims)
                  or self._write_sums(val, arrays, dims)):
            raise self._constant_refused(val.id, arrays[0])

    def _constant_refused(self, value: int, array: np.ndarray) -> BatchTraced:
        reader = next((x for x in self.pair.small.builder.nodes if value in x.inputs), None)
        return BatchTraced((f"{_place(reader)}: " if reader else "") + "a constant of the shape "
                           f"{list(array.shape)} depends on the number of samples; {ADVICE}")

    def _constant(self, array: np.ndarray, type_: str, number: int | None = None) -> int:
        """The value of a constant, which is a new one if no number is given."""
        if number is None:
            number = self._value(type_, [Dim(size) for size in array.shape])
        self.program.constants.append(Constant(f"constant{number}", number, array))
        return number

    def _value(self, type_: str, dims: list[Dim]) -> int:
        self.program.values.append(Value(type_, dims))
        return len(self.program.values) - 1

    def _node(self, kind: str, inputs: list[int], output: int, **attributes: Any) -> int:
        self.program.nodes.append(Node(kind, inputs, [output], attributes))
        return output

    def _write_multiple(self, val: Val, arrays: list[np.ndarray]) -> None:
        """A number that is a multiple of the samples: one per sample, summed; or one of COUNTS."""
        for terms in COUNTS:
            each = [array / count_of(size, terms) for array, size in zip(arrays, self.pair.sizes)]
            if not val.shape and each[0] == each[1]:
                break
        else:
            raise self._constant_refused(val.id, arrays[0])
        if terms == (0,) and not (val.type == "i32" and each[0] % 1):
            one = self._constant(each[0].astype(arrays[0].dtype).reshape(1), val.type)
            wide = self._node("expand", [one], self._value(val.type, [Dim(1, True)]))
            self._node("sum", [wide], self._add(val, []), axes=[0], keepdim=False)
            return
        if val.type != "f32":
            raise self._constant_refused(val.id, arrays[0])
        number = self._node("mul_scalar", [self._samples(terms)], self._value("f32", [Dim(1)]),
                            value=float(each[0]))
        self._node("reshape", [number], self._add(val, []))

    def _write_share(self, val: Val, arrays: list[np.ndarray], dims: list[Dim]) -> bool:
        """One number everywhere that is a part of the samples, such as 1 / B."""
        if val.type != "f32" or not all((array == array.flat[0]).all() for array in arrays):
            return False
        whole = [float(array.flat[0]) * size for array, size in zip(arrays, self.pair.sizes)]
        if arrays[0].flat[0] == arrays[1].flat[0] or not math.isclose(*whole, rel_tol=1e-6):
            return False
        near = round(whole[0])
        number = near if math.isclose(near, whole[0], rel_tol=1e-6) else sum(whole) / 2
        total = self._constant(np.full(1, number, np.float32), "f32")
        share = self._node("div", [total, self._samples()], self._value("f32", [Dim(1)]))
        once = self._node("reshape", [share], self._value("f32", [Dim(1)] * len(dims)))
        self._node("expand", [once], self._add(val, dims))
        return True

    def _count(self) -> int:
        """The numbers of the samples as f32 [B], [0, 1, ...]: the sums of ones, minus one."""
        one, dims = self._constant(np.ones(1, np.float32), "f32"), [Dim(1, True)]
        wide = self._node("expand", [one], self._value("f32", dims))
        sums = self._node("cumsum", [wide], self._value("f32", dims), axis=0)
        return self._node("add_scalar", [sums], self._value("f32", dims), value=-1.0)

    def _samples(self, terms: tuple[int, ...] = (0,)) -> int:
        """The number of samples as f32 [1], or another one of COUNTS."""
        dims = [Dim(1)]
        one = self._constant(np.ones(1, np.float32), "f32")
        wide = self._node("expand", [one], self._value("f32", [Dim(1, True)]))
        samples = self._node("sum", [wide], self._value("f32", dims), axes=[0], keepdim=True)
        counts = [samples if not term else self._node(
            "add_scalar", [samples], self._value("f32", dims), value=float(term)) for term in terms]
        return functools.reduce(
            lambda x, y: self._node("mul", [x, y], self._value("f32", dims)), counts)

    def _write_numbers(self, val: Val, arrays: list[np.ndarray], dims: list[Dim]) -> bool:
        """Integers that are linear in the number of a sample and in the number of samples: [a * B],
        or so with ones.

        Each of the `a` parts has its own line.
        """
        wide = [dim for dim in dims if dim != Dim(1)]
        if len(wide) != 1 or np.abs(np.concatenate(arrays, None)).max() > EXACT:
            return False
        lines = [_line([array.reshape(wide[0].size, -1)[part] for array in arrays],
                       self.pair.sizes) for part in range(wide[0].size)]
        if None in lines:
            return False
        count, one = self._count(), [Dim(1, True)]
        parts = []
        for slope, growth, begin in lines:
            part = self._node("mul_scalar", [count], self._value("f32", one), value=slope)
            if growth:
                more = self._node("mul_scalar", [self._samples()], self._value("f32", [Dim(1)]),
                                  value=growth)
                part = self._node("add", [part, more], self._value("f32", one))
            parts.append(self._node("add_scalar", [part], self._value("f32", one), value=begin))
        whole = parts[0] if len(parts) == 1 else self._node(
            "concat", parts, self._value("f32", wide), axis=0)
        if val.type == "f32":
            self._node("reshape", [whole], self._add(val, dims))
            return True
        placed = whole if len(dims) == 1 else self._node(
            "reshape", [whole], self._value("f32", dims))
        self._node("cast", [placed], self._add(val, dims), to="i32")
        return True

    def _write_sums(self, val: Val, arrays: list[np.ndarray], dims: list[Dim]) -> bool:
        """Integers of several axes: those along the axis of the samples, plus a constant. An axis
        B * a is two axes."""
        axes = [axis for axis, dim in enumerate(dims) if dim.per_batch]
        if len(axes) != 1 or val.type == "bool" or any(
                np.any(array != np.round(array)) for array in arrays):
            return False
        if self._write_numbers(val, arrays, dims):
            return True
        if dims[axes[0]].size > 1:
            apart = _apart(dims, True)
            both = [array.reshape([dim.at(size) for dim in apart])
                    for array, size in zip(arrays, self.pair.sizes)]
            if not self._write_sums(Val(-1, both[0].shape, val.type), both, apart):
                return False
            self._node("reshape", [self.numbers[-1]], self._add(val, dims))
            return True
        window = tuple(slice(None) if axis in axes else slice(0, 1) for axis in range(len(dims)))
        lines = [array[window] for array in arrays]
        rests = [array - line for array, line in zip(arrays, lines)]
        rest = _first(rests[0], axes)
        if not all((np.broadcast_to(rest, other.shape) == other).all() for other in rests):
            return False
        thin = [dim if axis in axes else Dim(1) for axis, dim in enumerate(dims)]
        line = Val(-1, lines[0].shape, val.type)
        if not self._write_numbers(line, lines, thin):
            return False
        self._node("add", [self.numbers[-1], self._constant(rest, val.type)], self._add(val, dims))
        return True

    def _write_matrix(self, val: Val, arrays: list[np.ndarray], dims: list[Dim]) -> bool:
        """A matrix of pairs of samples, such as eye or tril: [a * B, b * B], or so with ones.

        Each of its a * b parts has one number below the diagonal, one on it and one above.
        """
        wide = [dim for dim in dims if dim != Dim(1)]
        if len(wide) != 2 or not all(dim.per_batch for dim in wide):
            return False
        shapes = [[part for dim in wide for part in (dim.size, size)] for size in self.pair.sizes]
        both = [array.reshape(shape).transpose(0, 2, 1, 3) for array, shape in zip(arrays, shapes)]
        parts = [[_triangles([array[i, j] for array in both]) for j in range(wide[1].size)]
                 for i in range(wide[0].size)]
        if any(part is None for row in parts for part in row):
            return False
        count, pairs = self._count(), [Dim(1, True), Dim(1, True)]
        row = self._node("reshape", [count], self._value("f32", [Dim(1, True), Dim(1)]))
        column = self._node("reshape", [count], self._value("f32", [Dim(1), Dim(1, True)]))
        masks = [self._node(kind, [row, column], self._value("bool", pairs))
                 for kind in ("gt", "eq")]

        def part(numbers: tuple) -> int:
            below, on, above = (self._constant(np.array(x, arrays[0].dtype), val.type)
                                for x in numbers)
            upper = self._node("where", [masks[1], on, above], self._value(val.type, pairs))
            return self._node("where", [masks[0], below, upper], self._value(val.type, pairs))

        def joined(values: list[int], axis: int, whole: list[Dim]) -> int:
            return values[0] if len(values) == 1 else self._node(
                "concat", values, self._value(val.type, whole), axis=axis)
        rows = [joined([part(numbers) for numbers in line], 1, [Dim(1, True), wide[1]])
                for line in parts]
        self._node("reshape", [joined(rows, 0, wide)], self._add(val, dims))
        return True

    def _write_repeated(self, val: Val, arrays: list[np.ndarray], dims: list[Dim]) -> bool:
        """A constant that repeats itself for every sample is written once and expanded.

        An extent a * B holds `a` elements for every sample, or every one of `a` elements B times.
        """
        for outer in (True, False):
            apart = _apart(dims, outer)
            varying = [axis for axis, dim in enumerate(apart) if dim.per_batch]
            both = [array.reshape([dim.at(size) for dim in apart])
                    for array, size in zip(arrays, self.pair.sizes)]
            once = _first(both[0], varying)
            if all((np.broadcast_to(once, array.shape) == array).all() for array in both):
                break
        else:
            return False
        source = self._constant(once, val.type)
        if len(apart) == len(dims):
            self._node("expand", [source], self._add(val, dims))
            return True
        wide = self._node("expand", [source], self._value(val.type, apart))
        self._node("reshape", [wide], self._add(val, dims))
        return True

    def _write_node(self, node: Emitted) -> None:
        val = self.pair.small.builder.values[node.output]
        number = self._add(val, self.pair.dims(node.output, _place(node)))
        inputs = [-1 if i < 0 else self.numbers[i] for i in node.inputs]
        change = self.pair.changes.get(node.output)
        if change is None:
            self.program.nodes.append(Node(node.kind, inputs, [number], dict(node.attributes),
                                           node.path, node.source, region=node.region))
        elif isinstance(change, Cut):
            self._write_cut(change, node.attributes["axis"], inputs[0], number, _place(node))
        elif isinstance(change, Factor):
            self._write_factor(change, inputs[0], number)
        else:
            self._write_term(change, inputs[0], number)

    def _write_cut(self, change: Cut, axis: int, source: int, number: int, place: str) -> None:
        """Cuts an axis a * B after multiples of B: as a slice of an axis of its own."""
        type_, dims = self.program.values[source].type, self.program.values[source].dims
        if not dims[axis].per_batch:
            raise BatchTraced(f"{place}: a slice of an axis of {dims[axis].size} has as many elements as "
                              f"there are samples; {ADVICE}")

        def apart(size: int) -> list[Dim]:
            return [*dims[:axis], Dim(size), Dim(1, True), *dims[axis + 1:]]
        whole = self._node("reshape", [source], self._value(type_, apart(dims[axis].size)))
        part = self._node("slice", [whole], self._value(type_, apart(change.end - change.begin)),
                          axis=axis, begin=change.begin, end=change.end, step=1)
        self._node("reshape", [part], number)

    def _write_factor(self, change: Factor, source: int, number: int) -> None:
        """Multiplies by a multiple of the number of samples, or by a part of it."""
        total = self._constant(np.full(1, change.number, np.float32), "f32")
        factor = self._node(change.kind, [total, self._samples(change.terms)],
                            self._value("f32", [Dim(1)]))
        self._node("mul", [source, self._reshaped_as(source, factor)], number)

    def _write_term(self, change: Multiple | Logarithm, source: int, number: int) -> None:
        """Adds a number for each sample, or one that has the logarithm of their number."""
        samples, one = self._samples(), [Dim(1)]
        if isinstance(change, Multiple):
            term = self._node("mul_scalar", [samples], self._value("f32", one), value=change.number)
        else:
            log = self._node("log", [samples], self._value("f32", one))
            signed = self._node("mul_scalar", [log], self._value("f32", one), value=change.factor)
            term = self._node("add_scalar", [signed], self._value("f32", one), value=change.rest)
        self._node("add", [source, self._reshaped_as(source, term)], number)

    def _reshaped_as(self, value: int, one: int) -> int:
        """A number [1] with the axes of a value."""
        dims = [Dim(1)] * len(self.program.values[value].dims)
        return self._node("reshape", [one], self._value("f32", dims))

    def _write_statistics(self, static: Static) -> None:
        self.program.statistics = [Statistic(*entry) for entry in static.builder.statistics]

    def _write_buffers(self, static: Static) -> None:
        trained = {name for name, _, _ in static.builder.statistics} | set(static.builder.states)
        for name in self.state.persistent:
            tensor = self.state.buffers[name].detach().cpu()
            if name in trained:
                continue
            if tensor.dtype not in SAFETENSORS_TYPE:
                raise CaptureError(f"the buffer {name} has the type {tensor.dtype}")
            data = tensor.contiguous().numpy().tobytes()
            self.program.buffers.append(Buffer(name, SAFETENSORS_TYPE[tensor.dtype],
                                               list(tensor.shape), data))


def _line(parts: list[np.ndarray], sizes: tuple[int, int]) -> tuple[float, float, float] | None:
    """(slope, growth, begin) of numbers slope * i + growth * B + begin, at two sizes B."""
    small, large = (part.astype(np.int64) for part in parts)
    slope = int(small[1] - small[0])
    growth, rest = divmod(int(large[0] - small[0]), sizes[1] - sizes[0])
    begin = int(small[0]) - growth * sizes[0]
    if rest or not all(np.array_equal(part, slope * np.arange(size) + growth * size + begin)
                       for part, size in zip((small, large), sizes)):
        return None
    return float(slope), float(growth), float(begin)


def _triangles(parts: list[np.ndarray]) -> tuple | None:
    """The numbers of a matrix below the diagonal, on it and above it; None for other matrices."""
    numbers = parts[0][1, 0], parts[0][0, 0], parts[0][0, 1]
    for part in parts:
        row, column = np.indices(part.shape)
        made = np.where(row > column, numbers[0], np.where(row == column, numbers[1], numbers[2]))
        if not np.array_equal(part, made):
            return None
    return numbers


def _apart(dims: list[Dim], outer: bool) -> list[Dim]:
    """Extents a * B as B and a (`outer`), or as a and B."""
    apart: list[Dim] = []
    for dim in dims:
        if not dim.per_batch or dim.size == 1:
            apart.append(dim)
        else:
            pair = [Dim(1, True), Dim(dim.size)]
            apart += pair if outer else pair[::-1]
    return apart


def _first(array: np.ndarray, axes: list[int]) -> np.ndarray:
    """The array with only the first element of some axes."""
    window = tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(array.ndim))
    return np.array(array[window], order="C")


def _unread_norms(static: Static, needed: set[int]) -> list[int]:
    """The results of the batch norms that nothing needs, but that move their statistics."""
    return [node.output for node in static.builder.nodes
            if node.kind == "batch_norm" and node.output not in needed
            and node.attributes["momentum"] != NO_MOMENTUM]


def _needed(static: Static, named: set[int]) -> set[int]:
    """What some values and the next contents of the states depend on."""
    needed = named | {node.output for node in static.builder.nodes if node.kind == "set_state"}
    for node in reversed(static.builder.nodes):
        if node.output in needed:
            needed.update(node.inputs)
    return needed
