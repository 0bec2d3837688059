"""The state of what is traced beside a file of ONNX, as a lowering needs it."""
from __future__ import annotations

from collections.abc import Mapping

import torch


class BufferState:
    """Buffers, and no parameters."""

    def __init__(self, buffers: Mapping[str, torch.Tensor]):
        self.buffers = dict(buffers)

    def name_of(self, target: str) -> str:
        """The name of a buffer, which is its own."""
        return target

    def tensors(self) -> dict[str, torch.Tensor]:
        """The buffers by name."""
        return self.buffers

    def counters(self) -> set[str]:
        """Counts of mini-batches, of which there are none."""
        return set()

    def frozen(self) -> set[str]:
        """Parameters that are not trained, of which there are none."""
        return set()
