"""The builder of a program, with what the conversion of ONNX asks about nodes it has made."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from ..tracing.lower.builder import Builder, Emitted, Operand, Val


@dataclass
class OnnxBuilder(Builder):
    """`weights` are the values of parameters, and `readers` says how often a value is read.

    `fixed_samples` is the number of samples that the file has in place of a symbolic one, if any,
    and `samples` the number of this program. `statistic_names` has the names of running means and
    variances by the identity of their tensors.
    """

    weights: set[int] = field(default_factory=set)
    readers: Counter[int] = field(default_factory=Counter)
    fixed_samples: int | None = None
    samples: int = 0
    statistic_names: dict[int, str] = field(default_factory=dict)
    sites: int = 0
    _makers: dict[int, Emitted] = field(default_factory=dict)
    _seen: int = 0

    def made(self, x: Operand | None, *kinds: str) -> Emitted | None:
        """The node that has made a value, if it is of one of these kinds."""
        for node in self.nodes[self._seen:]:
            self._makers[node.output] = node
        self._seen = len(self.nodes)
        node = self._makers.get(x.id) if isinstance(x, Val) else None
        return node if node is not None and node.kind in kinds else None

    def read(self, node: Emitted, index: int) -> Operand | None:
        """An input of a node: a value, a constant, or None if the node does not have it."""
        number = node.inputs[index] if index < len(node.inputs) else -1
        if number in self.constants:
            return torch.from_numpy(self.constants[number]).to(_CONSTANT[self.values[number].type])
        return self.values[number] if number >= 0 else None

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


_CONSTANT = {"f32": torch.float32, "i32": torch.int64, "bool": torch.bool}
