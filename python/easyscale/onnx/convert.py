"""Converts the operators of a file into a program for one number of samples."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..tracing.errors import Missing, UnsupportedOperators
from ..tracing.graph import Node
from ..tracing.lower.builder import Operand, Val
from ..tracing.lower.table import CannotLower
from ..errors import UsageError
from . import ops  # noqa: F401  fills the table
from .builder import OnnxBuilder
from .errors import OnnxRefused
from .file import Field, OnnxModel, Operation
from .fold import fold, is_foldable, tensor_of
from .table import CONVERSIONS, Call
from .weights import Weights

INPUT_TYPES = {np.dtype(np.float32): "f32", np.dtype(np.int64): "i32", np.dtype(np.int32): "i32",
               np.dtype(np.uint8): "i32", np.dtype(np.bool_): "bool"}


class Inputs:
    """The shapes of the inputs: the samples first, and then what the file or the user says.

    `fixed` is the number of samples that the file has in place of a symbolic one, else None.
    """

    def __init__(self, model: OnnxModel, shapes: Mapping[str, Sequence[int]]):
        unknown = set(shapes) - {field.name for field in model.fields}
        if unknown:
            raise UsageError(f"shapes: {model.name} has no input {sorted(unknown)[0]!r}; its "
                             "inputs are " + ", ".join(field.name for field in model.fields))
        self.types = {field.name: _type(field, model.name) for field in model.fields}
        self.samples = {field.name: _sample(field, shapes.get(field.name), model.name)
                        for field in model.fields}
        self.fixed = _fixed(model)

    def shapes(self, count: int) -> dict[str, tuple[int, ...]]:
        """The shape of every input for `count` samples."""
        return {name: (count, *rest) for name, rest in self.samples.items()}


def _type(field: Field, file: str) -> str:
    if "/" in field.name:
        raise OnnxRefused(f"{file}: the input {field.name} has a / in its name, which is also the "
                          "name of a file with samples: rename it")
    if field.dtype not in INPUT_TYPES:
        raise OnnxRefused(f"{file}: the input {field.name} has the type {field.dtype}: allowed are "
                          + ", ".join(str(dtype) for dtype in INPUT_TYPES))
    return INPUT_TYPES[field.dtype]


def _sample(field: Field, given: Sequence[int] | None, file: str) -> tuple[int, ...]:
    """The extents of one sample."""
    if not field.dims:
        raise OnnxRefused(f"{file}: the input {field.name} is a number: allowed is [samples, ...]")
    rest = field.dims[1:]
    if given is None and any(isinstance(size, str) for size in rest):
        raise UsageError(f"{file}: the input {field.name} has the shape {list(field.dims)}: give "
                         f"the extents of one sample, shapes={{{field.name!r}: (...)}}")
    if given is None:
        return tuple(int(size) for size in rest)
    fits = len(given) == len(rest) and all(
        isinstance(size, str) or size == new for size, new in zip(rest, given))
    if not fits or min(given, default=1) < 1:
        raise UsageError(f"shapes: {field.name} = {tuple(given)}: allowed is what fits "
                         f"{list(rest)}, the extents of one sample in {file}")
    return tuple(int(size) for size in given)


def _fixed(model: OnnxModel) -> int | None:
    """The samples of a file whose first extent is a number, which all inputs must share."""
    first = {field.dims[0] for field in model.fields}
    numbers = {size for size in first if isinstance(size, int)}
    if not numbers:
        return None
    if len(first) > 1:
        raise OnnxRefused(f"{model.name}: the first extents of the inputs are "
                          f"{', '.join(sorted(map(str, first)))}: allowed is one number of samples "
                          "for all, or a symbolic one")
    return numbers.pop()


@dataclass(frozen=True)
class _Unknown:
    """Stands for the result of an operator that could not be converted.

    A shape, and what is computed from shapes, is no data: it would be a constant.
    """

    is_data: bool = True


def _is_data(x: Any) -> bool:
    return isinstance(x, Val) or (isinstance(x, _Unknown) and x.is_data)


class Conversion:
    """The program of a model for `count` samples; `values` has all of its values by name."""

    def __init__(self, model: OnnxModel, weights: Weights, inputs: Inputs, count: int):
        self.model = model
        self.builder = OnnxBuilder(samples=count, fixed_samples=inputs.fixed)
        self.values: dict[str, Any] = {}
        self.missing: list[Missing] = []
        self._uses = model.uses()
        self.inputs = {name: self.builder.new_value(shape, inputs.types[name])
                       for name, shape in inputs.shapes(count).items()}
        self.parameters = {tied.names[0]: self.builder.new_value(tuple(tied.tensor.shape), "f32")
                           for tied in weights.parameters.values()}
        self.builder.weights = {value.id for value in self.parameters.values()}
        self.values |= self.inputs | self.parameters
        self._add_constants(weights)

    def run(self) -> None:
        """Converts all operators. Raises UnsupportedOperators with the list of what is missing."""
        for operation in self.model.operations:
            self._convert(operation)
        self.builder.node = None
        if self.missing:
            raise UnsupportedOperators(self.missing, _advice(self.builder.fixed_samples))

    def _add_constants(self, weights: Weights) -> None:
        for name, tensor in weights.buffers.items():
            self.values[name] = tensor
            self.builder.statistic_names[id(tensor)] = name
        for name, array in weights.constants.items():
            self.values[name] = tensor_of(array)

    def _convert(self, operation: Operation) -> None:
        inputs = [self.values[name] if name else None for name in operation.inputs]
        results: list[Any] = [_Unknown()] * len(operation.outputs)
        if not any(isinstance(x, _Unknown) for x in inputs):
            try:
                results = self._results(operation, inputs)
            except CannotLower as reason:
                self._miss(operation, str(reason))
            except (RuntimeError, ValueError, IndexError) as error:
                self._miss(operation, f"its inputs do not fit: {str(error).splitlines()[0]}")
        elif operation.operator in SHAPES or not any(map(_is_data, inputs)):
            results = [_Unknown(is_data=False)] * len(operation.outputs)
        elif operation.operator not in CONVERSIONS:
            self._miss(operation, NO_KIND)
        for name, result in zip(operation.outputs, results):
            self._store(name, result)

    def _results(self, operation: Operation, inputs: list[Operand | None]) -> list[Operand]:
        constant = not any(isinstance(x, Val) for x in inputs)
        if operation.operator in SHAPES:
            return [_shape(operation, inputs[0])]
        if constant and is_foldable(operation):
            return fold(operation, self.model.opset, inputs)
        rule = CONVERSIONS.get(operation.operator)
        if rule is None:
            raise CannotLower(NO_KIND)
        self.builder.node = Node(operation.operator, {}, [], operation.name)
        call = Call(operation.attributes, len(operation.outputs))
        result = rule(self.builder, call, *inputs)
        results = result if isinstance(result, list) else [result]
        if any(self._uses[name] for name in operation.outputs[len(results):]):
            raise CannotLower("its other outputs are read")
        return results

    def _store(self, name: str, result: Any) -> None:
        self.values[name] = result
        if isinstance(result, Val):
            self.builder.readers[result.id] += self._uses[name]

    def _miss(self, operation: Operation, reason: str) -> None:
        self.missing.append(Missing(operation.operator, reason, operation.name, ""))


NO_KIND = "there is no kind for it"
SHAPES = ("Shape", "Size")  # operators of which the result is known without the input


def _advice(fixed_samples: int | None) -> str:
    if fixed_samples is None:
        return ""
    return (f"The file has the number of samples {fixed_samples} in its inputs, and maybe in what "
            "was computed from it: export it with a symbolic first extent (dynamic_axes)")


def _shape(operation: Operation, x: Operand) -> torch.Tensor:
    sizes = torch.tensor(tuple(x.shape), dtype=torch.int64)
    if operation.operator == "Size":
        return sizes.prod()
    return sizes[operation.attributes.get("start", 0):operation.attributes.get("end")]
