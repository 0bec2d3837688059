"""The inputs of an ONNX file: their types, and which extents are the samples."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import UsageError
from .errors import OnnxRefused
from .file import Field, OnnxModel

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
