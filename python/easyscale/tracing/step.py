"""The wrapper that is traced: flat tensors in, the loss and the named outputs out."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import nn

from .errors import CaptureError, LossNotScalar

Loss = nn.Module | Callable[[Any, Any], torch.Tensor] | None


@dataclass
class Fields:
    """The tensors of a sample by name, and how the user passes them.

    `tree` is what the user gave, with names in place of tensors: a tensor, a tuple or a dict.
    """

    names: list[str]
    tree: Any

    def rebuild(self, tensors: dict[str, torch.Tensor]) -> Any:
        """What the user would pass, with these tensors."""
        return _rebuild(self.tree, tensors)


@dataclass(frozen=True)
class _Field:
    name: str


def _rebuild(tree: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(tree, _Field):
        return tensors[tree.name]
    if isinstance(tree, (list, tuple)):
        return tuple(_rebuild(item, tensors) for item in tree)
    if isinstance(tree, dict):
        return {key: _rebuild(item, tensors) for key, item in tree.items()}
    return tree


def name_fields(example: Any, names: list[str], prefix: str) -> tuple[Fields, dict]:
    """Names the tensors of an example: (fields, tensors by name).

    A dict has its keys, a tuple the `names`, then `prefix` and a number; one tensor alone is
    `prefix` if `names` has no other for it.
    """
    tensors: dict[str, torch.Tensor] = {}

    def visit(item: Any, name: str) -> Any:
        if isinstance(item, torch.Tensor):
            tensors[name] = item
            return _Field(name)
        if isinstance(item, dict):
            return {key: visit(value, str(key)) for key, value in item.items()}
        if isinstance(item, (list, tuple)):
            return tuple(visit(value, names[i] if i < len(names) else f"{prefix}{i}")
                         for i, value in enumerate(item))
        return item
    tree = visit(example, names[0] if names else prefix)
    return Fields(list(tensors), tree), tensors


def argument_names(model: nn.Module) -> list[str]:
    """The names of the positional arguments of forward; a short name such as `x` is "input"."""
    known = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, parameter in inspect.signature(model.forward).parameters.items()
             if parameter.kind in known]
    if names and len(names[0]) == 1 and len([n for n in names if len(n) == 1]) == 1:
        names[0] = "input"
    return names


def flatten(tree: Any, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """The tensors of an output with their paths: keys, names of fields, or numbers."""
    if isinstance(tree, torch.Tensor):
        return [(name or "output", tree)]
    if isinstance(tree, dict):
        items = list(tree.items())
    elif hasattr(tree, "_fields"):
        items = list(zip(tree._fields, tree))
    elif isinstance(tree, (list, tuple)):
        items = list(enumerate(tree))
    elif is_dataclass(tree):
        items = [(f.name, getattr(tree, f.name)) for f in fields(tree)]
    else:
        return []
    parts = (flatten(item, f"{name}.{key}" if name else str(key)) for key, item in items)
    return [entry for part in parts for entry in part]


class OutputNames:
    """The names of the outputs of the last call; an object, because torch.export refuses a module
    whose lists change."""

    def __init__(self) -> None:
        self.names: list[str] = []


class Step(nn.Module):
    """The forward pass of a model, followed by its loss if `with_loss`."""

    def __init__(self, model: nn.Module, loss: Loss, inputs: Fields, targets: Fields | None):
        super().__init__()
        self.model = model
        if isinstance(loss, nn.Module):
            self.loss = loss
        self._loss = [loss]  # in a list, so that a module is registered once
        self.fields = [inputs, targets]
        self.with_loss = True
        self.outputs = OutputNames()

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns (loss, outputs...), or (outputs...) without a loss."""
        inputs, targets = self.fields
        named = dict(zip(self.names(), tensors))
        given = inputs.rebuild(named)
        outputs = self._call(given)
        results = [entry for entry in flatten(outputs) if entry[0] != "loss" or self._loss[0]]
        loss = self._loss_of(outputs, targets.rebuild(named) if targets else None)
        if self._loss[0] is None:
            results = [entry for entry in results if entry[1] is not loss]
        self.outputs.names = [name for name, _ in results]
        flat = tuple(tensor for _, tensor in results)
        return (loss, *flat) if self.with_loss else flat

    def names(self) -> list[str]:
        """The names of the arguments of forward, in their order."""
        return [name for part in self.fields if part is not None for name in part.names]

    def roots(self) -> dict[str, Any]:
        """Where the Python state of a forward pass may be, by names for a message."""
        return {"model": self.model, "loss": self._loss[0]}

    def _call(self, given: Any) -> Any:
        if isinstance(given, dict):
            return self.model(**given)
        return self.model(*given) if isinstance(given, tuple) else self.model(given)

    def _loss_of(self, outputs: Any, targets: Any) -> torch.Tensor | None:
        if not self.with_loss:
            return None
        if self._loss[0] is not None:
            loss = self._loss[0](outputs, targets)
        elif isinstance(outputs, torch.Tensor):
            loss = outputs
        else:
            loss = outputs["loss"] if isinstance(outputs, dict) else getattr(outputs, "loss", None)
        return _checked(loss)


class LossStep(Step):
    """A function (model, batch) -> loss, which calls the parts of the model itself."""

    def __init__(self, model: nn.Module, function: Callable[[Any, Any], Any], batch: Fields):
        super().__init__(model, None, batch, None)
        self._function = [function]  # in a list, so that a function that is a module is not registered

    def roots(self) -> dict[str, Any]:
        """As of Step, with the function."""
        return super().roots() | {"loss": self._function[0]}

    def _call(self, given: Any) -> Any:
        return self._function[0](self.model, given)


def _checked(loss: Any) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor):
        kind = "a Python number" if isinstance(loss, (int, float, torch.SymFloat)) else (
            type(loss).__name__)
        raise LossNotScalar(f"the loss is {kind}, but must be a tensor with one number; pass a "
                            "function (outputs, targets) -> tensor")
    if loss.numel() != 1 or not loss.dtype.is_floating_point:
        raise LossNotScalar(f"the loss has the shape {list(loss.shape)} and the type {loss.dtype}, "
                            "but must be one number; reduce it with .mean() or .sum()")
    return loss.reshape(())


def with_samples(tensors: dict[str, torch.Tensor], count: int) -> dict[str, torch.Tensor]:
    """The example repeated or cut to `count` samples; every tensor is [samples, ...]."""
    sizes = {name: tensor.shape[0] if tensor.dim() else None for name, tensor in tensors.items()}
    if len(set(sizes.values())) != 1 or None in sizes.values() or 0 in sizes.values():
        raise CaptureError("the tensors of the example must have the samples as their first axis, "
                           f"and the same number of them: {sizes}")
    size = next(iter(sizes.values()))
    index = torch.arange(count) % size
    return {name: tensor.detach()[index].clone() for name, tensor in tensors.items()}
