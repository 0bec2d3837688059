"""Several optimizers as one."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.optim import Optimizer


class Together(Optimizer):
    """Optimizers of disjoint parameters, which make their steps one after the other."""

    def __init__(self, parts: Sequence[Optimizer]):
        self.parts = list(parts)
        self.param_groups = [group for part in parts for group in part.param_groups]
        self.defaults, self.state = {}, {}  # type: ignore[assignment]
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = {}, {}  # type: ignore[assignment]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()


def together(parts: Sequence[Optimizer]) -> Optimizer:
    """One optimizer that makes the steps of all of these."""
    return parts[0] if len(parts) == 1 else Together(parts)


def parts_of(optimizer: Optimizer) -> list[Optimizer]:
    """The optimizers that were given."""
    return optimizer.parts if isinstance(optimizer, Together) else [optimizer]
