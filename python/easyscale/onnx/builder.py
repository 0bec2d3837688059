"""The builder of a program, with what the conversion of ONNX asks about nodes it has made."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..tracing.lower.builder import Builder, Operand


@dataclass
class OnnxBuilder(Builder):
    """`weights` are the values of parameters.

    `fixed_samples` is the number of samples that the file has in place of a symbolic one, if any,
    and `samples` the number of this program. `statistic_names` has the names of running means and
    variances by the identity of their tensors.
    """

    weights: set[int] = field(default_factory=set)
    fixed_samples: int | None = None
    samples: int = 0
    statistic_names: dict[int, str] = field(default_factory=dict)
    sites: int = 0

    def new_site(self) -> int:
        """The number of a random site, in the order of the file."""
        self.sites += 1
        return self.sites - 1

    def site_of(self, x: Operand) -> int:
        """The random site of the dropout that has made a value, else -1."""
        node = self.made(x, "dropout")
        return node.attributes["site"] if node else -1

    def is_weight(self, x: Operand) -> bool:
        """True for a constant, and for a parameter, maybe with its axes in another order."""
        moved = self.made(x, "reshape", "permute")
        if moved is not None:
            return self.is_weight(self.read(moved, 0))
        return isinstance(x, torch.Tensor) or x.id in self.weights

    def permute(self, x: Operand, order: Any) -> Operand:
        """`x` with its axes in another order; two permutations are one."""
        order = [axis % x.dim() for axis in order]
        before = self.made(x, "permute")
        if before is not None:
            earlier = before.attributes["order"]
            return self.permute(self.read(before, 0), [earlier[axis] for axis in order])
        return super().permute(x, order)

