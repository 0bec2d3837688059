"""A captured model: its program with the initial weights."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .program import Program


@dataclass
class Captured:
    """A model file's program, and the initial weights by their names in the state dict.

    `weights` has the parameters and the statistics of batch norms, as fp32 arrays, and the first
    contents of the states.
    """

    program: Program
    weights: dict[str, np.ndarray]

    def save(self, directory: str | Path) -> None:
        """Writes model.json and weights.safetensors into a folder, which is made."""
        from safetensors.numpy import save_file
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.json").write_text(self.program.to_json() + "\n")
        save_file(self.weights, folder / "weights.safetensors")
