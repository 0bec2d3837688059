"""Which array of the user becomes which argument of the model, and which the target of the loss."""
from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from .data import Arrays
from .data.array_samples import FIRST_SAMPLES
from .errors import UsageError
from .tracing.step import argument_names, name_fields



@dataclass(frozen=True)
class Binding:
    """An example for the capture, and the arrays by the names that the captured inputs have."""

    inputs: Any  # a tensor, a tuple or a dict of tensors [samples, ...]
    targets: Any  # the same, or None
    keys: Mapping[str, Any]  # the keys of Arrays.arrays


def bind(model: nn.Module, has_loss: bool, data: Arrays,
         head: Mapping[Any, np.ndarray] | None = None) -> Binding:
    """Binds the arrays, of which `head` are the first samples. Raises UsageError if there is no argument
    or no target for them."""
    if head is None:
        head = data.head(FIRST_SAMPLES)
    target_keys = _target_keys(model, has_loss, data)
    inputs = {key: _tensor(array) for key, array in head.items() if key not in target_keys}
    targets = {key: _target(head[key]) for key in target_keys}
    given = _arguments(inputs, data.is_named)
    wanted = _arguments(targets, data.is_named and len(targets) > 1) if targets else None
    keys_of = {id(tensor): key for key, tensor in (inputs | targets).items()}
    named = name_fields(given, argument_names(model), "input")[1]
    if wanted is not None:
        named = named | name_fields(wanted, [], "label")[1]
    return Binding(given, wanted, {name: keys_of[id(tensor)] for name, tensor in named.items()})


def bind_batch(data: Arrays) -> Binding:
    """What a function (model, batch) -> loss gets: a tensor, a tuple, or a dict by the names of the arrays."""
    head = data.head(FIRST_SAMPLES)
    tensors = {key: _target(array) for key, array in head.items()}
    given = _arguments(tensors, data.is_named)
    keys_of = {id(tensor): key for key, tensor in tensors.items()}
    named = name_fields(given, [], "input")[1]
    return Binding(given, None, {name: keys_of[id(tensor)] for name, tensor in named.items()})


def _arguments(tensors: dict[Any, torch.Tensor], is_named: bool) -> Any:
    if is_named:
        return dict(tensors)
    return next(iter(tensors.values())) if len(tensors) == 1 else tuple(tensors.values())


def _target_keys(model: nn.Module, has_loss: bool, data: Arrays) -> list[Any]:
    keys = list(data.arrays)
    if not data.is_named:
        return _last_key(keys) if has_loss else []
    parameters = inspect.signature(model.forward).parameters
    others = [key for key in keys if key not in parameters]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if not has_loss and others and not takes_any:
        raise UsageError(f"data: the model has no argument {others[0]!r}; its arguments are "
                         + ", ".join(parameters))
    if has_loss and len(others) == len(keys):
        raise UsageError(f"data: no array has the name of an argument of the model: found "
                         f"{', '.join(keys)}; allowed are {', '.join(parameters)}")
    return others if has_loss else []


def _last_key(keys: list[Any]) -> list[Any]:
    if len(keys) < 2:
        raise UsageError("data: there is one array: allowed are the arguments of the model and "
                         "then the target of the loss")
    return keys[-1:]


def _tensor(array: np.ndarray) -> torch.Tensor:
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float32))
    if array.dtype in (np.uint16, np.uint32, np.uint64):
        return torch.from_numpy(array.astype(np.int64))
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))


def _target(array: np.ndarray) -> torch.Tensor:
    """The losses of torch take class numbers of 64 bits."""
    tensor = _tensor(array)
    is_integer = not tensor.is_floating_point() and tensor.dtype != torch.bool
    return tensor.long() if is_integer else tensor
