"""Adapters (LoRA) of a job."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .errors import UsageError
from .settings import check_table


@dataclass(frozen=True)
class Lora:
    """The table [lora] of a job file (docs/JOB-FILE.md), with the same keys.

    Beside each linear layer that `targets` names, y = W x + (alpha / rank) B A x, where only A and B
    are trained, and nothing else of the model.
    """

    targets: Sequence[str]  # modules or their weights; "*" stands for any characters
    rank: int = 8
    alpha: float = 8.0
    dropout: float = 0.0  # of the input of A

    def __post_init__(self) -> None:
        if isinstance(self.targets, str) or not self.targets:
            raise UsageError(f"targets = {self.targets!r}: allowed is a list of at least one name")
        check_table(self, "lora")
        if self.rank == 0:
            raise UsageError("rank = 0: allowed is at least 1")
        object.__setattr__(self, "targets", tuple(self.targets))

    def table(self) -> dict[str, Any]:
        """The keys of the table."""
        return asdict(self)
