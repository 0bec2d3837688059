"""Converts the operators of a file into a program for one number of samples."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..tracing.errors import Missing, UnsupportedOperators
from ..tracing.graph import Node
from ..tracing.lower.builder import Operand, Val
from ..tracing.lower.table import CannotLower
from . import ops  # noqa: F401  fills the table
from .builder import OnnxBuilder
from .file import OnnxModel, Operation
from .fold import fold, is_foldable, tensor_of
from .inputs import Inputs
from .table import CONVERSIONS, Call
from .weights import Weights


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
        for name, tensor in weights.statistics.items():
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
