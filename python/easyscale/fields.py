"""Which array of the user is which input of a captured model."""
from __future__ import annotations

from typing import Any

import numpy as np

from .data import Arrays
from .errors import UsageError
from .program import Program, Value

BYTE = np.dtype(np.uint8)


def bind_fields(program: Program, data: Arrays) -> dict[str, Any]:
    """The key of an array for every input. Raises UsageError if an array does not fit.

    Arrays without names are the inputs in their order. Of the arrays with names one may have a name
    of its own, if one input is left for it.
    """
    names = [field.name for field in program.inputs]
    keys = list(data.arrays)
    if len(keys) != len(names):
        raise UsageError(f"data has {len(keys)} arrays: allowed are {len(names)}, the inputs "
                         f"{', '.join(names)} of the model")
    bound = _by_name(names, keys) if data.is_named else dict(zip(names, keys))
    head = data.head(1)
    for field in program.inputs:
        _check(field.name, program.values[field.value], head[bound[field.name]])
    return bound


def _by_name(names: list[str], keys: list[str]) -> dict[str, str]:
    rest = [key for key in keys if key not in names]
    missing = [name for name in names if name not in keys]
    if len(rest) > 1:
        raise UsageError(f"data: the model has no inputs {', '.join(rest)}; its inputs are "
                         f"{', '.join(names)}")
    return {name: name for name in names if name in keys} | dict(zip(missing, rest))


def _check(name: str, value: Value, array: np.ndarray) -> None:
    wanted = value.shape(1)[1:]
    if array.shape[1:] != wanted:
        raise UsageError(f"data: the input {name} has samples of the shape {array.shape[1:]}: "
                         f"allowed is {wanted}")
    if not _takes(value.type, array.dtype):
        raise UsageError(f"data: the input {name} has elements of the type {array.dtype}, but the "
                         f"model takes {value.type}")


def _takes(type_: str, dtype: np.dtype) -> bool:
    """Whether an input of a type takes elements as they are stored in files."""
    if type_ == "f32":
        return dtype.kind == "f" or dtype == BYTE
    return dtype.kind in "iub" if type_ == "i32" else dtype in (BYTE, np.dtype(np.bool_))
