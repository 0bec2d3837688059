"""What a model of scripts/zoo is."""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

SAMPLES = 3
LARGE = 200_000_000  # parameters, above which a model is not compared


@dataclass
class Case:
    """A model with its loss and an example, as easyscale.capture takes them."""

    model: nn.Module
    loss: Any
    inputs: Any
    targets: Any = None
    allow_functions: tuple = ()

    @property
    def large(self):
        return sum(p.numel() for p in self.model.parameters()) > LARGE


@dataclass
class Entry:
    """A model that is made when it is needed."""

    family: str
    name: str
    make: Callable[[], Case]
