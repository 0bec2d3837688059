"""What a model of scripts/zoo is."""
import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

RANKS = 2          # ESTs of a job
BATCH = 8          # samples of an EST in a global step
SAMPLES = RANKS * BATCH


@dataclass
class Case:
    """A model with its loss and its samples, as easyscale.capture takes them.

    `inputs` is a tensor, a tuple of tensors or a dict of keyword arguments; `targets` is a tensor
    or a dict of them. Every tensor is [samples, ...].
    """

    model: nn.Module
    loss: Any
    inputs: Any
    targets: Any = None
    allow_functions: tuple = ()

    @property
    def parameters(self):
        """The number of elements of all parameters."""
        return sum(p.numel() for p in self.model.parameters())

    def in_double(self):
        """The same case in double precision."""
        def double(tree):
            if isinstance(tree, dict):
                return {key: double(value) for key, value in tree.items()}
            if isinstance(tree, tuple):
                return tuple(map(double, tree))
            return tree.double() if torch.is_tensor(tree) and tree.is_floating_point() else tree
        return replace(self, model=copy.deepcopy(self.model).double(), inputs=double(self.inputs),
                       targets=double(self.targets))

    def arrays(self):
        """The samples by the names that easyscale.data.arrays takes: texts, or numbers."""
        named = isinstance(self.inputs, dict) or isinstance(self.targets, dict)
        inputs = self.inputs
        if isinstance(inputs, torch.Tensor):
            inputs = (inputs,)
        if not named:
            return dict(enumerate([*inputs, *([] if self.targets is None else [self.targets])]))
        if not isinstance(inputs, dict):
            inputs = dict(zip(inspect.signature(self.model.forward).parameters, inputs))
        targets = self.targets
        if isinstance(targets, torch.Tensor):
            targets = {"target": targets}
        return inputs | (targets or {})

    def loss_of(self, rows, scaled=None):
        """The loss of the samples `rows`; `scaled` multiplies the inputs that are real numbers."""
        def pick(tree):
            if isinstance(tree, dict):
                return {key: pick(value) for key, value in tree.items()}
            if isinstance(tree, tuple):
                return tuple(pick(value) for value in tree)
            part = tree[rows]
            return scaled(part) if scaled and part.is_floating_point() else part
        inputs = pick(self.inputs)
        if isinstance(inputs, dict):
            outputs = self.model(**inputs)
        else:
            outputs = self.model(*inputs) if isinstance(inputs, tuple) else self.model(inputs)
        if self.loss is not None:
            return self.loss(outputs, tree_of(self.targets, rows))
        return outputs if isinstance(outputs, torch.Tensor) else outputs.loss


def tree_of(targets, rows):
    """The targets of some samples."""
    if isinstance(targets, dict):
        return {key: value[rows] for key, value in targets.items()}
    return targets[rows]


@dataclass
class Entry:
    """A model that is made when it is needed."""

    family: str
    name: str
    make: Callable[[], Case]


def without_dropout(model):
    """Sets every probability of a dropout to 0, because its random numbers are not PyTorch's."""
    for module in model.modules():
        drops = any(word in type(module).__name__ for word in ("Dropout", "StochasticDepth"))
        for name, value in vars(module).items():
            if isinstance(value, float) and ("drop" in name or (drops and name == "p")):
                setattr(module, name, 0.0)
    return model


def entries_of(cases):
    """The entries of a table of users' models."""
    return [Entry("users", name, make) for name, make in cases.items()]


def case(model, loss, inputs, targets=None):
    """Makes a case of functions that make its parts."""
    return lambda: Case(model(), loss() if isinstance(loss, type) else loss, inputs(),
                        None if targets is None else targets())


def floats(*shape):
    return torch.randn(SAMPLES, *shape)


def integers(high, *shape):
    return torch.randint(0, high, (SAMPLES, *shape))
