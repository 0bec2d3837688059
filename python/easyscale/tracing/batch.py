"""Finds the extents that are multiples of the number of samples.

A model is lowered at two batch sizes. The two programs have the same nodes; an extent that differs
is a multiple of the batch, and everything else must be equal.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..program import (Buffer, Constant, Dim, Input, Node, Output, Parameter, Program, Statistic,
                       Value)
from .errors import BatchTraced, CaptureError
from .lower.builder import Emitted, Val
from .merge import Static
from .ranges import input_ranges
from .state import SAFETENSORS_TYPE, State

SIZES = (3, 5)  # samples of the two captures; a batch of one would be special to torch
ADVICE = ("use -1 or tensor.shape[0] for the number of samples, and no branch on it")


@dataclass
class _Pair:
    """The same program at SIZES[0] and at SIZES[1] samples."""

    small: Static
    large: Static

    def dims(self, value: int, place: str) -> list[Dim]:
        """The extents of a value with the batch as a factor."""
        shapes = self.small.builder.values[value].shape, self.large.builder.values[value].shape
        return [_dim(a, b, place) for a, b in zip(*shapes)]


def _dim(small: int, large: int, place: str) -> Dim:
    if small == large:
        return Dim(small)
    if small * SIZES[1] != large * SIZES[0] or small % SIZES[0]:
        raise BatchTraced(f"{place}: an extent is {small} for {SIZES[0]} samples and {large} for "
                          f"{SIZES[1]}; only multiples of the number of samples can be captured")
    return Dim(small // SIZES[0], True)


def _place(node: Emitted) -> str:
    return f"{node.kind} in {node.path or 'the model'}" + (f" ({node.source})" * bool(node.source))


def _check_aligned(small: Static, large: Static) -> None:
    for first, second in zip(small.builder.nodes, large.builder.nodes):
        if (first.kind, first.inputs) != (second.kind, second.inputs):
            raise BatchTraced(f"{_place(first)}: the forward pass differs for {SIZES[0]} and "
                              f"{SIZES[1]} samples; {ADVICE}")
        if first.attributes != second.attributes:
            raise BatchTraced(f"{_place(first)}: the number of samples is in its attributes "
                              f"({_difference(first, second)}); {ADVICE}")
    if len(small.builder.nodes) != len(large.builder.nodes):
        raise BatchTraced(f"the forward pass has {len(small.builder.nodes)} nodes for {SIZES[0]} "
                          f"samples and {len(large.builder.nodes)} for {SIZES[1]}; {ADVICE}")


def _difference(first: Emitted, second: Emitted) -> str:
    return ", ".join(f"{name} = {first.attributes[name]} and {second.attributes[name]}"
                     for name in first.attributes
                     if first.attributes[name] != second.attributes.get(name))


def unify(small: Static, large: Static, state: State, name: str, producer: str) -> Program:
    """The program of two static ones."""
    _check_aligned(small, large)
    return _Writer(_Pair(small, large), state, name, producer).write()


class _Writer:
    """Writes what the loss and the outputs need, with new numbers for the values."""

    def __init__(self, pair: _Pair, state: State, name: str, producer: str):
        self.pair, self.state = pair, state
        self.program = Program(name=name, producer=producer)
        self.numbers: dict[int, int] = {}  # builder's value -> program's value

    def write(self) -> Program:
        static, program = self.pair.small, self.program
        outputs = [(name, val) for name, val in static.outputs if self._is_evaluated(val)]
        needed = _needed(static, outputs)
        self._write_inputs(static)
        self._write_parameters(static)
        for value in sorted(static.builder.constants):
            if value in needed:
                self._write_constant(value)
        for node in static.builder.nodes:
            if node.output in needed:
                self._write_node(node)
        program.loss = self.numbers[static.loss.id]
        program.outputs = [Output(name, self.numbers[val.id]) for name, val in outputs]
        self._write_statistics(static)
        self._write_buffers(static)
        return program

    def _is_evaluated(self, val: Val) -> bool:
        """Whether an evaluation can return it: real numbers, with the samples first."""
        dims = self.pair.dims(val.id, "an output")
        return val.type == "f32" and bool(dims) and dims[0].per_batch

    def _add(self, value: Val, dims: list[Dim]) -> int:
        self.program.values.append(Value(value.type, dims))
        self.numbers[value.id] = len(self.program.values) - 1
        return self.numbers[value.id]

    def _write_inputs(self, static: Static) -> None:
        ranges = input_ranges(static)
        for name, val in static.inputs.items():
            number = self._add(val, self.pair.dims(val.id, f"the input {name}"))
            low, high = ranges[val.id]
            self.program.inputs.append(Input(name, number, low, high))

    def _write_parameters(self, static: Static) -> None:
        for tied in self.state.parameters.values():
            val = static.parameters[tied.names[0]]
            number = self._add(val, [Dim(size) for size in val.shape])
            self.program.parameters.append(Parameter(
                tied.names[0], number, tied.names[1:], tied.tensor.requires_grad))

    def _write_constant(self, value: int) -> None:
        """A constant, or the nodes that make what depends on the number of samples."""
        builders = self.pair.small.builder, self.pair.large.builder
        val, arrays = builders[0].values[value], [b.constants[value] for b in builders]
        dims = self.pair.dims(value, "a constant")
        if not any(dim.per_batch for dim in dims):
            if np.array_equal(*arrays, equal_nan=arrays[0].dtype.kind == "f"):
                self._constant(arrays[0], val.type, self._add(val, dims))
            else:
                self._write_multiple(val, arrays)
        elif all(array.dtype == np.int32 and np.array_equal(array, np.arange(size))
                 for array, size in zip(arrays, SIZES)):
            self._write_count(val, dims)
        else:
            self._write_repeated(val, arrays, dims)

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
        """A number that is a multiple of the samples: one per sample, summed."""
        each = [array / size for array, size in zip(arrays, SIZES)]
        if val.shape or each[0] != each[1] or (val.type == "i32" and each[0] % 1):
            raise _constant_refused(arrays[0])
        one = self._constant(each[0].astype(arrays[0].dtype).reshape(1), val.type)
        wide = self._node("expand", [one], self._value(val.type, [Dim(1, True)]))
        self._node("sum", [wide], self._add(val, []), axes=[0], keepdim=False)

    def _write_count(self, val: Val, dims: list[Dim]) -> None:
        """The numbers of the samples, [0, 1, ...]: the sums of ones, minus one."""
        one = self._constant(np.ones(1, np.float32), "f32")
        wide = self._node("expand", [one], self._value("f32", dims))
        sums = self._node("cumsum", [wide], self._value("f32", dims), axis=0)
        numbers = self._node("add_scalar", [sums], self._value("f32", dims), value=-1.0)
        self._node("cast", [numbers], self._add(val, dims), to="i32")

    def _write_repeated(self, val: Val, arrays: list[np.ndarray], dims: list[Dim]) -> None:
        """A constant that repeats itself for every sample is written once and expanded.

        An extent a * B holds `a` elements for every sample, or every one of `a` elements B times.
        """
        for outer in (True, False):
            apart = _apart(dims, outer)
            varying = [axis for axis, dim in enumerate(apart) if dim.per_batch]
            both = [array.reshape([dim.at(size) for dim in apart])
                    for array, size in zip(arrays, SIZES)]
            once = _first(both[0], varying)
            if all((np.broadcast_to(once, array.shape) == array).all() for array in both):
                break
        else:
            raise _constant_refused(arrays[0])
        source = self._constant(once, val.type)
        if len(apart) == len(dims):
            self._node("expand", [source], self._add(val, dims))
            return
        wide = self._node("expand", [source], self._value(val.type, apart))
        self._node("reshape", [wide], self._add(val, dims))

    def _write_node(self, node: Emitted) -> None:
        val = self.pair.small.builder.values[node.output]
        number = self._add(val, self.pair.dims(node.output, _place(node)))
        inputs = [-1 if i < 0 else self.numbers[i] for i in node.inputs]
        self.program.nodes.append(Node(node.kind, inputs, [number], dict(node.attributes),
                                       node.path, node.source, region=node.region))

    def _write_statistics(self, static: Static) -> None:
        self.program.statistics = [Statistic(*entry) for entry in static.builder.statistics]

    def _write_buffers(self, static: Static) -> None:
        trained = {name for name, _, _ in static.builder.statistics}
        for name in self.state.persistent:
            tensor = self.state.buffers[name].detach().cpu()
            if name in trained:
                continue
            if tensor.dtype not in SAFETENSORS_TYPE:
                raise CaptureError(f"the buffer {name} has the type {tensor.dtype}")
            data = tensor.contiguous().numpy().tobytes()
            self.program.buffers.append(Buffer(name, SAFETENSORS_TYPE[tensor.dtype],
                                               list(tensor.shape), data))


def _constant_refused(array: np.ndarray) -> BatchTraced:
    return BatchTraced(f"a constant of the shape {list(array.shape)} depends on the number of "
                       f"samples; {ADVICE}")


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


def _needed(static: Static, outputs: list[tuple[str, Val]]) -> set[int]:
    """The values that the loss and the outputs depend on."""
    needed = {static.loss.id} | {val.id for _, val in outputs}
    for node in reversed(static.builder.nodes):
        if node.output in needed:
            needed.update(node.inputs)
    return needed
